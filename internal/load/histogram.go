package load

import (
	"math"
	"math/bits"
	"time"
)

// A Histogram counts durations in classes. The bounds of a class differ by less than 1 %, or
// by 1 ns.
type Histogram struct {
	Classes []int64
	Count   int64
	Max     time.Duration
}

// class returns the class of a duration: its eight highest bits, and how many bits follow.
func class(d time.Duration) int {
	n := uint64(max(d, 0))
	more := max(0, bits.Len64(n)-8)
	return more<<7 + int(n>>more)
}

// least returns the shortest duration of a class.
func least(class int) time.Duration {
	more := max(0, class>>7-1)
	return time.Duration(class-more<<7) << more
}

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) {
	h.grow(class(d) + 1)
	h.Classes[class(d)]++
	h.Count++
	h.Max = max(h.Max, d)
}

// grow makes room for n classes.
func (h *Histogram) grow(n int) {
	if missing := n - len(h.Classes); missing > 0 {
		h.Classes = append(h.Classes, make([]int64, missing)...)
	}
}

// Merge adds the durations of other.
func (h *Histogram) Merge(other Histogram) {
	h.grow(len(other.Classes))
	for c, n := range other.Classes {
		h.Classes[c] += n
	}
	h.Count += other.Count
	h.Max = max(h.Max, other.Max)
}

// Percentile returns the duration that p percent do not exceed, or 0 if there are none.
func (h *Histogram) Percentile(p float64) time.Duration {
	rank := int64(math.Ceil(float64(h.Count) * p / 100))
	for c, n := range h.Classes {
		if rank -= n; rank <= 0 {
			return min(least(c+1)-1, h.Max)
		}
	}
	return h.Max
}

// Below returns how many durations belong to classes that begin below d.
func (h *Histogram) Below(d time.Duration) (sum int64) {
	for c, n := range h.Classes {
		if least(c) >= d {
			break
		}
		sum += n
	}
	return sum
}
