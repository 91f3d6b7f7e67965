package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/settle"
)

// end withdraws what was not granted and leaves the gate.
func (a *acquisition) end(err error) {
	a.answerShare(nil)
	a.long.end()
	a.countWait(false)
	if a.joined != nil {
		a.withdraw() // it shares the hold of another call
	}
	if err != nil {
		a.explainBusy(err)
		a.withdraw()
		if a.turn && errors.Is(err, ErrUnavailable) {
			a.g.fail(a.out)
		}
	}
	if a.traits.Numbered && (err == nil || !a.remains.Open) {
		if mark := a.mark; mark != "" && !a.remains.Open {
			if err != nil {
				mark = a.claim.Spent // a claim that is not granted leaves no mark
			}
			a.e.saveSpentMark(a.sequence, mark)
		}
		a.e.freeSequence(a.sequence) // otherwise it is freed when the claim is undone
	}
	a.leave(err == nil)
}

// explainBusy adds to the error which of several locks was held, or why else the lock
// was refused.
func (a *acquisition) explainBusy(err error) {
	var busy *Busy
	if errors.As(err, &busy) {
		busy.Key = a.blocker
		busy.Local = busy.Local || a.localHolder() != nil
		if busy.Why == "" {
			busy.Why = a.why
		}
		if a.plain {
			busy.Holder = foreignHolder
		}
	}
}

// withdrawTime bounds how long a call that has failed is delayed by giving back what it may
// have. After that, this goes on in the background.
const withdrawTime = 250 * time.Millisecond

// timeToWithdraw returns how much of withdrawTime a call has left. A request that was under way
// when the time of Request.Wait was over may have used it up.
func timeToWithdraw(asking, waiting context.Context) time.Duration {
	limit, ok := asking.Deadline()
	if end, _ := waiting.Deadline(); !ok || !limit.After(end) {
		return withdrawTime // the context of the caller has ended, or Request.Wait has no limit
	}
	return min(withdrawTime, time.Until(limit))
}

// withdraw takes back a claim that may still be granted, and the place in a queue
// at the server.
func (a *acquisition) withdraw() {
	left := a.remains
	left.Entry = left.Entry || a.asked && a.claim.Wait && a.traits.Heartbeat > 0
	if left.Entry {
		// Other waiters should not have to wait for the background, and a release that
		// follows this call should not grant the lock to it.
		ctx, cancel := context.WithTimeout(context.Background(), timeToWithdraw(a.asking, a.waiting))
		defer cancel()
		_, err := a.e.d.Do(ctx, a.e.withAllowedQueue(a.k).Free(a.claim.Owner))
		left.Entry = err != nil
	}
	switch {
	case !left.Entry && !left.Open || a.traits.ReadOnly:
	case a.traits.Numbered:
		a.e.completeLater(a.k.Free(a.claim.Owner), a.sequence)
	default:
		left.Until = clock.Now() + cmp.Or(a.claim.Lease, orderLife)
		a.e.settle(a.k, a.claim.Owner, left)
	}
}

// leaveQueue leaves the queue at the server before the wait for the turn. Calls that came
// at the same time may all be in it, but only the call with the turn hears of a grant. A
// grant to another call would be of no use until it expires. The call goes on with a new
// owner, so that a request for the old one that arrives late has no effect on it.
func (a *acquisition) leaveQueue() {
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTime)
	defer cancel()
	if _, err := a.e.d.Do(ctx, a.e.withAllowedQueue(a.k).Free(a.claim.Owner)); err != nil || a.remains.Open {
		left := a.remains
		left.Until = clock.Now() + a.claim.Lease
		a.e.settle(a.k, a.claim.Owner, left)
	}
	a.claim.Owner = a.e.owner()
	a.remains, a.claim.Queue = settle.Remains{}, false
	a.place, a.granted = 0, ""
}

// leave unsubscribes and gives the turn to the next, unless the hold keeps it.
func (a *acquisition) leave(granted bool) {
	if a.own != nil {
		if a.traits.Queue == script.AtServer {
			a.own.Drop() // the channel is this owner's alone
		} else {
			a.own.Leave()
		}
	}
	if a.ownGrants != nil {
		a.ownGrants.Leave()
	}
	switch {
	case !a.turn || a.keep:
	case granted && a.traits.Queue == script.Together:
		a.g.open()
	default:
		a.g.give()
	}
}
