// Package topology tests what Holdfast promises in each topology and each mode
// of replication while something goes wrong. The tests run on real servers that
// are killed, paused, partitioned and misconfigured. The table of faults in
// docs/guarantees.md names the test of each.
package topology
