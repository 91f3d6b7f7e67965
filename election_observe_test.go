package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

var nobody holdfast.Leader

// leaderOf is a lease as observers see it.
func leaderOf(l *holdfast.Lease, said string) holdfast.Leader {
	return holdfast.Leader{Name: said, Term: l.Token(), Owner: l.Owner()}
}

// All observers see the same, in one client and in two, by messages and
// without.
func TestObservers(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := name(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	one, two := open(t, s.URL(), steady), open(t, s.URL(), steady)
	poll := holdfast.Poll(holdfast.Backoff{Max: 20 * time.Millisecond})
	views := map[string]view{
		"first":            observe(ctx, one.Election(n)),
		"same client":      observe(ctx, one.Election(n)),
		"another client":   observe(ctx, two.Election(n)),
		"call that polls":  observe(ctx, two.Election(n), poll),
		"object that does": observe(ctx, one.Election(n, poll)),
	}
	all := func(want holdfast.Leader) {
		t.Helper()
		for who, v := range views {
			if got := v.next(t); got != want {
				t.Errorf("%s: saw %+v, want %+v", who, got, want)
			}
		}
	}
	all(nobody)
	e := open(t, s.URL(), steady).Election(n)
	for range 3 {
		l := campaign(t, t.Context(), e, "a")
		all(leaderOf(l, "a"))
		if err := e.Proclaim(t.Context(), l, "a2"); err != nil {
			t.Fatal(err)
		}
		all(leaderOf(l, "a2"))
		if err := e.Proclaim(t.Context(), l, "a2"); err != nil { // is no change
			t.Fatal(err)
		}
		release(t, l)
		all(nobody)
	}
	// Whoever comes late sees who leads, at once; and nobody hears of those who
	// only try.
	l := campaign(t, t.Context(), e, "b")
	all(leaderOf(l, "b"))
	if got := observe(ctx, two.Election(n)).next(t); got != leaderOf(l, "b") {
		t.Errorf("latecomer: saw %+v", got)
	}
	if _, err := two.Election(n).TryCampaign(t.Context(), "c"); !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Error(err)
	}
	release(t, l)
	all(nobody)
	cancel()
	for _, v := range views {
		v.ends(t)
	}
}

// A leader that says nothing any more is seen to be gone when its lease is over.
func TestObserveExpiry(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	n := name(t)
	seen := observe(t.Context(), open(t, s.URL(), holdfast.Options{PollInterval: time.Minute}).Election(n))
	seen.next(t)
	l := campaign(t, t.Context(), open(t, p.URL(), holdfast.Options{WatchdogTimeout: 3 * time.Second}).Election(n), "a")
	if got := seen.next(t); got != leaderOf(l, "a") {
		t.Errorf("saw %+v", got)
	}
	p.Freeze()
	defer p.Thaw()
	start := time.Now()
	if got := seen.next(t); got != nobody || l.Valid() {
		t.Errorf("saw %+v, the leader is valid: %v", got, l.Valid())
	}
	if took := time.Since(start); took > 3*time.Second+late {
		t.Errorf("seen %v after the leader was cut off", took)
	}
	// A lock without a word has no leader; what follows it is seen.
	mutex := lock(t, t.Context(), open(t, s.URL(), steady).FencedMutex(n))
	wantLeader(t, open(t, s.URL()).Election(n), nil, "")
	release(t, mutex)
	next := campaign(t, t.Context(), open(t, s.URL(), steady).Election(n), "b")
	if got := seen.next(t); got != leaderOf(next, "b") || next.Token() != l.Token()+2 {
		t.Errorf("saw %+v, term %d after %d", got, next.Token(), l.Token())
	}
	release(t, next)
}

// A server that is away is an error, and not the end; one that is closed is.
func TestObserveOutage(t *testing.T) {
	t.Parallel()
	for what, away := range map[string]func(p *redistest.Proxy, on bool){
		"refused": func(p *redistest.Proxy, on bool) {
			p.Refuse(on)
			if on {
				p.Cut()
			}
		},
		"frozen": func(p *redistest.Proxy, on bool) {
			if on {
				p.Freeze()
			} else {
				p.Thaw()
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := redistest.NewProxy(t, s.Addr())
			n := name(t)
			c := open(t, p.URL()+"?timeout=300ms", holdfast.Options{PollInterval: 200 * time.Millisecond, RetryTimeout: 300 * time.Millisecond})
			seen := observe(t.Context(), c.Election(n))
			var last holdfast.Leader
			next := func() sight {
				t.Helper()
				got := seen.any(t)
				// A busy machine may have more outages, and after each the
				// same leader is news.
				for out := false; ; got = seen.any(t) {
					out = out || errors.Is(got.err, holdfast.ErrUnavailable)
					if !errors.Is(got.err, holdfast.ErrUnavailable) && (!out || got != sight{leader: last}) {
						return got
					}
				}
			}
			sees := func(what string, want holdfast.Leader) {
				t.Helper()
				if got := next(); got.err != nil || got.leader != want {
					t.Errorf("saw %+v %s", got, what)
				}
				last = want
			}
			e := open(t, s.URL(), steady).Election(n)
			sees("at first", nobody)
			l := campaign(t, t.Context(), e, "a")
			sees("after the election", leaderOf(l, "a"))
			away(p, true)
			for n, before := 0, false; n < 3; n++ { // once for each time that it has given up
				got := seen.any(t)
				if n > 0 && !before && got == (sight{leader: last}) { // that was another outage, which had ended before
					n, before = -1, true
					continue
				}
				if !errors.Is(got.err, holdfast.ErrUnavailable) || got.leader != nobody {
					t.Errorf("saw %+v without a server", got)
				}
			}
			release(t, l)
			l = campaign(t, t.Context(), e, "b") // nothing of which is heard
			away(p, false)
			sees("after the outage", leaderOf(l, "b"))
			release(t, l)
			sees("in the end", nobody)
			c.Close()
			if got := next(); !errors.Is(got.err, holdfast.ErrClosed) || got.leader != nobody {
				t.Errorf("saw %+v when the client was closed", got)
			}
			seen.ends(t)
			if got := observe(t.Context(), c.Election(n)).any(t); !errors.Is(got.err, holdfast.ErrClosed) {
				t.Errorf("saw %+v of a closed client", got)
			}
		})
	}
}

