package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
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
	if a.traits.Numbered && (err == nil || !a.doubt) {
		if mark := a.mark; mark != "" && !a.doubt {
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
			busy.Holder = plainHolder
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
	if a.queued || a.asked && a.claim.Wait && a.traits.Heartbeat > 0 {
		// Other waiters should not have to wait for the background, and a release that
		// follows this call should not grant the lock to it.
		ctx, cancel := context.WithTimeout(context.Background(), timeToWithdraw(a.asking, a.waiting))
		defer cancel()
		if _, err := a.e.d.Do(ctx, a.e.withAllowedQueue(a.k).Free(a.claim.Owner)); err != nil {
			a.doubt = true
		}
	}
	switch {
	case !a.doubt || a.traits.ReadOnly:
	case a.traits.Numbered:
		a.e.completeLater(a.k.Free(a.claim.Owner), a.sequence)
	default:
		lease := cmp.Or(a.claim.Lease, orderLife)
		if a.traits.Heartbeat > 0 {
			lease = max(lease, longestWait) // a place in a queue does not end with it
		}
		a.e.undo(a.k, a.claim.Owner, lease, true)
	}
}

// leaveQueue leaves the queue at the server before the wait for the turn. Calls that came
// at the same time may all be in it, but only the call with the turn hears of a grant. A
// grant to another call would be of no use until it expires. The call goes on with a new
// owner, so that a request for the old one that arrives late has no effect on it.
func (a *acquisition) leaveQueue() {
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTime)
	defer cancel()
	if _, err := a.e.d.Do(ctx, a.e.withAllowedQueue(a.k).Free(a.claim.Owner)); err != nil || a.doubt {
		a.e.undo(a.k, a.claim.Owner, a.claim.Lease, true)
	}
	a.claim.Owner = a.e.owner()
	a.queued, a.claim.Queue, a.doubt = false, false, false
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
