package redlock_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A minority of servers that are dead, silent or cut off changes nothing; and
// without a majority the answer comes soon, and is not "busy".
func TestMinority(t *testing.T) {
	t.Parallel()
	servers := start(t, 5)
	p := redistest.NewProxy(t, servers[2].Addr())
	us := urls(servers)
	us[2] = p.URL()
	r := over(t, us)
	others := over(t, us)
	quickly := func(what string, err error, since time.Time) {
		t.Helper()
		if took := locktest.Took(since); took > soon {
			t.Errorf("%s: took %v, %v", what, took, err)
		}
	}
	servers[0].Kill()
	servers[1].Pause()
	for i := range 5 {
		began := time.Now()
		l, err := r.Mutex("m").TryLock(t.Context())
		quickly("one dead, one silent", err, began)
		if err != nil {
			t.Fatal(err)
		}
		wantBusy(t, others.Mutex("m"))
		if i == 0 {
			for _, s := range servers[2:] {
				locktest.WantRenewed(t, s, "m")
			}
			if !l.Valid() {
				t.Error("lost with three of five")
			}
		}
		began = time.Now()
		locktest.Release(t, l)
		quickly("release", nil, began)
	}
	p.Freeze()
	began := time.Now()
	_, err := r.Mutex("m").TryLock(t.Context())
	quickly("no majority", err, began)
	if !errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("no majority: %v", err)
	}
	p.Thaw()
	servers[1].Resume()
	l, err := r.Mutex("m").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	locktest.Release(t, l)
	empty(t, servers[1:])
}

// A lease is over, and its holder told, before a majority could grant the lock to
// another owner.
func TestMajorityLost(t *testing.T) {
	t.Parallel()
	servers := start(t, 3)
	l := try(t, over(t, urls(servers)).Mutex("m"))
	ctx := l.Context()
	servers[0].Pause()
	servers[1].Pause()
	paused := time.Now()
	select {
	case <-ctx.Done():
	case <-time.After(4 * lease):
		t.Fatal("not told")
	}
	if !errors.Is(context.Cause(ctx), holdfast.ErrLost) || locktest.Took(paused) > lease+soon/2 {
		t.Errorf("told after %v: %v", locktest.Took(paused), context.Cause(ctx))
	}
	servers[0].Resume()
	servers[1].Resume()
	if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("release: %v", err)
	}
	empty(t, servers)
}

// A server that was restarted without its data does not vote as long as what it
// has forgotten may be in use.
func TestForgottenVote(t *testing.T) {
	t.Parallel()
	servers := start(t, 3)
	p := redistest.NewProxy(t, servers[2].Addr())
	one := over(t, []string{servers[0].URL(), servers[1].URL(), p.URL()})
	other := over(t, urls(servers))
	p.Refuse(true)
	p.Cut()
	l := try(t, one.Mutex("m")) // by the first two only
	restarted := time.Now()
	servers[1].Restart()
	// The second has forgotten its vote, and the third never had one to give.
	_, err := other.Mutex("m").TryLock(t.Context())
	if l.Valid() && err == nil {
		t.Fatal("two hold the lock")
	}
	if !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("after the restart: %v", err)
	}
	next, err := other.Mutex("m").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if l.Valid() || time.Since(restarted) < lease-time.Second {
		t.Errorf("granted %v after the restart, and the other lease is valid: %v", time.Since(restarted), l.Valid())
	}
	_ = l.Release(t.Context())
	locktest.Release(t, next)
}

// deafDriver does not care for contexts.
type deafDriver struct {
	driver.Driver
	stuck chan struct{}
}

func (d deafDriver) Do(context.Context, driver.Call) (driver.Reply, error) {
	<-d.stuck
	return driver.Reply{}, driver.Unsent(io.ErrClosedPipe)
}

// The limit for each server is kept also when a driver does not keep it.
func TestDeafDriver(t *testing.T) {
	t.Parallel()
	servers := start(t, 3)
	conf, err := rueidis.ParseURL(servers[2].URL())
	if err != nil {
		t.Fatal(err)
	}
	d, err := rueidis.Open(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	deaf := deafDriver{d, make(chan struct{})}
	c, err := holdfast.New(deaf, &quick)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	t.Cleanup(func() { close(deaf.stuck) })
	clients := []*holdfast.Client{open(t, servers[0].URL()), open(t, servers[1].URL()), c}
	r := of(t, clients, holdfast.RedlockOptions{NodeTimeout: nodeTimeout})
	for range 3 {
		began := time.Now()
		l := try(t, r.Mutex("m"))
		locktest.Release(t, l)
		if took := locktest.Took(began); took > soon {
			t.Errorf("took %v", took)
		}
	}
	servers[1].Kill()
	began := time.Now()
	_, err = r.Mutex("m").TryLock(t.Context())
	if took := locktest.Took(began); !errors.Is(err, holdfast.ErrUnavailable) || took > soon {
		t.Errorf("no majority: after %v, %v", took, err)
	}
}

// A vote that arrives when the lock is already held is released at once.
func TestLateVote(t *testing.T) {
	t.Parallel()
	servers := start(t, 3)
	p := redistest.NewProxy(t, servers[2].Addr())
	m := over(t, []string{servers[0].URL(), servers[1].URL(), p.URL()}, holdfast.RedlockOptions{NodeTimeout: nodeTimeout}).Mutex("m")
	locktest.Release(t, try(t, m)) // the servers know the scripts
	p.Delay(lease / 8)
	l := voted(t, m, 2) // by the quick ones
	if !redistest.Poll(lease*3/4, func() bool { return len(servers[2].Keys(t)) == 0 }) {
		t.Fatal("the late vote is kept")
	}
	if !l.Valid() {
		t.Error("the lease has ended with the late vote")
	}
	p.Delay(0)
	locktest.Release(t, l)
	empty(t, servers)
}

// Servers that have just been started say so.
func TestYoungServers(t *testing.T) {
	t.Parallel()
	var us []string
	for range 3 {
		us = append(us, redistest.Start(t).URL())
	}
	// To start them all may take longer than the lease.
	m := over(t, us, holdfast.RedlockOptions{NodeTimeout: nodeTimeout, LongestLease: time.Minute}).Mutex("m")
	_, err := m.TryLock(t.Context())
	if !errors.Is(err, holdfast.ErrNotAcquired) || !strings.Contains(err.Error(), "restarted and not voting") || holdfast.Remaining(err) <= 0 {
		t.Errorf("%v, remaining %v", err, holdfast.Remaining(err))
	}
}

// quickly runs f and checks that it keeps the limit, give or take what a busy
// machine needs.
func quickly(tb testing.TB, what string, f func() error) {
	tb.Helper()
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		if took := locktest.Took(began); err != nil || took > soon {
			tb.Errorf("%s: after %v, %v", what, took, err)
		}
	case <-time.After(5 * lease):
		tb.Fatalf("%s: no end", what)
	}
}

