package interop_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// A victim is a process that holds locks, waits for others, and is killed.
type victim interface {
	Hold(tb testing.TB, k kind, name string)
	Wait(tb testing.TB, k kind, name string)
	Kill()
}

type javaVictim struct {
	*interop.Peer
	client *redisson
}

func newJavaVictim(tb testing.TB, release interop.Release, s *redistest.Server) victim {
	tb.Helper()
	p := ownPeer(tb, release)
	return &javaVictim{p, join(tb, p, interop.Single(s.Addr()).With("lockWatchdogTimeout", watchdog.Milliseconds()))}
}

func (v *javaVictim) Hold(tb testing.TB, k kind, name string) {
	tb.Helper()
	newJava(tb, v.client, k, name, name).Lock(tb, 0)
}

func (v *javaVictim) Wait(tb testing.TB, k kind, name string) {
	tb.Helper()
	k.java(tb, v.client, name).Go(name, "lock")
}

type goVictim struct{ *redistest.Process }

func newGoVictim(tb testing.TB, _ interop.Release, s *redistest.Server) victim {
	tb.Helper()
	return goVictim{redistest.Worker(tb, "victim", "TEST_URL="+s.URL())}
}

func (v goVictim) Hold(tb testing.TB, k kind, name string) {
	tb.Helper()
	v.Send(fmt.Sprint("hold ", k.name, " ", name))
	if line := <-v.Lines(); line != name {
		tb.Fatalf("output of the worker: %q", line)
	}
}

func (v goVictim) Wait(tb testing.TB, k kind, name string) {
	tb.Helper()
	v.Send(fmt.Sprint("wait ", k.name, " ", name))
}

func init() {
	workers["victim"] = func() {
		ctx := context.Background()
		c, err := holdfast.Open(ctx, os.Getenv("TEST_URL"), &holdfast.Options{WatchdogTimeout: watchdog, Anonymous: true})
		if err != nil {
			panic(err)
		}
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			order := strings.Fields(in.Text())
			k := kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == order[1] })]
			go func() {
				if _, err := k.golang(c, order[2]).Lock(ctx); err != nil {
					panic(err)
				}
				if order[0] == "hold" {
					fmt.Println(order[2])
				}
			}()
		}
	}
}

// The locks of a killed process are free when its leases are over, and not before. A killed
// waiter does not block others.
func TestKilled(t *testing.T) {
	t.Parallel()
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		for side, start := range map[string]func(testing.TB, interop.Release, *redistest.Server) victim{
			"Java": newJavaVictim, "Go": newGoVictim,
		} {
			t.Run(side, func(t *testing.T) {
				t.Parallel()
				r := newFixtureWith(t, release, holdfast.Options{PollInterval: time.Minute})
				kill(t, r, start(t, release, r.server), release)
			})
		}
	})
}

func kill(t *testing.T, r *fixture, v victim, release interop.Release) {
	others := open(t, r.server.URL(), holdfast.Options{PollInterval: time.Minute})
	_, java := v.(*javaVictim)

	// The victim waits for these locks ...
	type wanted struct {
		name    string
		ends    int64 // when the lock is free
		holder  party
		crowd   []party
		waiters <-chan visit
	}
	var hoped, held []wanted
	for _, k := range owned(release, "fair") {
		w := wanted{name: name(t) + k.name}
		w.holder = newGo(r.golang, k, w.name)
		w.holder.Lock(t, 0)
		before := r.listeners(t, w.name)
		v.Wait(t, k, w.name)
		if k.name != "spin" {
			locktest.Eventually(t, 30*time.Second, "it waits for "+w.name, func() bool { return r.listeners(t, w.name) > before })
		}
		w.crowd = r.crowd(t, k, w.name, others, false)
		w.waiters = r.visits(t, k, w.name, w.crowd...)
		hoped = append(hoped, w)
	}

	// ... and holds these.
	for _, k := range owned(release, "fair") {
		w := wanted{name: name(t) + k.name}
		v.Hold(t, k, w.name)
		w.crowd = r.crowd(t, k, w.name, others, java)
		w.waiters = r.visits(t, k, w.name, w.crowd...)
		held = append(held, w)
	}
	v.Kill()
	for i, w := range held {
		at := redistest.Now()
		ttl := r.ttl(t, w.name)
		if ttl <= 0 || ttl > watchdog {
			t.Fatalf("%s remains for %v after the end of its holder", w.name, ttl)
		}
		held[i].ends = at + int64(ttl-5*time.Millisecond) // the server rounds to milliseconds
	}

	for i, w := range hoped {
		hoped[i].ends = w.holder.Unlock(t)
	}
	for _, w := range slices.Concat(hoped, held) {
		for range w.crowd {
			w.ends = next(t, w.name, w.waiters, w.ends).Unlock(t)
		}
	}
}
