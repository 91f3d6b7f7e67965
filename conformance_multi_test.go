package holdfast_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestML01HeldTogether(t *testing.T) {
	c := open(t, redistest.Shared(t).URL())
	n := name(t)
	locks := []*holdfast.Mutex{c.Mutex(n + "1"), c.Mutex(n + "2"), c.Mutex(n + "3")}
	m := holdfast.Multi(locks[0], locks[1], locks[2])
	l := lock(t, t.Context(), m, holdfast.LeaseTime(10*time.Second))
	for _, one := range locks {
		if holds(t, l.Context(), one) != 1 || holds(t, t.Context(), one) != 0 {
			t.Errorf("%s is not held by the lease, or by somebody else", one.Name())
		}
	}
	release(t, l)
	for _, one := range locks {
		if holds(t, l.Context(), one) != 0 || locked(t, one) {
			t.Errorf("%s is still held", one.Name())
		}
	}
}

func TestML02OneWins(t *testing.T) {
	s := redistest.Shared(t)
	n := name(t)
	a, b := open(t, s.URL()), open(t, s.URL())
	var won atomic.Int64
	parallel(10, func(i int) {
		c := []*holdfast.Client{a, b}[i%2]
		start := time.Now()
		_, err := holdfast.Multi(c.Mutex(n+"1"), c.Mutex(n+"2"), c.Mutex(n+"3")).TryLock(t.Context(), holdfast.LeaseTime(10*time.Second))
		switch {
		case err == nil:
			won.Add(1)
		case !errors.Is(err, holdfast.ErrNotAcquired):
			t.Error(err)
		}
		if took := time.Since(start); took > late {
			t.Errorf("the answer took %v", took)
		}
	})
	if won.Load() != 1 {
		t.Errorf("%d have won", won.Load())
	}
}

func TestML03InTurn(t *testing.T) {
	c := open(t, redistest.Shared(t).URL())
	nearAndFar(t, c, func(t *testing.T, d *holdfast.Client) {
		n := name(t)
		first := lock(t, t.Context(), holdfast.Multi(c.Mutex(n+"1"), c.Mutex(n+"2")))
		ch := background(t.Context(), holdfast.Multi(d.Mutex(n+"2"), d.Mutex(n+"1")))
		select {
		case <-ch:
			t.Error("the second did not wait")
		case <-time.After(100 * time.Millisecond):
		}
		release(t, first)
		release(t, entered(t, ch))
	})
}

func TestML04ThreeServers(t *testing.T) {
	t.Parallel()
	n := name(t)
	var mine, theirs []holdfast.Locker
	for range 3 {
		s := redistest.Start(t)
		mine = append(mine, open(t, s.URL()).Mutex(n))
		theirs = append(theirs, open(t, s.URL()).Mutex(n))
	}
	l := lock(t, t.Context(), holdfast.Multi(mine...))
	for _, m := range theirs {
		wantRefused(t, m)
	}
	wantRefused(t, holdfast.Multi(theirs...))
	release(t, l)
	wantFree(t, holdfast.Multi(theirs...))
}

func TestML05MembersAreLocked(t *testing.T) {
	c := open(t, redistest.Shared(t).URL())
	n := name(t)
	a, b := c.Mutex(n+"1"), c.FairMutex(n+"2")
	l := lock(t, t.Context(), holdfast.Multi(a, b))
	if !locked(t, a) || !locked(t, b) {
		t.Error("a member is not locked")
	}
	release(t, l)
	if locked(t, a) || locked(t, b) {
		t.Error("a member is still locked")
	}
}
