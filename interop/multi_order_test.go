package interop_test

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// site is a server with clients of both sides.
type site struct {
	java   *redisson
	golang *holdfast.Client
}

// sites returns clients of both sides for some servers.
func sites(tb testing.TB, p *interop.Peer, servers ...*redistest.Server) (all []site) {
	for _, s := range servers {
		all = append(all, site{join(tb, p, interop.Single(s.Addr())), open(tb, s.URL())})
	}
	return all
}

// Redisson acquires the parts of a multi lock in the given order, Holdfast in its own order.
// For all orders, on one server or two, threads and goroutines make progress and hold the
// locks one at a time.
func TestMultiOrders(t *testing.T) {
	t.Parallel()
	one, two := redistest.Start(t), redistest.Start(t)
	for what, c := range map[string]struct {
		servers []*redistest.Server
		kinds   mixture
	}{
		"queue last":  {[]*redistest.Server{one, one}, mixture{"mutex", "fair"}},
		"queue first": {[]*redistest.Server{one, one}, mixture{"fair", "mutex"}},
		"there":       {[]*redistest.Server{one, two}, mixture{"mutex", "mutex"}},
		"and back":    {[]*redistest.Server{two, one}, mixture{"mutex", "mutex"}},
	} {
		t.Run(what, func(t *testing.T) {
			n := name(t)
			at := sites(t, peer(t, interop.Current), c.servers...)
			var locks []holdfast.Locker
			for i, k := range c.kinds {
				locks = append(locks, kindOf(k).golang(at[i].golang, partName(n, i)))
			}
			slices.Reverse(locks)
			compete(t, 100, func() object {
				var parts []any
				for i, k := range c.kinds {
					parts = append(parts, kindOf(k).java(t, at[i].java, partName(n, i)))
				}
				return at[0].java.get(t, "getMultiLock", parts)
			}, func() holdfast.Locker { return holdfast.MultiLocker(locks...) })
		})
	}
}
