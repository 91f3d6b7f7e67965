package inspect_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// An operator with the documented rights for one prefix sees and breaks the locks with that
// prefix, and waiters get them. It neither sees nor breaks those of other programs, whose names
// contain the prefix.
func TestOperatorOfOnePrefix(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, c := range rights(t) {
		if !slices.Contains(c, "~*") {
			s.Do(t, c...)
		}
	}
	holder, _ := open(t, s.URL())
	waiter, admin := open(t, s.URL())
	_, i := open(t, strings.Replace(s.URL(), "redis://", "redis://operator:secret@", 1))
	ctx := t.Context()
	kinds := map[string]func(*holdfast.Client, string) holdfast.Locker{
		"mutex":   func(c *holdfast.Client, n string) holdfast.Locker { return c.Mutex(n) },
		"fair":    func(c *holdfast.Client, n string) holdfast.Locker { return c.FairMutex(n) },
		"fenced":  func(c *holdfast.Client, n string) holdfast.Locker { return c.FencedMutex(n) },
		"read":    func(c *holdfast.Client, n string) holdfast.Locker { return c.RWMutex(n).RLocker() },
		"write":   func(c *holdfast.Client, n string) holdfast.Locker { return c.RWMutex(n) },
		"permits": func(c *holdfast.Client, n string) holdfast.Locker { return c.LeasedSemaphore(n).Locker(1) },
	}
	take := func(name string) {
		if strings.Contains(name, "permits") {
			done(t, holder.LeasedSemaphore(name).Set(ctx, 1))
		}
		for kind, lock := range kinds {
			if strings.Contains(name, kind) {
				must(lock(holder, name).Lock(ctx))(t)
			}
		}
	}
	var own []string
	for kind := range kinds {
		own = append(own, "app:"+kind, "app:{"+kind+"}")
		take("app:" + kind)
		take("app:{" + kind + "}")
		for _, name := range []string{"x:app:" + kind, "x:{app:" + kind + "}", "x:app:{" + kind + "}"} {
			take(name)
			if _, err := i.Lock(ctx, name); !errors.Is(err, holdfast.ErrRefused) {
				t.Errorf("the operator looks at %s: %v", name, err)
			}
			seen := must(admin.Lock(ctx, name))(t)
			if did, err := i.Break(ctx, seen); did || !errors.Is(err, holdfast.ErrRefused) {
				t.Errorf("the operator breaks %s: %v, %v", name, did, err)
			}
		}
	}
	if locks := must(list(t, i, inspect.Query{Match: "app:*"}))(t); len(locks) != len(own) {
		t.Errorf("of %q, the operator sees %v", own, locks)
	}
	for _, name := range own {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind := strings.Trim(strings.TrimPrefix(name, "app:"), "{}")
			lock := kinds[kind]
			if kind == "read" {
				lock = kinds["write"] // readers do not wait for readers
			}
			granted := make(chan error, 1)
			go func() {
				lease, err := lock(waiter, name).Lock(context.WithoutCancel(ctx), holdfast.Wait(time.Minute))
				if err == nil {
					err = lease.Release(context.WithoutCancel(ctx))
				}
				granted <- err
			}()
			seen := eventually(t, i, name, func(l inspect.Lock) bool { return l.Clients == 1 })
			if !must(i.Break(t.Context(), seen))(t) {
				t.Error("not broken")
			}
			if err := <-granted; err != nil {
				t.Error(err)
			}
		})
	}
}
