package holdfast_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// javaForever is the score of a permit that Java has without an end.
const javaForever = 922337203685477

// javaTakes takes a permit as Java does, for all that the server has of it.
func javaTakes(tb testing.TB, s *redistest.Server, sem *holdfast.LeasedSemaphore, id string, ends int64) {
	tb.Helper()
	s.Do(tb, "DECRBY", sem.Name(), "1")
	s.Do(tb, "ZADD", "{"+sem.Name()+"}:timeout", fmt.Sprint(ends), id)
}

// Permits that Java has are counted, waited for until their leases end, and can
// be given back by their ids.
func TestPermitsOfJava(t *testing.T) {
	t.Parallel()
	r := newPermitRig(t, unpolled)
	near, far := strings.Repeat("n", 16), strings.Repeat("f", 16)
	const first = 5 * time.Second
	end := serverMillis(t, r.s) + first.Milliseconds()
	javaTakes(t, r.s, r.sem, near, end)
	javaTakes(t, r.s, r.sem, far, javaForever)
	wantPermits(t, r.sem, 1, 2)
	_, err := r.sem.TryAcquire(t.Context(), 2)
	if left := holdfast.Remaining(err); !errors.Is(err, holdfast.ErrNotAcquired) || left <= 0 || left > first {
		t.Errorf("%v, %v left", err, left)
	}
	const lease = 10 * time.Second
	got := enteredAfter(t, first, background(t.Context(), r.sem.Locker(2), holdfast.LeaseTime(lease)))
	if after := ends(t, r.s, r.sem, got.Permits()[0]) - lease.Milliseconds() - end; after < 0 || after > late.Milliseconds() {
		t.Errorf("entered %d ms after Java's lease ended", after)
	}
	release(t, got)
	r.has(t, 2, 1)

	_, err = r.sem.TryAcquire(t.Context(), 3)
	if left := holdfast.Remaining(err); !errors.Is(err, holdfast.ErrNotAcquired) || left >= 0 {
		t.Errorf("%v, %v left; want that it has no end", err, left)
	}
	id := strings.Repeat("66", 16)
	if err := r.sem.ExtendID(t.Context(), id, time.Minute); err != nil {
		t.Error(err)
	}
	if left, err := r.sem.RemainingID(t.Context(), id); left >= 0 || err != nil {
		t.Errorf("%v left after an extension, %v", left, err)
	}
	waiter := background(t.Context(), r.sem.Locker(3))
	r.awake(t)
	if err := r.far.ReleaseIDs(t.Context(), id); err != nil {
		t.Error(err)
	}
	release(t, entered(t, waiter))
	r.has(t, 3, 0)
}

// What Java takes over when it sees that a lease is over, or takes away, the
// holder is told of when it renews next, and nothing is given back twice.
func TestPermitsTakenAway(t *testing.T) {
	t.Parallel()
	for how, take := range map[string]func(t *testing.T, r *permitRig){
		"given back by its id": func(t *testing.T, r *permitRig) {
			r.s.Do(t, "EVAL", "redis.call('zremrangebyrank', KEYS[2], 0, 0) redis.call('incrby', KEYS[1], 1)", "2", "rig", "{rig}:timeout")
		},
		"reaped": func(t *testing.T, r *permitRig) {
			r.s.Do(t, "EVAL", "redis.call('incrby', KEYS[1], redis.call('zremrangebyrank', KEYS[2], 0, -1))", "2", "rig", "{rig}:timeout")
		},
		"deleted": func(t *testing.T, r *permitRig) {
			r.s.Do(t, "DEL", "rig", "{rig}:timeout")
			r.s.Do(t, "SET", "rig", "3")
		},
		"flushed": func(t *testing.T, r *permitRig) {
			r.s.Do(t, "FLUSHALL")
			r.s.Do(t, "SET", "rig", "3")
		},
		"replaced": func(t *testing.T, r *permitRig) {
			r.s.Do(t, "SET", "{rig}:timeout", "x")
			time.AfterFunc(time.Second, func() {
				r.s.Do(t, "DEL", "{rig}:timeout")
				r.s.Do(t, "SET", "rig", "3")
			})
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := newPermitRig(t, holdfast.Options{WatchdogTimeout: 6 * time.Second, RenewEvery: 200 * time.Millisecond})
			l := obtain(t, r.sem, 2)
			ctx := l.Context()
			take(t, r)
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Second):
				t.Fatal("not told")
			}
			wantLost(t, l, holdfast.LossNotOwner)
			eventually(t, 10*time.Second, "three are free", func() bool {
				st, err := r.far.State(t.Context())
				return err == nil && st == holdfast.PermitState{Available: 3}
			})
			release(t, obtain(t, r.far, 3))
			r.has(t, 3, 0)
		})
	}
}
