// Package bench_test measures the library, side by side with a bare client.
package bench_test

import (
	"maps"
	"testing"

	"github.com/holdfast-go/holdfast/bench"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// workers are the programs that a test can start as a process of its own, by
// name. Test files add theirs in init.
var workers = map[string]func(){}

func TestMain(m *testing.M) {
	maps.Copy(workers, bench.Workers)
	locktest.Main(m, workers)
}
