package redlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A server that has forgotten its votes gives none for as long as the longest
// lease. So none may last longer, by whichever lease it is extended.
func TestExtendBeyondLongestLease(t *testing.T) {
	t.Parallel()
	servers := start(t, 3)
	l := voted(t, over(t, urls(servers)).Mutex("m"), 3)
	for i, part := range append(l.Parts(), l) {
		if err := part.Extend(t.Context(), lease+time.Millisecond); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("lease %d of 4, extended beyond the longest: %v", i+1, err)
		}
		if err := part.Extend(t.Context(), lease); err != nil {
			t.Error(err)
		}
	}
	for i, s := range servers {
		if ttl := s.Int(t, "PTTL", "m"); ttl > lease.Milliseconds() {
			t.Errorf("server %d keeps its vote for %d ms", i, ttl)
		}
	}
	release(t, l)
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
		if took := time.Since(began); err != nil || took > soon {
			tb.Errorf("%s: after %v, %v", what, took, err)
		}
	case <-time.After(5 * lease):
		tb.Fatalf("%s: no end", what)
	}
}

// voted returns a lease with the votes of n servers.
func voted(tb testing.TB, m holdfast.Locker, n int, opts ...holdfast.Option) *holdfast.Lease {
	tb.Helper()
	for {
		l := try(tb, m, opts...)
		if len(l.Parts()) == n {
			return l
		}
		release(tb, l) // one was slow, or all of them
	}
}

// Two silent servers of five keep nobody longer than one.
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
		c, err := holdfast.New(haltedDriver{d, &halt}, quick)
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
		time.Sleep(100 * time.Millisecond) // until it waits, most likely
		release(t, held)
		if err := <-got; err != nil {
			t.Errorf("without client %d: %v", i, err)
		}
	}
}

// Entering again with a context that is done ends with its error, and is no
// outage.
func TestEnterWithDoneContext(t *testing.T) {
	t.Parallel()
	m := over(t, urls(start(t, 3))).Mutex("m")
	l := voted(t, m, 3)
	ctx, cancel := context.WithCancel(l.Context())
	cancel()
	if _, err := m.Lock(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, holdfast.ErrUnavailable) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	release(t, l)
}
