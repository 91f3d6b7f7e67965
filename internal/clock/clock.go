// Package clock measures the age of a lease.
//
// Go's monotonic clock stops while a machine sleeps, but the lease on the
// server does not: after a laptop or a virtual machine resumes, its leases
// would look valid. So Now uses the larger of the monotonic clock and, if the
// system has one, the clock that includes sleep. The wall clock is not used, so
// setting the time has no effect.
package clock

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

var (
	start     = time.Now()
	boot      = sinceBoot
	startBoot = sinceBoot()
	slept     atomic.Int64 // the known time that the monotonic clock is behind
	ahead     atomic.Int64 // the time that the wall clock was ahead of the monotonic clock when boot was last read
)

// Now returns the time since a fixed moment before the first call.
//
// To read the clock that includes sleep takes a system call, which costs more than the
// rest of an acquisition. So Now reads it only if the machine may have slept: a sleep also
// puts the wall clock ahead of the monotonic clock. If the wall clock is set, Now reads
// the other clock once more than it has to.
func Now() time.Duration {
	t := time.Now()
	now := t.Sub(start)
	if lead := t.UnixNano() - int64(now); !near(lead, ahead.Load()) {
		noteSleep()
		ahead.Store(lead) // of before the reading, so that a sleep since then is not missed
		now = time.Since(start)
	}
	return now + time.Duration(slept.Load())
}

// near reports whether two times differ by less than a millisecond.
func near(a, b int64) bool { return max(a, b)-min(a, b) < int64(time.Millisecond) }

// noteSleep reads the clock that includes sleep.
func noteSleep() {
	awake := boot() - startBoot // read first: a pause before the next line must not look like sleep
	behind := int64(awake - time.Since(start))
	for known := slept.Load(); behind > known+int64(time.Millisecond); known = slept.Load() { // less is only the time between the two readings
		slept.CompareAndSwap(known, behind)
	}
}

// Early returns a time that is not after Now, at a lower cost. It is behind Now
// by the time that the machine has slept since the last call of Now. So after a
// sleep, a lease that starts at Early ends too early, never too late.
func Early() time.Duration { return time.Since(start) + time.Duration(slept.Load()) }

// Fake makes the clock follow [time.Now] alone, for tests with faked time. Call
// it from an init function.
func Fake() {
	start = time.Unix(0, 0)
	boot = func() time.Duration { return startBoot }
}

// Random returns a random time below d, to spread what would otherwise happen at
// once.
func Random(d time.Duration) time.Duration { return time.Duration(random(int64(d))) }

// RetryPause returns a random pause before a call is sent again that has failed, and that is
// otherwise sent once in a period.
func RetryPause(period time.Duration) time.Duration {
	pause := min(max(period/20, 5*time.Millisecond), time.Second)
	return pause/2 + Random(pause)
}

var random = rand.Int64N

// Seed makes [Random] depend on the seed and the time alone, for tests with faked time.
func Seed(seed uint64) {
	random = func(n int64) int64 {
		return rand.New(rand.NewPCG(seed, uint64(time.Now().UnixNano()))).Int64N(n)
	}
}

// Skip moves the clock forward, as after a sleep of the machine. It is for
// tests.
func Skip(d time.Duration) { slept.Add(int64(d)) }

// Rounded returns a duration as people read it, for errors and log records: with one decimal of
// a second, with whole seconds from a minute on, and with whole milliseconds below a second.
func Rounded(d time.Duration) time.Duration {
	switch abs := d.Abs(); {
	case abs < time.Second:
		return d.Round(time.Millisecond)
	case abs < time.Minute:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}
