// Package soak_test runs all kinds of locks on real servers under random faults for as long
// as it is told, and judges what the processes have recorded.
//
// A soak is a series of rounds. In each, several processes (worker_test.go) use the locks, and
// append to files what happens to each call. The conductor (soak_test.go) kills and stops these
// processes, and harms the servers and the network (faults_test.go). At the end of the round, it
// looks at what is left at the servers, and judge (judge_test.go), a pure function, judges the
// records. report_test.go writes the result. Servers with replicas are used in mode Strict.
//
// These are judged:
//
//   - P1, P3: the times at which Valid was true, and tokens.
//   - P2: contexts that outlive their leases, and leases lost without a fault.
//   - P5: how long a call waits for what no process holds, while nothing keeps it from the server: 2 s
//     if nothing was wrong for 20 s, otherwise the bound in docs/guarantees.md and 2 s.
//   - P7: goroutines; keys, channels and permits at the servers.
//   - P8: limited waits, and errors that no fault explains.
//
// TestJudge plants each sort of fault in made-up records.
package soak_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/locktest"
)

func TestMain(m *testing.M) {
	locktest.Main(m, map[string]func(){"soak": work})
}
