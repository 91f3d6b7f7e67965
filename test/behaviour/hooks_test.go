package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A diary is what happened, in order.
type diary []string

// hooks write into the diary.
func (d *diary) hooks() []holdfast.LockOption {
	return []holdfast.LockOption{
		holdfast.OnAcquire(func(l *holdfast.Lease) { d.add("acquired %v", l.Valid()) }),
		holdfast.OnRelease(func(l *holdfast.Lease, err error) { d.add("released %v %v", l.Valid(), err) }),
	}
}

func (d *diary) add(format string, args ...any) { *d = append(*d, fmt.Sprintf(format, args...)) }

// want checks what was written and tears it out.
func (d *diary) want(tb testing.TB, lines ...string) {
	tb.Helper()
	if !slices.Equal(*d, lines) {
		tb.Errorf("what happened was %q, want %q", *d, lines)
	}
	*d = nil
}

func TestHooks(t *testing.T) {
	url := redistest.Shared(t).URL()
	locktest.Each(t, "PSRW", func(t *testing.T, k locktest.Kind) {
		m := k.Make(locktest.Open(t, url), locktest.Name(t))
		var d diary
		l := locktest.Lock(t, t.Context(), m, d.hooks()...)
		d.want(t, "acquired true")
		inner := locktest.Lock(t, l.Context(), m, d.hooks()...)
		locktest.Release(t, inner)
		d.want(t, "acquired true", "released false <nil>")
		// Nothing was taken, so nothing is released.
		if _, err := k.Rival(locktest.Open(t, url), m.Name()).TryLock(t.Context(), d.hooks()...); !errors.Is(err, holdfast.ErrNotAcquired) {
			t.Errorf("error %v", err)
		}
		d.want(t)
		locktest.Release(t, l)
		locktest.Release(t, l) // does nothing
		d.want(t, "released false <nil>")

		v, err := holdfast.DoValue(t.Context(), m, func(ctx context.Context) (int, error) {
			d.add("work %v", holdfast.LeaseOf(ctx).Valid())
			return 42, nil
		}, d.hooks()...)
		if v != 42 || err != nil {
			t.Errorf("%d, %v", v, err)
		}
		d.want(t, "acquired true", "work true", "released false <nil>")
	})
}

// The hooks of a lock are those of each call, of both sides.
func TestHooksOfDo(t *testing.T) {
	c := locktest.Open(t, redistest.Shared(t).URL())
	var d diary
	n := locktest.Name(t)
	hooks := d.hooks()
	rw := c.RWMutex(n, hooks[0], hooks[1])
	boom := errors.New("boom")
	for kind, do := range map[string]func(context.Context, func(context.Context) error, ...holdfast.LockOption) error{
		"mutex":  c.Mutex(n, d.hooks()...).Do,
		"fenced": c.FencedMutex(n, d.hooks()...).Do,
		"write":  rw.Do,
		"read":   rw.RDo,
		"reader": rw.RLocker().Do,
	} {
		if err := do(t.Context(), func(context.Context) error { d.add("work"); return boom }); !errors.Is(err, boom) {
			t.Errorf("%s: %v", kind, err)
		}
		d.want(t, "acquired true", "work", "released false <nil>")
		func() {
			defer func() {
				if got, ok := recover().(error); !ok || !errors.Is(got, boom) {
					t.Errorf("%s: recovered %v", kind, got)
				}
			}()
			_ = do(t.Context(), func(context.Context) error { panic(boom) })
		}()
		d.want(t, "acquired true", "released false <nil>")
	}
}

// A hook that panics does not keep the lock.
func TestHookPanics(t *testing.T) {
	url := redistest.Shared(t).URL()
	locktest.Each(t, "PSRW", func(t *testing.T, k locktest.Kind) {
		m := k.Make(locktest.Open(t, url), locktest.Name(t))
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // or a lock that is kept would be waited for
		defer cancel()
		boom := errors.New("boom")
		var d diary
		for call, take := range map[string]func(opts ...holdfast.LockOption){
			"Lock":    func(opts ...holdfast.LockOption) { _, _ = m.Lock(ctx, opts...) },
			"TryLock": func(opts ...holdfast.LockOption) { _, _ = m.TryLock(ctx, opts...) },
			"DoValue": func(opts ...holdfast.LockOption) {
				_, _ = holdfast.DoValue(ctx, m, func(context.Context) (int, error) { d.add("work"); return 0, nil }, opts...)
			},
		} {
			func() {
				defer func() {
					if got, ok := recover().(error); !ok || !errors.Is(got, boom) {
						t.Errorf("%s: recovered %v", call, got)
					}
				}()
				take(append(d.hooks(), holdfast.OnAcquire(func(*holdfast.Lease) { panic(boom) }))...)
			}()
			d.want(t, "acquired true", "released false <nil>")
			locktest.WantFree(t, k.Rival(locktest.Open(t, url), m.Name()))
		}
		// One inside another: only the inner one is released.
		l := locktest.Lock(t, ctx, m)
		func() {
			defer func() { _ = recover() }()
			_, _ = m.Lock(l.Context(), holdfast.OnAcquire(func(*holdfast.Lease) { panic(boom) }))
		}()
		if n := locktest.HoldCount(t, l.Context(), m); n != 1 || !l.Valid() {
			t.Errorf("%d holds, valid: %v", n, l.Valid())
		}
		locktest.Release(t, l)
	})
}

// Hooks of a mutex and of a call are both called.
func TestHooksAdd(t *testing.T) {
	c := locktest.Open(t, redistest.Shared(t).URL())
	var heard []string
	hooks := func(who string) []holdfast.LockOption {
		return []holdfast.LockOption{
			holdfast.OnAcquire(func(*holdfast.Lease) { heard = append(heard, who+" in") }),
			holdfast.OnRelease(func(*holdfast.Lease, error) { heard = append(heard, who+" out") }),
		}
	}
	m := c.Mutex(locktest.Name(t), hooks("mutex")...)
	locktest.Release(t, locktest.Lock(t, t.Context(), m, hooks("call")...))
	if got := strings.Join(heard, ", "); got != "mutex in, call in, mutex out, call out" {
		t.Error(got)
	}
}
