package faults_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A candidate that is elected and cannot say so does not lead: it resigns at
// once, although its lease would last for long.
func TestUnannounced(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		harm func(t *testing.T, s *redistest.Server, key string, cancel func()) // between the grant and the word of it
		heal func(s *redistest.Server)
		want error
	}{
		"server silent": {
			harm: func(_ *testing.T, s *redistest.Server, _ string, _ func()) { s.Pause() },
			heal: (*redistest.Server).Resume,
			want: holdfast.ErrUnavailable,
		},
		"memory full": {
			harm: func(t *testing.T, s *redistest.Server, _ string, _ func()) {
				s.Do(t, "CONFIG", "SET", "maxmemory", "1")
			},
			want: holdfast.ErrRefused,
		},
		"lock deleted": {
			harm: func(t *testing.T, s *redistest.Server, key string, _ func()) { s.Do(t, "DEL", key) },
			want: holdfast.ErrLost,
		},
		"cancelled": {
			harm: func(_ *testing.T, _ *redistest.Server, _ string, cancel func()) { cancel() },
			want: context.Canceled,
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := redistest.NewProxy(t, s.Addr())
			query := ""
			if what == "lock deleted" { // or it could ask again before it is told, and lead
				query = locktest.PatientQuery
			}
			c := locktest.Open(t, p.URL()+query)
			e := c.Election(locktest.Name(t))
			locktest.Release(t, locktest.Campaign(t, t.Context(), e, "a")) // so that the server knows the scripts
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			granted, tell := p.HoldReply(redistest.Command("EVALSHA"))
			done := make(chan error, 1)
			go func() {
				l, err := e.Campaign(ctx, "a")
				if err == nil {
					t.Errorf("leads: %v", l.Owner())
				}
				done <- err
			}()
			<-granted
			if what == "cancelled" { // the word is out, but not known to be
				said, pass := p.HoldReply(redistest.Command("EVALSHA"))
				tell()
				<-said
				test.harm(t, s, e.Name(), cancel)
				defer pass()
			} else {
				test.harm(t, s, e.Name(), cancel)
				tell()
			}
			if err := <-done; !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if test.heal != nil {
				test.heal(s)
			}
			locktest.Eventually(t, 10*time.Second, "there is no leader", func() bool { return s.Int(t, "EXISTS", e.Name()) == 0 })
			s.Do(t, "CONFIG", "SET", "maxmemory", "0")
			l, err := locktest.Open(t, s.URL()).Election(e.Name()).TryCampaign(t.Context(), "b")
			if err != nil {
				t.Fatal(err)
			}
			locktest.WantLeader(t, e, l, "b")
			locktest.Release(t, l)
		})
	}
}

// Lead outlives an outage of the server that is longer than a call would wait:
// fn has not returned while it led, and ctx is not done.
func TestLeadOutage(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := locktest.Open(t, p.URL(), holdfast.Options{WatchdogTimeout: 600 * time.Millisecond, RetryTimeout: 300 * time.Millisecond})
	e := c.Election(locktest.Name(t))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	runs := 0
	err := e.Lead(ctx, "a", func(ctx context.Context) error {
		if runs++; runs > 1 {
			return nil
		}
		redistest.Outage(3*time.Second, func() { p.Refuse(true); p.Cut() }, func() { p.Refuse(false) })
		<-ctx.Done()
		return ctx.Err()
	})
	if err != nil || runs < 2 {
		t.Errorf("%d runs, error %v", runs, err)
	}
}

