// Package conformance_test checks the contract of every kind of lock, in every
// topology and as a user with the least rights. The number in the name of a test
// is the id of a rule.
package conformance_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/locktest"
)

// workers are the programs that a test can start as a process of its own, by
// name. Test files add theirs in init.
var workers = map[string]func(){}

func TestMain(m *testing.M) { locktest.Main(m, workers) }
