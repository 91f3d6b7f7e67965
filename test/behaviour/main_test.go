// Package behaviour_test checks what each primitive does on a healthy server.
package behaviour_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/locktest"
)

// workers are the programs that a test can start as a process of its own, by
// name. Test files add theirs in init.
var workers = map[string]func(){}

func TestMain(m *testing.M) { locktest.Main(m, workers) }