// Two silent servers of five delay a call no longer than one.
func TestTwoSilentServers(t *testing.T) {
	t.Parallel()
	servers := start(t, 5)
	r := over(t, urls(servers))
	other := voted(t, r.Mutex("n"), 5) // first, since it is renewed
	l := voted(t, r.Mutex("m"), 5, holdfast.LeaseTime(lease))
	for _, s := range servers[:2] {
		s.Pause()
		defer s.Resume()
	}
	quickly(t, "extend", func() error { return l.Extend(t.Context(), lease) })
	quickly(t, "release what was extended", func() error { return l.Release(t.Context()) })
	quickly(t, "release", func() error { return other.Release(t.Context()) })
}

// haltedDriver does not return, whatever the context, while halt is locked.
type haltedDriver struct {
	driver.Driver
	halt *sync.RWMutex
}

func (d haltedDriver) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	d.halt.RLock()
	defer d.halt.RUnlock()
	return d.Driver.Do(ctx, c)
}

// Nor do two drivers that do not care for contexts.
func TestTwoDeafDrivers(t *testing.T) {
	t.Parallel()
	servers := start(t, 5)
	var halt sync.RWMutex
	var clients []*holdfast.Client
	for _, s := range servers[:2] {
		conf, err := rueidis.ParseURL(s.URL())
		if err != nil {
			t.Fatal(err)
		}
		d, err := rueidis.Open(t.Context(), conf)
		if err != nil {
			t.Fatal(err)
		}
		c, err := holdfast.New(haltedDriver{d, &halt}, &quick)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	for _, s := range servers[2:] {
		clients = append(clients, open(t, s.URL()))
	}
	m := of(t, clients).Mutex("m")
	l := voted(t, m, 5)
	halt.Lock()
	defer halt.Unlock()
	var again *holdfast.Lease
	quickly(t, "enter again", func() (err error) {
		again, err = m.Lock(l.Context())
		return err
	})
	quickly(t, "extend", func() error { return l.Extend(t.Context(), lease) })
	quickly(t, "release what was entered again", func() error { return again.Release(t.Context()) })
	quickly(t, "release", func() error { return l.Release(t.Context()) })
}

// A wait that a context has ended says that too few servers had answered,
// whether it ends between two attempts or during one.
func TestUnavailableAtTheDeadline(t *testing.T) {
	t.Parallel()
	var us []string
	var proxies []*redistest.Proxy
	for range 3 {
		p := redistest.NewProxy(t, redistest.Start(t).Addr())
		proxies = append(proxies, p)
		us = append(us, p.URL())
	}
	m := over(t, us, holdfast.RedlockOptions{NodeTimeout: 50 * time.Millisecond}).Mutex("m")
	for _, p := range proxies {
		p.Freeze()
		defer p.Thaw()
	}
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(400+20*i)*time.Millisecond)
			defer cancel()
			if _, err := m.Lock(ctx); !errors.Is(err, holdfast.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, holdfast.ErrNotAcquired) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// A closed client is a server that does not vote: the others are still a
// majority to wait for, whichever it is.
func TestOneClientClosed(t *testing.T) {
	t.Parallel()
	servers := start(t, 3)
	other := over(t, urls(servers)).Mutex("m")
	for i := range servers {
		var clients []*holdfast.Client
		for _, u := range urls(servers) {
			clients = append(clients, open(t, u))
		}
		m := of(t, clients).Mutex("m")
		_ = clients[i].Close()
		held := try(t, other)
		got := make(chan error, 1)
		go func() {
			l, err := m.Lock(t.Context(), holdfast.Wait(20*time.Second))
			if err == nil {
				err = l.Release(t.Context())
			}
			got <- err
		}()
		for j, s := range servers {
			if j != i {
				locktest.AwaitListener(t, s, "redisson_lock__channel:{m}")
			}
		}
		locktest.Release(t, held)
		if err := <-got; err != nil {
			t.Errorf("without client %d: %v", i, err)
		}
	}
}
