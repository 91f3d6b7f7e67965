// Package redistest is the harness for tests that need a real Redis server and
// network faults.
//
// It runs real redis-server processes ([Start], [Shared], [Fresh]), which tests
// may pause, kill and restart. A [Proxy] between client and server understands
// the protocol. It can freeze, delay and cut connections, and drop the reply to
// a chosen command.
//
// [StartReplicated], [StartSentinels] and [StartCluster] run groups of servers
// with real failovers and slot migrations. With options, they use TLS and
// passwords, have clocks that tests can move ([Server.MoveClock]), and are
// connected by a [Network] that can separate any two of them.
//
// [MeterStalls] distinguishes a slow machine from a defect.
//
// [Worker] runs code of a test in a separate process. [Recorder] and
// [CheckExclusive] verify that critical sections of several processes do not
// overlap. [CheckGoroutines] verifies that a test leaves no goroutine running.
//
// All resources are released in the Cleanup of the test that requested them. On
// Linux, servers and workers end when the test binary is killed. On other
// systems they may keep running.
package redistest
