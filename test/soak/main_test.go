// Package soak_test runs all kinds of locks on real servers under random faults for as long
// as it is told, and judges what the processes have recorded.
//
// A soak is a series of rounds. In each, several processes (worker_test.go) use the locks, and
// append to files what happens to each call. The conductor (soak_test.go) kills and stops these
// processes, and harms the servers and the network (faults_test.go). At the end of the round, it
// looks at what is left at the servers, and judge (judge_test.go), a pure function, judges the
// records. report_test.go writes the result.
package soak_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/locktest"
)

func TestMain(m *testing.M) {
	locktest.Main(m, map[string]func(){"soak": work})
}
