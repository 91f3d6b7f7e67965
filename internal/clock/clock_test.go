package clock

import "testing"

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}
