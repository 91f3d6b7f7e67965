package interop_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// force breaks the lock of a party.
func force(tb testing.TB, p party) bool {
	tb.Helper()
	if p, ok := p.(*javaParty); ok {
		return p.lock.do(tb, p.thread, "forceUnlock").Bool()
	}
	return must[bool](tb)(p.(*goParty).lock.(visible).ForceUnlock(context.Background()))
}

// When one side breaks a lock, the waiters of both sides get it at once. The holder on the
// other side notices the loss; a holder in Redisson notices it at unlock.
func TestForceUnlock(t *testing.T) {
	t.Parallel()
	eachOwned(t, func(t *testing.T, release interop.Release, k kind) {
		const renewal = time.Second
		r := newFixtureWith(t, release, holdfast.Options{RenewEvery: renewal})
		others := open(t, r.server.URL())
		r.bothWays(t, k, func(t *testing.T, name string, holder, forcer party) {
			holder.Lock(t, 0)
			_, java := forcer.(*javaParty)
			crowd := r.crowd(t, k, name, others, java)
			waiters := r.visits(t, k, name, crowd...)
			freed := redistest.Now()
			if !force(t, forcer) {
				t.Error("the call reports that the lock was free")
			}
			if p, ok := holder.(*goParty); ok {
				wantLoss(t, p.leases[0], renewal+slack)
			}
			p := next(t, name, waiters, freed)
			lateUnlock(t, holder)
			r.wantHolder(t, name, p.Owner(t), 1)
			for range crowd[1:] {
				freed = p.Unlock(t)
				p = next(t, name, waiters, freed)
			}
			p.Unlock(t)
			if force(t, forcer) {
				t.Error("the call reports that a free lock was held")
			}
		})
	})
}

// wantLoss waits until a lease ends because its lock was broken.
func wantLoss(tb testing.TB, l *holdfast.Lease, limit time.Duration) {
	tb.Helper()
	select {
	case <-l.Context().Done():
	case <-time.After(limit):
		tb.Errorf("the lease does not report its loss after %v", limit)
	}
	var lost *holdfast.LostError
	if cause := context.Cause(l.Context()); !errors.As(cause, &lost) || lost.Reason != holdfast.LossNotOwner || l.Valid() {
		tb.Errorf("the cause of the end is %v, and the lease is valid: %v", cause, l.Valid())
	}
}
