package matrix_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A master without sentinels stands still, its replica is promoted, and the
// master resumes: two servers call themselves master. One client uses the one,
// another client the other, and both hold one lock. As soon as a client sees both
// servers it is granted nothing. When one server is a replica again, the lease at
// the other is kept, and the holder of the other lease is told.
func TestRow34TwoMasters(t *testing.T) {
	t.Parallel()
	r := redistest.StartReplicated(t, 1)
	a, b := r.Nodes()[0], r.Nodes()[1]
	w := &world{T: t, name: "replicated", mode: async}
	toB := redistest.NewProxy(t, b.Addr())
	toB.Refuse(true)                                                         // x does not learn what becomes of b
	lasting := func(o *holdfast.Options) { o.WatchdogTimeout = time.Minute } // no lease ends in this test
	x := w.openAt("redis://"+a.Addr()+","+toB.Addr(), lasting)

	a.Pause()
	b.Do(t, "REPLICAOF", "NO", "ONE")
	y := w.openAt("redis://"+a.Addr()+","+b.Addr()+"?timeout=500ms&dial_timeout=500ms", lasting)
	atB := w.keep(y, "held")
	a.Resume()
	atA := w.keep(x, "held")

	refused := func(c *holdfast.Client) func() bool {
		return func() bool {
			l, err := c.Mutex("other").TryLock(t.Context())
			if err == nil {
				_ = l.Release(t.Context())
			}
			return errors.Is(err, holdfast.ErrUnavailable) && strings.Contains(err.Error(), "both report that they are the master")
		}
	}
	w.eventually(3*slack, "a client that sees two masters is granted nothing", refused(y))
	toB.Refuse(false)
	w.eventually(3*slack, "another one, too", refused(x))
	for range 3 { // it stays so
		for _, c := range []*holdfast.Client{x, y} {
			if !refused(c)() {
				t.Error("a client was granted a lock while two servers called themselves master")
			}
		}
	}

	host, port, _ := strings.Cut(b.Addr(), ":")
	a.Do(t, "REPLICAOF", host, port)
	atA.lost(3*slack, holdfast.LossFailover)
	for _, c := range []*holdfast.Client{x, y} {
		w.eventually(3*slack, "locks are granted again", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			l, err := c.Mutex("other").Lock(ctx)
			return err == nil && l.Release(t.Context()) == nil
		})
	}
	atB.kept()
	empty(t, b)
}
