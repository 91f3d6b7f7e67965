package holdfast

import (
	"math/rand/v2"
	"time"
)

// A Backoff configures the pauses of [Poll]. The first pause is Initial. Each
// further pause is Multiplier times the last one, plus a little jitter, up to
// Max. Zero fields have Redisson's defaults: 1 ms, 2 and 128 ms. With a
// Multiplier of 1 all pauses have the same length.
type Backoff struct {
	Initial    time.Duration // the first pause
	Max        time.Duration // the longest pause
	Multiplier int           // the factor between two pauses
}

func (b Backoff) withDefaults() Backoff {
	if b.Initial == 0 {
		b.Initial = time.Millisecond
	}
	if b.Multiplier == 0 {
		b.Multiplier = 2
	}
	if b.Max == 0 {
		b.Max = max(b.Initial, 128*time.Millisecond)
	}
	return b
}

func (b Backoff) check() error {
	d := b.withDefaults()
	switch {
	case d.Initial < 0 || d.Max < 0 || d.Multiplier < 1:
		return invalid("Backoff %+v: Initial, Max and Multiplier cannot be negative", b)
	case d.Max < d.Initial:
		return invalid("Backoff.Max is %v: choose at least Backoff.Initial (%v)", d.Max, d.Initial)
	case d.Max > time.Hour:
		return invalid("Backoff.Max is %v: choose at most an hour", d.Max)
	}
	return nil
}

// pause returns the pause after the given number of failures in a row.
func (b Backoff) pause(failures int) time.Duration {
	d := b.Initial
	for i := 1; i < failures && d < b.Max && b.Multiplier > 1; i++ {
		if d > b.Max/time.Duration(b.Multiplier) {
			return b.Max // avoids an overflow
		}
		d = d*time.Duration(b.Multiplier) + rand.N(time.Duration(i)*time.Millisecond)
	}
	return min(d, b.Max)
}
