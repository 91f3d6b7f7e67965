// Package bench_test measures the library, side by side with a bare client. The directory peers
// has the loads that other libraries can run, too: many names, many readers, several processes,
// wake-ups, and refused permits.
package bench_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/bench"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

func TestMain(m *testing.M) { locktest.Main(m, bench.Workers) }
