package interop_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/interop"
)

// permits is a leased semaphore with an object of each side.
type permits struct {
	name    string
	release interop.Release
	java    object
	golang  *holdfast.LeasedSemaphore
}

func (r *fixture) permits(t *testing.T, release interop.Release, total int) permits {
	t.Helper()
	n := name(t)
	p := permits{n, release, r.java.get(t, "getPermitExpirableSemaphore", n), r.golang.LeasedSemaphore(n)}
	gives(t, true)(p.golang.TrySet(t.Context(), total, 0))
	return p
}

// javaTakes acquires a permit in Java and returns its id. With a lease of zero, the
// permit does not expire.
func (p permits) javaTakes(t *testing.T, lease time.Duration) string {
	t.Helper()
	if lease == 0 {
		return p.java.do(t, p.name, "acquire").String()
	}
	return p.java.do(t, p.name, "acquire", lease.Milliseconds(), "MILLISECONDS").String()
}

func (p permits) goTakes(t *testing.T, n int, opts ...holdfast.LockOption) *holdfast.Lease {
	t.Helper()
	l, err := p.golang.Acquire(t.Context(), n, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// are checks the numbers of free and acquired permits.
func (p permits) are(t *testing.T, free, taken int) {
	t.Helper()
	gives(t, holdfast.PermitState{Available: free, Taken: taken})(p.golang.State(t.Context()))
	p.java.says(t, free, "availablePermits")
	if p.release == interop.Current {
		p.java.says(t, taken, "acquiredPermits")
		p.java.says(t, free+taken, "getPermits")
	}
}

// lasts checks on both sides that the remaining time of a permit is d or a few seconds
// less.
func (p permits) lasts(t *testing.T, id string, d time.Duration) {
	t.Helper()
	left, err := p.golang.RemainingID(t.Context(), id)
	ms := time.Duration(p.java.do(t, p.name, "getLeaseTime", id).Int()) * time.Millisecond
	if err != nil || left > d || ms > d || left < d-10*time.Second || ms < d-10*time.Second {
		t.Errorf("%v and %v are left of it, want %v; %v", left, ms, d, err)
	}
}

// TestLeasedCounts checks that both sides count the same free and acquired permits.
func TestLeasedCounts(t *testing.T) {
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		ctx, r := t.Context(), newFixture(t, release)
		p := r.permits(t, release, 5)
		p.java.says(t, false, "trySetPermits", 9)
		l := p.goTakes(t, 2)
		id := p.javaTakes(t, time.Minute)
		p.are(t, 2, 3)
		_, err := p.golang.TryAcquire(ctx, 3)
		fails(t, err, holdfast.ErrNotAcquired)
		p.java.says(t, nil, "addPermits", 2)
		p.are(t, 4, 3)
		fails(t, p.golang.Add(ctx, -3), nil)
		p.are(t, 1, 3)
		fails(t, p.golang.Set(ctx, 2), nil)
		p.are(t, -1, 3)
		p.java.says(t, nil, "tryAcquire")
		if release == interop.Current {
			p.java.says(t, nil, "setPermits", 6)
			p.are(t, 3, 3)
		}
		fails(t, p.golang.Set(ctx, 4), nil)
		p.java.says(t, nil, "release", id)
		fails(t, l.Release(ctx), nil)
		p.are(t, 4, 0)
		p.java.says(t, true, "delete")
		p.java.says(t, true, "trySetPermits", 1)
		gives(t, false)(p.golang.TrySet(ctx, 9, 0))
		p.are(t, 1, 0)
	})
}

