package locktest

import (
	"slices"
	"sync"
	"time"
)

const (
	runBeat = 50 * time.Millisecond
	// runSlack is the delay of a beat that still counts as running: scheduling on a
	// busy machine.
	runSlack = 250 * time.Millisecond
)

// pauses records when this process did not run.
var pauses struct {
	sync.Mutex
	last time.Time // the last beat
	list []pause
}

type pause struct{ from, to time.Time }

func init() {
	pauses.last = time.Now()
	go func() {
		for range time.Tick(runBeat) {
			beat(time.Now())
		}
	}()
}

// beat records a pause if the last beat was long ago.
func beat(now time.Time) {
	pauses.Lock()
	defer pauses.Unlock()
	if now.Sub(pauses.last) > runBeat+runSlack {
		pauses.list = append(pauses.list, pause{pauses.last.Add(runBeat), now})
	}
	pauses.last = now
}

// Took returns how long this process has run since start. It leaves out the time
// in which the machine stood still. A test uses it instead of time.Since to check
// that something did not take too long.
func Took(start time.Time) time.Duration {
	now := time.Now()
	took := now.Sub(start)
	pauses.Lock()
	defer pauses.Unlock()
	list := pauses.list
	if now.Sub(pauses.last) > runBeat+runSlack {
		list = append(slices.Clip(list), pause{pauses.last.Add(runBeat), now})
	}
	for _, p := range list {
		if from := later(p.from, start); from.Before(p.to) && !p.to.After(now) {
			took -= p.to.Sub(from)
		}
	}
	return took
}

// Stalled returns how long this process has not run since start.
func Stalled(start time.Time) time.Duration { return time.Since(start) - Took(start) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Receive waits for a value for as long as limit. Only the time in which this process
// runs counts.
func Receive[T any](ch <-chan T, limit time.Duration) (v T, ok bool) {
	for start, left := time.Now(), limit; ; left = max(limit-Took(start), runBeat) {
		over := left <= 0 || Took(start) >= limit // before the look: a value that comes after the limit counts
		select {
		case v := <-ch:
			return v, true
		case <-time.After(left):
		}
		if over {
			return v, false
		}
	}
}
