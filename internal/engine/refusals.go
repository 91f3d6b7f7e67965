package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
)

// refusals are answers that a claim is refused for some time: see [script.Lasting]. A call that
// does not wait is refused like the last one, so that no flood of calls reaches the server.
//
// There is one place for all keys with the same hash. A new refusal replaces the last one. Each
// change of an object by this client is counted, so that no earlier answer is used.
type refusals [256]struct {
	changes atomic.Uint64
	last    atomic.Pointer[refusal]
}

// A refusal is an answer of the server.
type refusal struct {
	script.Lasting
	most    int           // a claim for more is not refused, but invalid
	changes uint64        // of the place, before the request was sent
	ends    time.Duration // until when calls are refused
	free    time.Duration // when the claim may be granted
	why     string
}

func refusalPlace(key string) uint8 { return uint8(hash(key)) }

// changes returns the number of changes, before a request is sent whose answer is passed to add.
func (r *refusals) changes(l script.Lasting) uint64 {
	return r[refusalPlace(l.Key)].changes.Load()
}

// add adds an answer to a request that was sent at that time.
func (r *refusals) add(l script.Lasting, v *script.Verdict, sent time.Duration, changes uint64) {
	if l.Key == "" || v.Granted() || v.Err != nil || v.Missing != "" || v.TTL <= 0 {
		return
	}
	place := &r[refusalPlace(l.Key)]
	if last := place.last.Load(); last != nil && last.Key == l.Key && last.changes == changes && last.Wants < l.Wants && sent < last.ends {
		return // the last one concerns more calls
	}
	place.last.Store(&refusal{l, max(int(v.Most), l.Wants), changes, sent + min(v.TTL, refusalLife), sent + v.TTL, v.Why})
}

// changed notes that this client has changed what is stored at the keys, or may have.
func (r *refusals) changed(keys []string) {
	for _, key := range keys {
		r[refusalPlace(key)].changes.Add(1)
	}
}

func (r *refusals) find(l script.Lasting) *Busy {
	place := &r[refusalPlace(l.Key)]
	last := place.last.Load()
	if last == nil || last.Key != l.Key || l.Wants < last.Wants || l.Wants > last.most {
		return nil
	}
	now := clock.Now()
	if now >= last.ends || last.changes != place.changes.Load() {
		place.last.CompareAndSwap(last, nil)
		return nil
	}
	left := last.free - now + time.Millisecond - 1 // in whole milliseconds, as the server counts
	return &Busy{TTL: left.Truncate(time.Millisecond), Why: last.why}
}

// refused returns the refusal of a call that does not wait, if one like it was just refused.
func (e *Engine) refused(ctx context.Context, l script.Lasting, r *Request) *Busy {
	if l.Key == "" || r.Wait != 0 || ctx.Err() != nil || e.IsClosing() {
		return nil
	}
	busy := e.refusals.find(l)
	if busy != nil && r.Declare != nil {
		if r.Declare(ctx, false) != nil {
			return nil
		}
		busy = e.refusals.find(l) // what is declared may be new
	}
	return busy
}

// Changed notes that the caller has changed what is stored at the keys, or may have.
func (e *Engine) Changed(keys ...string) { e.refusals.changed(keys) }