// Observers see that a silent leader is gone when its lease has expired.
func TestObserveExpiry(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	n := locktest.Name(t)
	seen := locktest.Observe(t.Context(), locktest.Open(t, s.URL(), holdfast.Options{PollInterval: time.Minute}).Election(n))
	seen.Next(t)
	l := locktest.Campaign(t, t.Context(), locktest.Open(t, p.URL(), holdfast.Options{WatchdogTimeout: 3 * time.Second}).Election(n), "a")
	if got := seen.Next(t); got != locktest.LeaderOf(l, "a") {
		t.Errorf("saw %+v", got)
	}
	p.Freeze()
	defer p.Thaw()
	start := time.Now()
	if got := seen.Next(t); got != locktest.NoLeader || l.Valid() {
		t.Errorf("saw %+v, the leader is valid: %v", got, l.Valid())
	}
	if took := locktest.Took(start); took > 3*time.Second+locktest.Late {
		t.Errorf("seen %v after the leader was cut off", took)
	}
	// A lock without a word has no leader; what follows it is seen.
	mutex := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL(), locktest.Steady).FencedMutex(n))
	locktest.WantLeader(t, locktest.Open(t, s.URL()).Election(n), nil, "")
	locktest.Release(t, mutex)
	next := locktest.Campaign(t, t.Context(), locktest.Open(t, s.URL(), locktest.Steady).Election(n), "b")
	if got := seen.Next(t); got != locktest.LeaderOf(next, "b") || next.Token() != l.Token()+2 {
		t.Errorf("saw %+v, term %d after %d", got, next.Token(), l.Token())
	}
	locktest.Release(t, next)
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
			n := locktest.Name(t)
			c := locktest.Open(t, p.URL()+"?timeout=300ms", holdfast.Options{PollInterval: 200 * time.Millisecond, RetryTimeout: 300 * time.Millisecond})
			seen := locktest.Observe(t.Context(), c.Election(n))
			var last holdfast.Leader
			next := func() locktest.Sight {
				t.Helper()
				got := seen.Any(t)
				// A busy machine may have more outages, and after each the
				// same leader is news.
				for out := false; ; got = seen.Any(t) {
					out = out || errors.Is(got.Err, holdfast.ErrUnavailable)
					if !errors.Is(got.Err, holdfast.ErrUnavailable) && (!out || got != locktest.Sight{Leader: last}) {
						return got
					}
				}
			}
			sees := func(what string, want holdfast.Leader) {
				t.Helper()
				if got := next(); got.Err != nil || got.Leader != want {
					t.Errorf("saw %+v %s", got, what)
				}
				last = want
			}
			e := locktest.Open(t, s.URL(), locktest.Steady).Election(n)
			sees("at first", locktest.NoLeader)
			l := locktest.Campaign(t, t.Context(), e, "a")
			sees("after the election", locktest.LeaderOf(l, "a"))
			away(p, true)
			for n, before := 0, false; n < 3; n++ { // once for each time that it has given up
				got := seen.Any(t)
				if n > 0 && !before && got == (locktest.Sight{Leader: last}) { // that was another outage, which had ended before
					n, before = -1, true
					continue
				}
				if !errors.Is(got.Err, holdfast.ErrUnavailable) || got.Leader != locktest.NoLeader {
					t.Errorf("saw %+v without a server", got)
				}
			}
			locktest.Release(t, l)
			l = locktest.Campaign(t, t.Context(), e, "b") // without a message to the observer
			away(p, false)
			sees("after the outage", locktest.LeaderOf(l, "b"))
			locktest.Release(t, l)
			sees("in the end", locktest.NoLeader)
			c.Close()
			if got := next(); !errors.Is(got.Err, holdfast.ErrClosed) || got.Leader != locktest.NoLeader {
				t.Errorf("saw %+v when the client was closed", got)
			}
			seen.Ends(t)
			if got := locktest.Observe(t.Context(), c.Election(n)).Any(t); !errors.Is(got.Err, holdfast.ErrClosed) {
				t.Errorf("saw %+v of a closed client", got)
			}
		})
	}
}

// An observer whose look at the server took longer than a lease tells all the
// same what it has seen.
func TestSlowObserverSeesTheLeader(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	n := locktest.Name(t)
	seen := locktest.Observe(t.Context(), locktest.Open(t, p.URL(), holdfast.Options{WatchdogTimeout: 300 * time.Millisecond, PollInterval: time.Second}).Election(n))
	if got := seen.Next(t); got != locktest.NoLeader {
		t.Fatalf("saw %+v", got)
	}
	locktest.AwaitListener(t, s, "holdfast:leader:{"+n+"}")
	scripts := p.Count("EVALSHA")
	locktest.Eventually(t, 10*time.Second, "it has polled", func() bool { return p.Count("EVALSHA") > scripts })
	arrived, letGo := p.HoldReply(redistest.Command("EVALSHA"))
	l := locktest.Campaign(t, t.Context(), locktest.Open(t, s.URL()).Election(n), "a")
	<-redistest.Outage(600*time.Millisecond, func() { <-arrived }, letGo)
	if got := seen.Next(t); got != locktest.LeaderOf(l, "a") {
		t.Errorf("saw %+v", got)
	}
}
