package holdfast_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// What cannot be meant is refused before anything is sent.
func TestNonsense(t *testing.T) {
	c := open(t, redistest.Shared(t).URL())
	n := name(t)
	ctx := t.Context()
	nothing := func(context.Context) error { return nil }
	var none *holdfast.Mutex
	for what, err := range map[string]error{
		"Do without a function":          c.Mutex(n).Do(ctx, nil),
		"Do without a lock":              holdfast.Do(ctx, nil, nothing),
		"DoValue without a function":     second(holdfast.DoValue[int](ctx, c.Mutex(n), nil)),
		"Multi of a nil mutex":           second(holdfast.Multi(c.Mutex(n), none).Lock(ctx)),
		"the zero Multi":                 second(new(holdfast.MultiMutex).Lock(ctx)),
		"OnAcquire without a function":   second(c.Mutex(n).Lock(ctx, holdfast.OnAcquire(nil))),
		"OnRelease without a function":   second(c.Mutex(n).Lock(ctx, holdfast.OnRelease(nil))),
		"WriterFirst of a mutex":         second(c.Mutex(n, holdfast.WriterFirst()).Lock(ctx)),
		"WriterFirst of a call":          second(c.RWMutex(n).Lock(ctx, holdfast.WriterFirst())),
		"WriterFirst of a call to read":  second(c.RWMutex(n).RLock(ctx, holdfast.WriterFirst())),
		"WriterFirst of a call to a set": second(holdfast.Multi(c.Mutex(n)).Lock(ctx, holdfast.WriterFirst())),
	} {
		if !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if redistest.Shared(t).Int(t, "EXISTS", n) != 0 {
		t.Error("something was locked all the same")
	}
}

func second[T any](_ T, err error) error { return err }

// A wait without an end is one of all durations.
func TestLongestWait(t *testing.T) {
	c := open(t, redistest.Shared(t).URL())
	n := name(t)
	for _, l := range []holdfast.Locker{c.Mutex(n), c.FairMutex(n), c.RWMutex(n), c.RWMutex(n).RLocker(), holdfast.Multi(c.Mutex(n), c.Mutex(n+"2"))} {
		release(t, lock(t, t.Context(), l, holdfast.Wait(math.MaxInt64)))
	}
}

// A hash that is no lock's is not deleted by force, and the error of a lock by
// that name gives a hint.
func TestForceUnlockSparesData(t *testing.T) {
	s := redistest.Shared(t)
	c := open(t, s.URL())
	n := name(t)
	s.Do(t, "HSET", n, "name", "Ann", "mail", "a@b")
	for _, m := range []mutexLike{c.Mutex(n), c.FairMutex(n), c.FencedMutex(n), c.RWMutex(n), c.RWMutex(n).RLocker()} {
		if _, err := m.TryLock(t.Context()); !errors.Is(err, holdfast.ErrNotAcquired) || !strings.Contains(err.Error(), "choose another name") {
			t.Errorf("TryLock: %v", err)
		}
		if freed, err := m.ForceUnlock(t.Context()); freed {
			t.Errorf("ForceUnlock: %v, %v", freed, err)
		}
	}
	if s.Int(t, "HLEN", n) != 2 {
		t.Error("the data is gone")
	}
}

// A set that cannot be had says which lock it is for.
func TestMultiNamesTheBlocker(t *testing.T) {
	c := open(t, redistest.Shared(t).URL())
	n := name(t)
	l := lock(t, t.Context(), c.Mutex(n+"b"))
	_, err := holdfast.Multi(c.Mutex(n+"a"), c.Mutex(n+"b"), c.Mutex(n+"c")).TryLock(t.Context())
	if !errors.Is(err, holdfast.ErrNotAcquired) || !strings.Contains(err.Error(), `"`+n+`b" is held`) {
		t.Error(err)
	}
	release(t, l)
}

// Hooks of a mutex and of a call are both called.
func TestHooksAdd(t *testing.T) {
	c := open(t, redistest.Shared(t).URL())
	var heard []string
	hooks := func(who string) []holdfast.Option {
		return []holdfast.Option{
			holdfast.OnAcquire(func(*holdfast.Lease) { heard = append(heard, who+" in") }),
			holdfast.OnRelease(func(*holdfast.Lease, error) { heard = append(heard, who+" out") }),
		}
	}
	m := c.Mutex(name(t), hooks("mutex")...)
	release(t, lock(t, t.Context(), m, hooks("call")...))
	if got := strings.Join(heard, ", "); got != "mutex in, call in, mutex out, call out" {
		t.Error(got)
	}
}
