package conformance_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// contend lets every mutex be locked that often, all at the same time.
func contend(t *testing.T, ms []locktest.MutexLike, rounds int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	sec := locktest.NewSection(ms[0].Name())
	locktest.Parallel(len(ms), func(i int) {
		for range rounds {
			l, err := ms[i].Lock(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			if shared := isReader(ms[i]); shared {
				sec.Read(l, time.Millisecond)
			} else {
				sec.Visit(l, time.Millisecond)
			}
			if err := l.Release(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	sec.Check(t, len(ms)*rounds)
	if locktest.Locked(t, ms[0]) {
		t.Error("locked in the end")
	}
}

// clients returns n mutexes of one name, each of a client of its own. Every
// fourth is a rival.
func clients(t *testing.T, k locktest.Kind, n int) []locktest.MutexLike {
	t.Helper()
	url, name := redistest.Shared(t).URL(), locktest.Name(t)
	ms := make([]locktest.MutexLike, n)
	for i := range ms {
		if c := locktest.Open(t, url); i%4 == 0 {
			ms[i] = k.Rival(c, name)
		} else {
			ms[i] = k.Make(c, name)
		}
	}
	return ms
}

func TestCM15OneClient(t *testing.T) {
	locktest.Each(t, "PFSGRW", func(t *testing.T, k locktest.Kind) {
		c := locktest.Open(t, redistest.Shared(t).URL())
		m := k.Make(c, locktest.Name(t))
		contend(t, append(slices.Repeat([]locktest.MutexLike{m}, 14), k.Rival(c, m.Name())), 1)
	})
}

func TestCM16SixteenClients(t *testing.T) {
	locktest.Each(t, "PFSGRW", func(t *testing.T, k locktest.Kind) {
		contend(t, clients(t, k, 16), locktest.Often(100))
	})
}

func TestCM17HundredClients(t *testing.T) {
	locktest.Each(t, "PFSGRW", func(t *testing.T, k locktest.Kind) {
		contend(t, clients(t, k, locktest.Often(100)), 1)
	})
}

func TestCM21NoChannelLeft(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Fresh(t)
	// Goroutines of one client mostly pass a lock on among themselves. It takes
	// several clients to keep the subscriptions busy.
	var cs [4]*holdfast.Client
	for i := range cs {
		cs[i] = locktest.Open(t, locktest.Enduring(s.URL()))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var names [5]string
	var secs [5]*locktest.Section
	var visits [5]int
	for i := range names {
		names[i] = locktest.Name(t)
		secs[i] = locktest.NewSection(names[i])
	}
	const goroutines = 32
	rounds := locktest.Often(5000)
	locktest.Parallel(goroutines, func(i int) {
		for r := i; r < rounds; r += goroutines {
			n := rand.IntN(len(names))
			l, err := cs[i%len(cs)].Mutex(names[n]).Lock(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			secs[n].Visit(l, 0)
			visits[n]++
			if err := l.Release(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	total := 0
	for i, sec := range secs {
		sec.Check(t, visits[i])
		total += visits[i]
	}
	if total != rounds {
		t.Errorf("%d rounds done, want %d", total, rounds)
	}
	wantNoChannels(t, s)
}

// wantNoChannels checks that there were subscriptions and that all of them end.
func wantNoChannels(t *testing.T, s *redistest.Server) {
	t.Helper()
	if stats, _ := s.Do(t, "INFO", "commandstats").(string); !strings.Contains(stats, "subscribe:") {
		t.Error("there was no subscription")
	}
	locktest.Eventually(t, 10*time.Second, "no channel is left", func() bool { return len(s.Channels(t)) == 0 })
	if keys := s.Keys(t); len(keys) > 0 {
		t.Errorf("keys left: %q", keys)
	}
}

func TestCM22TwoPerName(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Fresh(t)
	// Waiters do not poll. One that is not woken is refused.
	deaf := holdfast.Options{PollInterval: time.Hour}
	const wait = 20 * time.Second
	cs := [2]*holdfast.Client{locktest.Open(t, locktest.Enduring(s.URL()), deaf), locktest.Open(t, locktest.Enduring(s.URL()), deaf)}
	locktest.Parallel(100, func(i int) {
		m := cs[i%2].Mutex(fmt.Sprint(t.Name(), i/2))
		for range 3 {
			l, err := m.TryLock(t.Context(), holdfast.Wait(wait))
			if err != nil {
				t.Error(err)
				return
			}
			locktest.Work(10 * time.Millisecond)
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	wantNoChannels(t, s)
}
