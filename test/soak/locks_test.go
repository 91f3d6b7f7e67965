package soak_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast"
)

// A lock is one lock of any kind, and how a call takes it.
type lock struct {
	want  want
	lock  func(context.Context, []holdfast.LockOption) (*holdfast.Lease, error)
	again func(context.Context) (*holdfast.Lease, error) // enters it again; nil if the kind has no such call
}

// tokens returns the tokens of a lease in the order of the names.
func (l *lock) tokens(got *holdfast.Lease) []int64 {
	if l.want.Shared || l.want.Permits > 0 {
		return nil
	}
	if len(l.want.Names) == 1 {
		return []int64{got.Token()}
	}
	var tokens []int64
	for _, name := range l.want.Names {
		i := slices.IndexFunc(got.Parts(), func(p *holdfast.Lease) bool { return p.Name() == name })
		tokens = append(tokens, got.Parts()[i].Token())
	}
	return tokens
}

// permits are the semaphores of a round, by the number of their permits.
var permits = []int{1, 3, 8}

// The names of a round.
func semaphoreName(round string, permits int) string {
	return fmt.Sprintf("%ssemaphore%d", round, permits)
}

// setName returns one of the names that sets use. Those of one slot are taken by one script.
func setName(round string, i int) string { return fmt.Sprintf("{%sset}%d", round, i) }

// spreadName returns one of the names that sets use in several slots.
func spreadName(round string, i int) string { return fmt.Sprintf("%sspread%d", round, i) }

// lockNames returns the names of a round that are not semaphores.
func lockNames(round string) (names []string) {
	for i := range 3 {
		names = append(names, fmt.Sprint(round, "mutex", i), setName(round, i), spreadName(round, i))
	}
	for i := range 2 {
		names = append(names, fmt.Sprint(round, "fenced", i), fmt.Sprint(round, "fair", i), fmt.Sprint(round, "rw", i))
	}
	return append(names, round+"election")
}

// choose returns a lock.
func (u *user) choose() *lock {
	name := func(kind string, n int) string { return fmt.Sprintf("%s%s%d", u.Round, kind, u.rand.IntN(n)) }
	c := u.client
	switch n := u.rand.IntN(100); {
	case n < 20:
		return single("mutex", name("mutex", 3), c.Mutex)
	case n < 35:
		return single("fenced", name("fenced", 2), c.FencedMutex)
	case n < 47:
		return single("fair", name("fair", 2), c.FairMutex)
	case n < 53:
		return single("write", name("rw", 2), func(name string, _ ...holdfast.LockOption) *holdfast.RWMutex { return c.RWMutex(name) })
	case n < 66:
		l := single("read", name("rw", 2), func(name string, _ ...holdfast.LockOption) holdfast.Locker { return c.RWMutex(name).RLocker() })
		l.want.Shared, l.again = true, nil
		return l
	case n < 80:
		return u.permits(permits[u.rand.IntN(len(permits))])
	case n < 90:
		return u.set(setName, 3)
	case n < 93:
		return u.set(spreadName, 3)
	case n < 96:
		return single("mutex", setName(u.Round, u.rand.IntN(3)), c.Mutex)
	}
	e := c.Election(u.Round + "election")
	return &lock{
		want: want{Kind: "election", Names: []string{e.Name()}},
		lock: func(ctx context.Context, opts []holdfast.LockOption) (*holdfast.Lease, error) {
			return e.Campaign(ctx, u.Process, opts...)
		},
	}
}

// single returns a lock on one name.
func single[L holdfast.Locker](kind, name string, of func(string, ...holdfast.LockOption) L) *lock {
	m := of(name)
	return &lock{
		want: want{Kind: kind, Names: []string{name}},
		lock: func(ctx context.Context, opts []holdfast.LockOption) (*holdfast.Lease, error) {
			return m.Lock(ctx, opts...)
		},
		again: func(ctx context.Context) (*holdfast.Lease, error) { return m.Lock(ctx) },
	}
}

// permits returns a lock on permits of a semaphore.
func (u *user) permits(capacity int) *lock {
	n := 1 + u.rand.IntN((capacity+1)/2)
	s := u.client.LeasedSemaphore(semaphoreName(u.Round, capacity))
	return &lock{
		want: want{Kind: "permits", Names: []string{s.Name()}, Permits: n, Capacity: capacity},
		lock: func(ctx context.Context, opts []holdfast.LockOption) (*holdfast.Lease, error) {
			return s.Acquire(ctx, n, opts...)
		},
	}
}

// set returns a MultiLocker over some of n names.
func (u *user) set(nameOf func(string, int) string, n int) *lock {
	var names []string
	var parts []holdfast.Locker
	for _, i := range u.rand.Perm(n)[:2+u.rand.IntN(n-1)] {
		names = append(names, nameOf(u.Round, i))
		parts = append(parts, u.client.Mutex(nameOf(u.Round, i)))
	}
	m := holdfast.MultiLocker(parts...)
	return &lock{
		want: want{Kind: "multi", Names: names},
		lock: func(ctx context.Context, opts []holdfast.LockOption) (*holdfast.Lease, error) {
			return m.Lock(ctx, opts...)
		},
	}
}