// What the server refuses ends the loop.
func TestObserveRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := name(t)
	s.Do(t, "SET", n, "somebody's")
	seen := observe(t.Context(), open(t, s.URL()).Election(n))
	if got := seen.any(t); !errors.Is(got.err, holdfast.ErrRefused) {
		t.Errorf("saw %+v", got)
	}
	seen.ends(t)
}

// However the loop is left, no subscription stays, and no goroutine.
func TestObserveLeavesNothing(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Fresh(t)
	c := open(t, s.URL(), steady)
	n := name(t)
	e := c.Election(n)
	news := "holdfast:leader:{" + n + "}"
	for range e.Observe(t.Context()) {
		break // at the first look
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for l, err := range e.Observe(done) {
		t.Errorf("saw %+v, %v", l, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	looked := 0
	seq := e.Observe(ctx)
	for range 2 { // it can be used again
		for l, err := range seq {
			if err != nil {
				t.Fatal(err)
			}
			if looked++; l != nobody {
				break
			}
			go func() {
				listened(t, s, news)
				if lease, err := e.TryCampaign(t.Context(), "a"); err == nil {
					<-ctx.Done()
					release(t, lease)
				}
			}()
		}
	}
	if looked != 3 { // nobody, the leader; the leader
		t.Errorf("%d sightings", looked)
	}
	eventually(t, 5*time.Second, "no subscription left", func() bool { return len(s.Channels(t)) == 0 })
	seen := observe(ctx, e)
	seen.next(t)
	listened(t, s, news)
	cancel()
	if l, ok := <-seen; ok && (l.err != nil || l.leader != nobody) { // the leader goes as well
		t.Errorf("saw %+v", l)
	}
	eventually(t, 5*time.Second, "no subscription left", func() bool { return len(s.Channels(t)) == 0 })

	lease := campaign(t, t.Context(), e, "b")
	for l, err := range e.Observe(t.Context(), holdfast.Poll(holdfast.Backoff{Max: 10 * time.Millisecond})) {
		if err != nil || l == nobody {
			break
		}
		time.AfterFunc(100*time.Millisecond, func() { release(t, lease) })
	}
	if channels := s.Channels(t); len(channels) > 0 {
		t.Errorf("whoever polls listens on %q", channels)
	}
	c.Close()
}

// Nothing is left of many elections, some of them cancelled, some lost, some
// cut off.
func TestElectionNothingLeaks(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	cs := []*holdfast.Client{open(t, p.URL(), quick), open(t, p.URL(), quick), open(t, p.URL(), quick)}
	ctx, cancel := context.WithCancel(t.Context())
	var observers, candidates sync.WaitGroup
	for i := range 4 {
		observers.Go(func() {
			for l, err := range cs[i%3].Election(fmt.Sprint("leak:", i)).Observe(ctx) {
				if err != nil && !errors.Is(err, holdfast.ErrUnavailable) {
					t.Error(err)
				}
				if l.Term%7 == 0 && l != nobody {
					for range cs[i%3].Election(fmt.Sprint("leak:", i)).Observe(ctx) {
						break
					}
				}
			}
		})
	}
	const rounds = 1000
	next := make(chan int)
	for g := range 12 {
		candidates.Go(func() {
			for i := range next {
				electionRound(t, cs[g%3].Election(fmt.Sprint("leak:", i%4)), i)
			}
		})
	}
	for i := range rounds {
		if i%250 == 125 { // not at the end, when nobody would be subscribed for a moment
			p.Cut()
		}
		next <- i
	}
	close(next)
	candidates.Wait()
	cancel()
	observers.Wait()
	eventually(t, 8*time.Second, "no key left", func() bool {
		return !slices.ContainsFunc(s.Keys(t), func(key string) bool {
			return !strings.HasPrefix(key, "redisson_lock_token:") // a counter is meant to stay
		})
	})
	eventually(t, 5*time.Second, "no subscription left", func() bool { return len(s.Channels(t)) == 0 })
	for _, c := range cs {
		c.Close()
	}
}

// electionRound leads for a moment, and every so often does not get that far.
func electionRound(t *testing.T, e *holdfast.Election, i int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var opts []holdfast.Option
	switch i % 20 {
	case 3:
		time.AfterFunc(time.Millisecond, cancel)
	case 7:
		opts = append(opts, holdfast.Wait(2*time.Millisecond))
	case 11:
		opts = append(opts, holdfast.LeaseTime(10*time.Millisecond))
	case 13:
		if err := e.Lead(ctx, "led", func(context.Context) error { return nil }); !tolerable(err) {
			t.Error(err)
		}
		return
	}
	l, err := e.Campaign(ctx, fmt.Sprint("round ", i), opts...)
	if !tolerable(err) {
		t.Error(err)
	}
	if err != nil {
		return
	}
	if i%20 == 11 {
		<-l.Context().Done() // lost, and never released
		return
	}
	if err := e.Proclaim(ctx, l, fmt.Sprint("round ", i, " still")); !tolerable(err) {
		t.Error(err)
	}
	if err := l.Release(ctx); !tolerable(err) {
		t.Error(err)
	}
}
