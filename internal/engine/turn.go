package engine

import (
	"errors"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A turn says whether an acquisition has the turn in its process. If it has, there is a gate. There
// is none if the call asks once, and where each call queues at the server.
type turn struct {
	gate     *gate
	late     bool // the gate is used only if the lock is held
	has      bool
	stays    bool // it stays with the hold, and the subscription with the gate
	yielding bool // this process has just released the lock, and other clients wait for it
}

// leave gives the turn to the next call, or to all, unless the hold keeps it.
func (t *turn) leave(openAll bool) {
	switch {
	case !t.has || t.stays:
	case openAll:
		t.gate.open()
	default:
		t.gate.give()
	}
}

// lineUp waits for the turn before the first request, where the calls of a process ask in the order
// of their arrival and one of them waits already.
func (a *acquisition) lineUp() error {
	if a.traits.Queue != script.InOrder || a.turn.gate == nil || a.turn.gate.idle() {
		return nil
	}
	if _, err := a.takeTurn(); err != nil {
		if a.waiting.Err() != nil && !errors.Is(err, ErrClosed) {
			return &Busy{Local: true, Why: whyQueue, Err: a.waiting.Err()}
		}
		return err
	}
	a.join() // so that one refused request is enough to wait for messages
	return nil
}

// takeTurn waits for the turn if it is taken, and reports that. Then the next request is due.
func (a *acquisition) takeTurn() (waited bool, err error) {
	t := &a.turn
	if t.late && t.gate == nil {
		t.gate = a.e.gate(a.k.Gate())
	}
	if t.has || t.gate == nil {
		return false, nil
	}
	if t.gate.tryTake() {
		t.has = true
		return false, nil
	}
	if a.claim.remains.Entry {
		a.leaveQueue()
	}
	arrived := clock.Early()
	_, t.has, err = a.e.awaitTurn(a.waiting, t.gate, a.traits, 0, &a.long)
	switch {
	case err == nil:
		a.out = t.gate.outage(arrived)
		return true, nil
	case errors.Is(err, ErrClosed):
		return false, ErrClosed
	case errors.Is(err, ErrQueueFull):
		return false, &Busy{Local: true, Full: true, TTL: a.last.remaining()}
	}
	return false, a.gaveUp(a.waiting.Err())
}