// TestPermitIDs checks that each side can inspect, extend and release permits by the
// ids of the other side.
func TestPermitIDs(t *testing.T) {
	t.Parallel()
	ctx, r := t.Context(), newFixture(t, interop.Current)
	r.golang = open(t, r.server.URL(), holdfast.Options{WatchdogTimeout: 6 * time.Second, RenewEvery: 300 * time.Millisecond})
	t.Run("of Java", func(t *testing.T) {
		p := r.permits(t, interop.Current, 3)
		id := p.javaTakes(t, time.Minute)
		p.lasts(t, id, time.Minute)
		fails(t, p.golang.ExtendID(ctx, id, 10*time.Minute), nil)
		p.lasts(t, id, 10*time.Minute)
		fails(t, p.golang.ExtendID(ctx, id, time.Minute), nil)
		p.lasts(t, id, 10*time.Minute) // an extension never shortens
		p.java.says(t, true, "updateLeaseTime", id, 2, "MINUTES")
		p.lasts(t, id, 2*time.Minute)

		endless := p.javaTakes(t, 0)
		p.java.says(t, -1, "getLeaseTime", endless)
		if left, err := p.golang.RemainingID(ctx, endless); left >= 0 || err != nil {
			t.Errorf("%v left of a permit without end, %v", left, err)
		}
		fails(t, p.golang.ReleaseIDs(ctx, id, strings.Repeat("0", 32)), holdfast.ErrNotHeld)
		p.are(t, 1, 2)
		fails(t, p.golang.ReleaseIDs(ctx, id, endless), nil)
		p.are(t, 3, 0)
		p.java.says(t, false, "tryRelease", id)
		p.java.throws(t, "release", id)

		var several []string
		for _, id := range p.java.do(t, p.name, "acquire", 2, 1, "MINUTES").Value.([]any) {
			several = append(several, id.(string))
		}
		p.are(t, 1, 2)
		fails(t, p.golang.ReleaseIDs(ctx, several...), nil)
		p.are(t, 3, 0)
		p.java.says(t, 0, "tryRelease", several)
		p.java.says(t, false, "updateLeaseTime", id, 2, "MINUTES")
		fails(t, p.golang.ExtendID(ctx, id, time.Minute), holdfast.ErrNotHeld)
		p.are(t, 3, 0)
	})
	t.Run("of Go", func(t *testing.T) {
		p := r.permits(t, interop.Current, 3)
		fixed := p.goTakes(t, 1, holdfast.LeaseTime(time.Minute)).PermitIDs()[0]
		p.lasts(t, fixed, time.Minute)
		p.java.says(t, true, "updateLeaseTime", fixed, 10, "MINUTES")
		p.lasts(t, fixed, 10*time.Minute)
		p.java.says(t, true, "tryRelease", fixed)
		fails(t, p.golang.ReleaseIDs(ctx, fixed), holdfast.ErrNotHeld)
		p.are(t, 3, 0)

		// If Java releases a permit, its holder notices.
		for _, release := range []string{"release", "tryRelease"} {
			l := p.goTakes(t, 2)
			p.are(t, 1, 2)
			p.java.do(t, p.name, release, l.PermitIDs())
			p.are(t, 3, 0)
			select {
			case <-l.Context().Done():
				fails(t, context.Cause(l.Context()), holdfast.ErrLost)
			case <-time.After(2 * slack):
				t.Error("the holder did not notice the loss")
			}
			fails(t, l.Release(ctx), holdfast.ErrLost)
			p.are(t, 3, 0)
		}
	})
	t.Run("shortened", func(t *testing.T) {
		p := r.permits(t, interop.Current, 1)
		l := p.goTakes(t, 1)
		p.java.says(t, true, "updateLeaseTime", l.PermitIDs()[0], 4, "SECONDS") // the next renewal extends it again
		locktest.Eventually(t, 2*slack, "it is renewed", func() bool {
			left, err := p.golang.RemainingID(ctx, l.PermitIDs()[0])
			return err == nil && left > 4*time.Second
		})
		fails(t, l.Release(ctx), nil)
		p.are(t, 1, 0)
	})
}

// TestLeasedWakes checks that a waiter is woken when the other side releases a permit.
func TestLeasedWakes(t *testing.T) {
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		ctx, shared := context.Background(), newFixture(t, release)
		javaWaits := func(t *testing.T, _ *fixture, p permits) (waits func() bool, wait func() error) {
			return threadWaits(t, p.java.Peer(), p.name, inQueue), func() error { return p.java.Do(p.name, "acquire", 1, "MINUTES").Err() }
		}
		goWaits := func(_ *testing.T, r *fixture, p permits) (waits func() bool, wait func() error) {
			return goroutineWaits(r.golang), func() error {
				_, err := p.golang.Acquire(ctx, 2)
				return err
			}
		}
		for _, test := range []struct {
			name  string
			total int
			taken func(t *testing.T, p permits) (wake func())
			wait  func(t *testing.T, r *fixture, p permits) (waits func() bool, wait func() error)
		}{
			{"Java waits for a lease", 1, func(t *testing.T, p permits) func() {
				l := p.goTakes(t, 1)
				return func() { fails(t, l.Release(ctx), nil) }
			}, javaWaits},
			{"Java waits for more permits", 0, func(t *testing.T, p permits) func() {
				return func() { fails(t, p.golang.Add(ctx, 1), nil) }
			}, javaWaits},
			{"Java waits for another number", 0, func(t *testing.T, p permits) func() {
				return func() { fails(t, p.golang.Set(ctx, 1), nil) }
			}, javaWaits},
			{"Go waits for a permit", 2, func(t *testing.T, p permits) func() {
				id := p.javaTakes(t, time.Hour)
				return func() { p.java.do(t, "", "release", id) }
			}, goWaits},
			{"Go waits for one without end", 2, func(t *testing.T, p permits) func() {
				id := p.javaTakes(t, 0)
				return func() { p.java.do(t, "", "release", id) }
			}, goWaits},
			{"Go waits for more permits", 1, func(t *testing.T, p permits) func() {
				return func() { p.java.do(t, "", "addPermits", 1) }
			}, goWaits},
		} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				r := &fixture{shared.server, shared.java, open(t, shared.server.URL(), unpolled)}
				p := r.permits(t, release, test.total)
				wake := test.taken(t, p)
				waits, wait := test.wait(t, r, p)
				wakes(t, waits, wait, wake)
			})
		}
	})
}

