package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A diary is what happened, in order.
type diary []string

// hooks write into the diary.
func (d *diary) hooks() []holdfast.Option {
	return []holdfast.Option{
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
	each(t, "PSRW", func(t *testing.T, k kind) {
		m := k.make(open(t, url), name(t))
		var d diary
		l := lock(t, t.Context(), m, d.hooks()...)
		d.want(t, "acquired true")
		inner := lock(t, l.Context(), m, d.hooks()...)
		release(t, inner)
		d.want(t, "acquired true", "released false <nil>")
		// Nothing was taken, so nothing is released.
		if _, err := k.rival(open(t, url), m.Name()).TryLock(t.Context(), d.hooks()...); !errors.Is(err, holdfast.ErrNotAcquired) {
			t.Errorf("error %v", err)
		}
		d.want(t)
		release(t, l)
		release(t, l) // does nothing
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
	c := open(t, redistest.Shared(t).URL())
	var d diary
	n := name(t)
	rw := c.RWMutex(n, d.hooks()...)
	boom := errors.New("boom")
	for kind, do := range map[string]func(context.Context, func(context.Context) error, ...holdfast.Option) error{
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
	each(t, "PSRW", func(t *testing.T, k kind) {
		m := k.make(open(t, url), name(t))
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // or a lock that is kept would be waited for
		defer cancel()
		boom := errors.New("boom")
		var d diary
		for call, take := range map[string]func(opts ...holdfast.Option){
			"Lock":    func(opts ...holdfast.Option) { _, _ = m.Lock(ctx, opts...) },
			"TryLock": func(opts ...holdfast.Option) { _, _ = m.TryLock(ctx, opts...) },
			"DoValue": func(opts ...holdfast.Option) {
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
			wantFree(t, k.rival(open(t, url), m.Name()))
		}
		// One inside another: only that one is given back.
		l := lock(t, ctx, m)
		func() {
			defer func() { _ = recover() }()
			_, _ = m.Lock(l.Context(), holdfast.OnAcquire(func(*holdfast.Lease) { panic(boom) }))
		}()
		if n := holds(t, l.Context(), m); n != 1 || !l.Valid() {
			t.Errorf("%d holds, valid: %v", n, l.Valid())
		}
		release(t, l)
	})
}

// A hook hears what Release returns.
func TestHookHearsOfLoss(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), quick)
	each(t, "PSRW", func(t *testing.T, k kind) {
		m := k.make(c, name(t))
		var heard error
		opt := holdfast.OnRelease(func(_ *holdfast.Lease, err error) { heard = err })
		l := lock(t, t.Context(), m, opt)
		s.Do(t, "DEL", m.Name())
		err := l.Release(t.Context())
		if !errors.Is(err, holdfast.ErrLost) || !errors.Is(heard, err) {
			t.Errorf("Release returned %v, the hook heard %v", err, heard)
		}
		heard = nil
		_, err = holdfast.DoValue(t.Context(), m, func(ctx context.Context) (int, error) {
			s.Do(t, "DEL", m.Name())
			<-ctx.Done()
			return 0, nil
		}, opt)
		if !errors.Is(err, holdfast.ErrLost) || !errors.Is(heard, holdfast.ErrLost) {
			t.Errorf("DoValue returned %v, the hook heard %v", err, heard)
		}
	})
	m := c.RWMutex(name(t))
	var heard error
	l := lock(t, t.Context(), m, holdfast.OnRelease(func(_ *holdfast.Lease, err error) { heard = err }))
	s.Pause()
	resumed := make(chan struct{})
	time.AfterFunc(1500*time.Millisecond, func() {
		defer close(resumed)
		s.Resume()
	})
	defer func() { <-resumed }() // before the server is gone
	if err := l.Release(t.Context()); err != nil && !errors.Is(heard, err) {
		t.Errorf("Release returned %v, the hook heard %v", err, heard)
	}
}
