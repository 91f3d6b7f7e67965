package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/numbered"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/settle"
)

// A claim is what an acquisition asks for, and what its owner may have at the server.
type claim struct {
	script.Claim
	numbered numbered.Request // if the claim is numbered
	asked    bool             // it was sent at least once
	declared bool             // Request.Declare was called
	missing  bool             // the last answer was that the object does not exist
	created  int              // how often that was the answer
	remains  settle.Remains   // what the owner may have at the server, besides a hold
}

// create lets the next request create the missing object. It reports whether that is due at once.
func (c *claim) create() bool {
	c.missing = true
	c.created++
	return c.created <= maxCreated
}

// begin prepares the claim of a new owner.
func (a *acquisition) begin() {
	a.last.began = clock.Early()
	a.long.since = cmp.Or(a.long.since, a.last.began)
	c := &a.claim
	c.Claim = script.Claim{Count: 1, Lease: a.r.lease(a.e), Wait: !a.once, Most: a.e.o.MaxQueue}
	if a.traits.Numbered {
		c.numbered = a.e.numbered.Next()
		c.Owner = c.numbered.Name
		call := a.k.Claim(c.Claim)
		c.Spent = a.e.numbered.Spends(&c.numbered, call)
		script.Done(call)
	} else {
		c.Owner = a.e.owners.next()
	}
	if a.r.Under != nil {
		c.Under = a.r.Under.owner
	}
}

// declare calls Request.Declare, if the server has to be told.
func (a *acquisition) declare() error {
	if a.r.Declare == nil || a.claim.declared && !a.claim.missing {
		return nil
	}
	err := a.r.Declare(a.asking, a.claim.missing)
	if err == nil {
		a.claim.declared, a.claim.missing = true, false
		return nil
	}
	var failed *driver.Error
	if errors.As(err, &failed) {
		return failed // it is handled like the error of a claim
	}
	return err
}

// endNumbered frees the sequence of a numbered claim, unless the claim is still to be undone.
func (a *acquisition) endNumbered(granted bool) {
	c := &a.claim
	if !a.traits.Numbered || !granted && c.remains.Open {
		return
	}
	spent := c.numbered.Mark
	switch {
	case c.remains.Open:
		spent = ""
	case !granted:
		spent = c.Spent // a claim that is not granted leaves no mark
	}
	a.e.numbered.Free(&c.numbered, spent)
}

// timeToWithdraw returns how much of withdrawTime a call has left after its last request.
func timeToWithdraw(asking, waiting context.Context) time.Duration {
	limit, ok := asking.Deadline()
	if end, _ := waiting.Deadline(); !ok || !limit.After(end) {
		return withdrawTime // the context of the caller has ended, or Request.Wait has no limit
	}
	return min(withdrawTime, time.Until(limit))
}

// withdraw takes back a claim that may still be granted, and the place in a queue at the server.
func (a *acquisition) withdraw() {
	c := &a.claim
	left := c.remains
	left.Entry = left.Entry || c.asked && c.Wait && a.traits.Heartbeat > 0
	if left.Entry {
		// Other waiters should not wait for the background, nor be passed over by the next release.
		left.Entry = a.free(timeToWithdraw(a.asking, a.waiting)) != nil
	}
	switch {
	case !left.Entry && !left.Open || a.traits.ReadOnly:
	case a.traits.Numbered:
		a.e.completeLater(a.k.Free(c.Owner), c.numbered)
	default:
		left.Until = clock.Now() + cmp.Or(c.Lease, numbered.Life)
		a.e.settle(a.k, c.Owner, left)
	}
}

// leaveQueue leaves the queue at the server before the wait for the turn. Calls that came at the
// same time may all be in it, but only the call with the turn hears of a grant. The call goes on
// with a new owner, so that a request for the old one that arrives late has no effect on it.
func (a *acquisition) leaveQueue() {
	c := &a.claim
	if err := a.free(withdrawTime); err != nil || c.remains.Open {
		left := c.remains
		left.Until = clock.Now() + c.Lease
		a.e.settle(a.k, c.Owner, left)
	}
	c.Owner = a.e.owners.next()
	c.remains, c.Queue = settle.Remains{}, false
	a.place.n, a.place.granted = 0, ""
}

// free asks the server once, for at most that time, to release what the owner may have.
func (a *acquisition) free(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_, err := a.e.d.Do(ctx, a.e.withAllowedQueue(a.k).Free(a.claim.Owner))
	return err
}

// claimPlain goes on with a claim that has failed because a key has the wrong type. If clients of
// other libraries hold the lock, it sets v. Otherwise it returns the error of the last request.
func (a *acquisition) claimPlain(err error, v *script.Verdict) error {
	for tries := 1; tries < plainTries && driver.CodeOf(err) == "WRONGTYPE"; tries++ {
		held, ok := a.lookAtPlain()
		if !ok {
			break
		}
		if held.TTL > 0 {
			*v = held
			return nil
		}
		// A plain lock was released meanwhile, or another key has the wrong type.
		err = a.e.claim(a.asking, a.k, a.traits, &a.claim.Claim, v)
	}
	return err
}

// lookAtPlain returns the verdict on a claim if a key is a string with a TTL, as another library
// writes it. Without one the TTL is zero. It returns false if a key holds other data.
func (a *acquisition) lookAtPlain() (script.Verdict, bool) {
	keys := a.plainKeys()
	v := script.Verdict{Plain: true}
	for _, key := range keys {
		r, err := a.e.d.Do(a.asking, script.LookAtPlain(key))
		if err != nil {
			return script.Verdict{}, false
		}
		ttl, ok, err := script.DecodePlain(r)
		if !ok || err != nil {
			return script.Verdict{}, false
		}
		if ttl > v.TTL {
			v.TTL = ttl
			if len(keys) > 1 {
				v.Key = key
			}
		}
	}
	return v, len(keys) > 0
}

// plainKeys returns the keys that clients of other libraries may hold as strings.
func (a *acquisition) plainKeys() (keys []string) {
	if a.traits.Plain {
		return []string{a.key()}
	}
	for _, w := range a.group {
		if w.Kind.Traits().Plain {
			keys = append(keys, w.Kind.Claim(a.claim.Claim).Keys[0])
		}
	}
	return keys
}
