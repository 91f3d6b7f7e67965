package engine

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Rivals are clients, such as Redisson, that compete for each release of a lock without a queue.
//
// A release wakes every client that listens, and the fastest gets the lock. That would mostly be
// the process that has just released it. So it waits for the message as the others do, and then
// lets the clients go first that have waited longer: it asks one step later for each rival, and one
// step earlier for each time that a rival was faster.
//
// While there are rivals, a grant serves the goroutines of this process for a shorter time, and a
// section that takes longer is followed by a release. Rivals count for a while, because a release
// that grants the lock does not count them.
const (
	yieldTime = 3 * time.Millisecond // to wait for the message
	yieldStep = 150 * time.Microsecond
	maxRivals = 16

	rivalSlice = 5           // the time is divided by it
	rivalTime  = time.Second // for which rivals count after a message that they received
)

// rivals are the rivals for a name, as far as this process knows them.
type rivals struct {
	n     int           // how many received the message of the last release
	heard time.Duration // when some received such a message
	first bool          // nothing was asked for since then: they ask first
}

// note notes how many rivals have received the message of a release just now.
func (r *rivals) note(n int) {
	if r.n, r.first = n, n > 0; r.first {
		r.heard = clock.Early()
	}
}

// sliceTime returns for how long after a grant hand-offs are allowed, at most that time.
func (r *rivals) sliceTime(now, most time.Duration) time.Duration {
	if r.heard > 0 && now-r.heard < rivalTime {
		return most / rivalSlice
	}
	return most
}

// takeYield reports whether the rivals should ask first, and resets that.
func (g *gate) takeYield() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	yield := g.rivals.first && clock.Early()-g.rivals.heard < yieldTime
	g.rivals.first = false
	return yield
}

// Yield notes that this process has released k, and that so many clients know. They may ask first.
func (e *Engine) Yield(k target, heard int) {
	n := e.rivals(k, heard)
	if n == 0 {
		return
	}
	e.gates.mu.Lock()
	defer e.gates.mu.Unlock()
	if g := e.gates.of(k.Gate()); g.refs == 0 { // otherwise the message also wakes the waiters of this process
		g.rivals.note(n)
	}
}

// rivals returns how many of the clients that have received the message of a release are others.
// Clients in the queue at the server do not listen to it.
func (e *Engine) rivals(k target, heard int) int {
	if !k.Traits().Queued.Joins() {
		heard -= boolInt(e.hub.Listens(k.Channels("")[0]))
	}
	return max(heard, 0)
}

// letOthersTry waits for a message if other clients listen for what this process has just released.
func (a *acquisition) letOthersTry() error {
	t := &a.turn
	if t.gate == nil || !t.stays && a.traits.Queue != script.InOrder || a.r.Pause != nil || !t.gate.takeYield() {
		return nil
	}
	t.yielding = true
	a.join()
	if err := a.wait(yieldTime); errors.Is(err, ErrClosed) {
		return err
	}
	return nil // the time may be over, but one request is due
}

// delay returns how much later than others to ask after a message, if one was faster that often.
func (t *turn) delay(missed int) time.Duration {
	if !t.yielding {
		return 0
	}
	return yieldStep * time.Duration(max(min(t.gate.rivals.n, maxRivals)-missed, 0))
}
