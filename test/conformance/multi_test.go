package conformance_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestML01HeldTogether(t *testing.T) {
	c := locktest.Open(t, redistest.Shared(t).URL())
	n := locktest.Name(t)
	locks := []*holdfast.Mutex{c.Mutex(n + "1"), c.Mutex(n + "2"), c.Mutex(n + "3")}
	m := holdfast.MultiLocker(locks[0], locks[1], locks[2])
	l := locktest.Lock(t, t.Context(), m, holdfast.LeaseTime(10*time.Second))
	for _, one := range locks {
		if locktest.HoldCount(t, l.Context(), one) != 1 || locktest.HoldCount(t, t.Context(), one) != 0 {
			t.Errorf("%s is not held by the lease, or by another owner", one.Name())
		}
	}
	locktest.Release(t, l)
	for _, one := range locks {
		if locktest.HoldCount(t, l.Context(), one) != 0 || locktest.Locked(t, one) {
			t.Errorf("%s is still held", one.Name())
		}
	}
}

func TestML02OneWins(t *testing.T) {
	s := redistest.Shared(t)
	n := locktest.Name(t)
	a, b := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	var won atomic.Int64
	locktest.Parallel(10, func(i int) {
		c := []*holdfast.Client{a, b}[i%2]
		start := time.Now()
		_, err := holdfast.MultiLocker(c.Mutex(n+"1"), c.Mutex(n+"2"), c.Mutex(n+"3")).TryLock(t.Context(), holdfast.LeaseTime(10*time.Second))
		switch {
		case err == nil:
			won.Add(1)
		case !errors.Is(err, holdfast.ErrNotAcquired):
			t.Error(err)
		}
		if took := locktest.Took(start); took > locktest.Late {
			t.Errorf("the answer took %v", took)
		}
	})
	if won.Load() != 1 {
		t.Errorf("%d have won", won.Load())
	}
}

func TestML03InTurn(t *testing.T) {
	c := locktest.Open(t, redistest.Shared(t).URL())
	nearAndFar(t, c, func(t *testing.T, d *holdfast.Client) {
		n := locktest.Name(t)
		first := locktest.Lock(t, t.Context(), holdfast.MultiLocker(c.Mutex(n+"1"), c.Mutex(n+"2")))
		ch := locktest.Background(t.Context(), holdfast.MultiLocker(d.Mutex(n+"2"), d.Mutex(n+"1")))
		locktest.WantWaiting(t, d, ch)
		locktest.Release(t, first)
		locktest.Release(t, locktest.Entered(t, ch))
	})
}

func TestML04ThreeServers(t *testing.T) {
	t.Parallel()
	n := locktest.Name(t)
	var mine, theirs []holdfast.Locker
	for range 3 {
		s := redistest.Start(t)
		mine = append(mine, locktest.Open(t, s.URL()).Mutex(n))
		theirs = append(theirs, locktest.Open(t, s.URL()).Mutex(n))
	}
	l := locktest.Lock(t, t.Context(), holdfast.MultiLocker(mine...))
	for _, m := range theirs {
		locktest.WantRefused(t, m)
	}
	locktest.WantRefused(t, holdfast.MultiLocker(theirs...))
	locktest.Release(t, l)
	locktest.WantFree(t, holdfast.MultiLocker(theirs...))
}

func TestML05MembersAreLocked(t *testing.T) {
	c := locktest.Open(t, redistest.Shared(t).URL())
	n := locktest.Name(t)
	a, b := c.Mutex(n+"1"), c.FairMutex(n+"2")
	l := locktest.Lock(t, t.Context(), holdfast.MultiLocker(a, b))
	if !locktest.Locked(t, a) || !locktest.Locked(t, b) {
		t.Error("a member is not locked")
	}
	locktest.Release(t, l)
	if locktest.Locked(t, a) || locktest.Locked(t, b) {
		t.Error("a member is still locked")
	}
}