// TestPermitsEnd checks that the other side gets a permit when its lease is over, also
// if its holder was killed. A permit without a lease is free when it is released by
// its id.
func TestPermitsEnd(t *testing.T) {
	const lease = 4 * time.Second
	had := func(t *testing.T, began time.Time) {
		t.Helper()
		if d := time.Since(began); d < lease-100*time.Millisecond || d > lease+slack {
			t.Errorf("acquired after %v, with a lease of %v", d, lease)
		}
	}
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		t.Run("Java's", func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, release)
			r.golang = open(t, r.server.URL(), unpolled)
			p, began := r.permits(t, release, 1), time.Now()
			id := p.javaTakes(t, lease)
			p.goTakes(t, 1)
			had(t, began)
			p.java.says(t, false, "tryRelease", id)
			p.are(t, 0, 1)
		})
		t.Run("Go's", func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, release)
			p, began := r.permits(t, release, 1), time.Now()
			l := p.goTakes(t, 1, holdfast.LeaseTime(lease))
			p.javaTakes(t, time.Minute)
			had(t, began)
			fails(t, l.Release(t.Context()), holdfast.ErrLost)
			p.are(t, 0, 1)
		})
		t.Run("of the dead", func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, release)
			own := ownPeer(t, release)
			r.java = join(t, own, interop.Single(r.server.Addr()))
			p := r.permits(t, release, 2)
			p.javaTakes(t, 3*time.Second) // the first call of a new process is slow
			began := time.Now()
			endless := p.javaTakes(t, 0)
			own.Kill()
			l := p.goTakes(t, 1)
			if d := time.Since(began); d > 8*time.Second {
				t.Errorf("acquired after %v", d)
			}
			gives(t, holdfast.PermitState{Taken: 2})(p.golang.State(t.Context()))
			_, err := p.golang.TryAcquire(t.Context(), 1)
			if left := holdfast.Remaining(err); !errors.Is(err, holdfast.ErrNotAcquired) || left <= 0 {
				t.Errorf("%v, with %v left", err, left)
			}
			if release == interop.Current {
				fails(t, p.golang.ReleaseIDs(t.Context(), endless), nil)
				gives(t, holdfast.PermitState{Available: 1, Taken: 1})(p.golang.State(t.Context()))
			}
			fails(t, l.Release(t.Context()), nil)
		})
	})
}

// TestPermitIDsOfOld checks the early Redisson, which stores ids as text. Both sides
// count the same permits, but neither side knows the ids of the other.
func TestPermitIDsOfOld(t *testing.T) {
	t.Parallel()
	ctx, r := t.Context(), newFixture(t, interop.Era)
	p := r.permits(t, interop.Era, 2)
	id, l := p.javaTakes(t, time.Minute), p.goTakes(t, 1)
	p.are(t, 0, 2)
	fails(t, p.golang.ReleaseIDs(ctx, id), holdfast.ErrNotHeld)
	fails(t, p.golang.ExtendID(ctx, id, time.Hour), holdfast.ErrNotHeld)
	_, err := p.golang.RemainingID(ctx, id)
	fails(t, err, holdfast.ErrNotHeld)
	p.java.says(t, false, "tryRelease", l.PermitIDs()[0])
	p.java.says(t, false, "updateLeaseTime", l.PermitIDs()[0], 1, "HOURS")
	p.are(t, 0, 2)
	fails(t, l.Release(ctx), nil)
	p.java.says(t, true, "tryRelease", id)
	p.are(t, 2, 0)
}
