package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
)

// The first in the queue looks when the lease ends, those behind it later and seldom, and all
// of them soon after they have joined.
func TestLookAfter(t *testing.T) {
	const poll = 5 * time.Second
	tests := map[string]struct {
		n    int
		ttl  time.Duration
		open bool
		want time.Duration
	}{
		"first":                    {1, time.Minute, false, poll},
		"first, a short lease":     {1, time.Second, false, 1001 * time.Millisecond},
		"first, without end":       {1, -1, false, poll},
		"second, a short lease":    {2, time.Second, false, 1006 * time.Millisecond},
		"far behind":               {125, time.Second, false, 10 * time.Second},
		"at the end":               {1e6, time.Second, false, maxLook},
		"an open request":          {250, time.Minute, true, openLook},
		"an open request, a short": {1, 500 * time.Millisecond, true, 501 * time.Millisecond},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, last := place{n: test.n}, lastAnswer{}
				last.hold(time.Hour)
				if d := p.lookAfter(poll, &last, false); d < firstLook || d > 2*firstLook {
					t.Errorf("looks for the first time after %v", d)
				}
				time.Sleep(2 * firstLook)
				last.hold(test.ttl)
				if d := p.lookAfter(poll, &last, test.open); d != test.want {
					t.Errorf("looks after %v, want %v", d, test.want)
				}
			})
		})
	}
}

// The last answer grows older, and a lock that is held for less than a millisecond is held.
func TestLastAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lastAnswer
		if l.remaining() != 0 {
			t.Error("a lock is held before the first answer")
		}
		l.take(&script.Verdict{TTL: time.Second, Key: "k", Why: "full", Plain: true})
		time.Sleep(300 * time.Millisecond)
		if left := l.remaining(); left != 700*time.Millisecond {
			t.Errorf("%v are left", left)
		}
		if d := l.pollAfter(5*time.Second, 2*time.Second, true); d != time.Second+time.Millisecond {
			t.Errorf("polls after %v", d)
		}
		b := &Busy{}
		l.explain(b)
		if b.Key != "k" || b.Why != "full" || b.Holder != plainHolder {
			t.Errorf("busy: %+v", b)
		}
		l.take(&script.Verdict{})
		if left := l.remaining(); left != time.Millisecond {
			t.Errorf("%v are left", left)
		}
		l.take(&script.Verdict{TTL: -1})
		if left, d := l.remaining(), l.pollAfter(5*time.Second, 2*time.Second, false); left != -1 || d != 2*time.Second {
			t.Errorf("%v are left, polls after %v", left, d)
		}
	})
}

// A process that has released the lock lets its rivals ask first, less often if they were
// faster.
func TestTurnDelay(t *testing.T) {
	u := turn{gate: &gate{rivals: rivals{n: 2}}}
	if d := u.delay(0); d != 0 {
		t.Errorf("waits %v without a release", d)
	}
	u.yielding = true
	for missed, want := range []time.Duration{2 * yieldStep, yieldStep, 0, 0} {
		if d := u.delay(missed); d != want {
			t.Errorf("after %d misses it waits %v, want %v", missed, d, want)
		}
	}
	u.gate.rivals.n = 1000
	if d := u.delay(0); d != maxRivals*yieldStep {
		t.Errorf("waits %v for many rivals", d)
	}
}

// An acquisition that has the turn gives it to one call, or to all, or leaves it with the hold.
func TestTurnLeave(t *testing.T) {
	for name, test := range map[string]struct {
		has, stays, openAll bool
		turns, queued       int
	}{
		"without the turn":        {false, false, false, 1, 2},
		"it stays with the hold":  {true, true, false, 1, 2},
		"to the next":             {true, false, false, 1, 1},
		"to all, if all can hold": {true, false, true, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := &gate{turns: 1}
			for range 2 {
				g.push(&ticket{turn: make(chan *Hold, 1)})
			}
			u := turn{gate: g, has: test.has, stays: test.stays}
			u.leave(test.openAll)
			if g.turns != test.turns || g.length != test.queued {
				t.Errorf("%d turns, %d queued, want %d and %d", g.turns, g.length, test.turns, test.queued)
			}
		})
	}
}

// A call creates a missing object a few times without a pause.
func TestClaimCreate(t *testing.T) {
	var c claim
	for i := range maxCreated + 1 {
		if again := c.create(); again != (i < maxCreated) || !c.missing {
			t.Errorf("attempt %d: again %v, missing %v", i, again, c.missing)
		}
		c.missing = false
	}
}
