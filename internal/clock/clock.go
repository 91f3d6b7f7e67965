// Package clock measures how long a lease has lived.
//
// Go's monotonic clock stands still while a machine sleeps, but the lease at
// the server does not: after a suspended laptop or virtual machine resumes,
// its leases would look fresh. Now therefore takes the larger of the monotonic
// clock and, where the system has one, the clock that counts sleep too. No
// wall clock takes part, so setting the time harms nobody.
package clock

import (
	"sync/atomic"
	"time"
)

var (
	start     = time.Now()
	boot      = sinceBoot
	startBoot = sinceBoot()
	slept     atomic.Int64 // how far the monotonic clock is known to be behind
)

// Now returns the time since some moment before the program's first call.
func Now() time.Duration {
	awake := boot() - startBoot // read first: a pause before the next line must not look like sleep
	now := time.Since(start)
	behind := int64(awake - now)
	for {
		known := slept.Load()
		if behind <= known+int64(time.Millisecond) { // not asleep: only the two readings lie apart
			return now + time.Duration(known)
		}
		slept.CompareAndSwap(known, behind)
	}
}

// Early returns a time that is not after Now. It is cheaper, and late by as
// much as the machine has slept since the last call of Now. So a lease that
// counts from Early ends too soon after a sleep, never too late.
func Early() time.Duration { return time.Since(start) + time.Duration(slept.Load()) }

// Fake makes the clock follow [time.Now] alone, for the tests of a package that
// run in faked time. Call it from an init function.
func Fake() {
	start = time.Unix(0, 0)
	boot = func() time.Duration { return startBoot }
}

// Skip makes the clock jump forward, as it does when a machine wakes up from
// sleep. Tests use it.
func Skip(d time.Duration) { slept.Add(int64(d)) }
