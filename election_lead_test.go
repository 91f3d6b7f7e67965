package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

var errBoom = errors.New("boom")

// Lead returns what fn does, and has resigned by then.
func TestLead(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c, other := open(t, s.URL(), steady), open(t, s.URL(), steady)
	e := c.Election(name(t))
	there := other.Election(e.Name())
	var terms []int64
	for _, want := range []error{nil, errBoom} {
		err := e.Lead(t.Context(), "a", func(ctx context.Context) error {
			l := holdfast.LeaseOf(ctx)
			terms = append(terms, l.Token())
			wantLeader(t, there, l, "a")
			if err := e.Lead(ctx, "a", func(context.Context) error { return nil }); !errors.Is(err, holdfast.ErrReentrant) {
				t.Errorf("led inside of a lead: %v", err)
			}
			return want
		})
		if !errors.Is(err, want) || errors.Is(err, holdfast.ErrLost) {
			t.Errorf("error %v, want %v", err, want)
		}
		wantLeader(t, there, nil, "")
	}
	if len(terms) != 2 || terms[1] <= terms[0] {
		t.Errorf("terms %v", terms)
	}
	func() {
		defer func() {
			if got, ok := recover().(error); !ok || !errors.Is(got, errBoom) {
				t.Errorf("recovered %v", got)
			}
		}()
		_ = e.Lead(t.Context(), "a", func(context.Context) error { panic(errBoom) })
	}()
	wantLeader(t, there, nil, "")
}

// Whoever loses the lead is run again when it is elected again, and not beside
// whoever led in between.
func TestLeadAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c, other := open(t, s.URL(), steady), open(t, s.URL(), steady)
	e := c.Election(name(t))
	var usurper *holdfast.Lease
	var terms []int64
	var d diary
	err := e.Lead(t.Context(), "a", func(ctx context.Context) error {
		l := holdfast.LeaseOf(ctx)
		terms = append(terms, l.Token())
		switch len(terms) {
		case 1:
			s.Do(t, "DEL", e.Name())
			usurper = campaign(t, t.Context(), other.Election(e.Name()), "b")
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Second):
				t.Error("not told of the loss")
			}
			if !errors.Is(context.Cause(ctx), holdfast.ErrLost) || l.Valid() {
				t.Errorf("cause %v, valid %v", context.Cause(ctx), l.Valid())
			}
			time.AfterFunc(100*time.Millisecond, func() { release(t, usurper) })
			return errBoom // of a term that is over
		case 2:
			if usurper.Valid() {
				t.Error("both lead")
			}
			s.Do(t, "DEL", e.Name()) // and it does not notice
			return nil
		}
		if ctx.Err() != nil || !l.Valid() {
			t.Errorf("run without the lead: %v", ctx.Err())
		}
		return nil
	}, d.hooks()...)
	if err != nil {
		t.Error(err)
	}
	if len(terms) != 3 || terms[0] >= usurper.Token() || usurper.Token() >= terms[1] || terms[1] >= terms[2] {
		t.Errorf("terms %v, and %d in between", terms, usurper.Token())
	}
	lost := fmt.Sprintf("holdfast: lease on %q lost: not owner", e.Name())
	d.want(t, "acquired true", "released false "+lost, "acquired true", "released false "+lost, "acquired true", "released false <nil>")
	wantLeader(t, other.Election(e.Name()), nil, "")
}

func TestLeadContextDone(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c, other := open(t, s.URL(), steady), open(t, s.URL(), steady)
	e := c.Election(name(t))
	there := other.Election(e.Name())

	// While it leads.
	ctx, cancel := context.WithCancel(t.Context())
	runs := 0
	err := e.Lead(ctx, "a", func(ctx context.Context) error {
		runs++
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || errors.Is(err, holdfast.ErrLost) || runs != 1 {
		t.Errorf("%d runs, error %v", runs, err)
	}
	wantLeader(t, there, nil, "")

	// While another does.
	held := campaign(t, t.Context(), there, "b")
	ctx, cancel = context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Lead(ctx, "a", func(context.Context) error { t.Error("run"); return nil }) }()
	listened(t, s, "redisson_lock__channel:{"+e.Name()+"}")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("cancelled candidate: %v", err)
	}
	wantLeader(t, there, held, "b")

	// For as long as it would wait.
	err = e.Lead(t.Context(), "a", func(context.Context) error { t.Error("run"); return nil }, holdfast.Wait(time.Second))
	if !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("impatient candidate: %v", err)
	}
	release(t, held)

	// When the client is closed.
	err = e.Lead(t.Context(), "a", func(ctx context.Context) error {
		runs++
		go c.Close()
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, holdfast.ErrClosed) || runs != 2 {
		t.Errorf("closed: %d runs, error %v", runs, err)
	}
	eventually(t, 5*time.Second, "nobody leads", func() bool {
		l, err := there.Leader(t.Context())
		return err == nil && l == holdfast.Leader{}
	})
	if err := e.Lead(t.Context(), "a", func(context.Context) error { return nil }); !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("closed before: %v", err)
	}
}

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
				query = slowToDespair
			}
			c := open(t, p.URL()+query)
			e := c.Election(name(t))
			release(t, campaign(t, t.Context(), e, "a")) // so that the server knows the scripts
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
			eventually(t, 10*time.Second, "nobody leads", func() bool { return s.Int(t, "EXISTS", e.Name()) == 0 })
			s.Do(t, "CONFIG", "SET", "maxmemory", "0")
			l, err := open(t, s.URL()).Election(e.Name()).TryCampaign(t.Context(), "b")
			if err != nil {
				t.Fatal(err)
			}
			wantLeader(t, e, l, "b")
			release(t, l)
		})
	}
}

// Candidates of one client are rivals like all others.
func TestCandidatesOfOneClient(t *testing.T) {
	t.Parallel()
	const candidates, rounds = 6, 5
	s := redistest.Shared(t)
	cs := []*holdfast.Client{open(t, s.URL(), steady), open(t, s.URL(), steady)}
	n := name(t)
	var out bytes.Buffer
	rec := redistest.NewRecorder(&out)
	var mu sync.Mutex
	var terms []int64
	var wg sync.WaitGroup
	for i := range candidates {
		e := cs[i/(candidates-1)].Election(n) // all but one in the first
		wg.Go(func() {
			for range rounds {
				said := fmt.Sprint("candidate ", i)
				l, err := e.Campaign(t.Context(), said)
				if err != nil {
					t.Error(err)
					return
				}
				wantLeader(t, e, l, said)
				mu.Lock()
				terms = append(terms, l.Token())
				mu.Unlock()
				record(rec, l, 2*time.Millisecond)
				release(t, l)
			}
		})
	}
	wg.Wait()
	for i, term := range terms {
		if term != int64(i+1) {
			t.Fatalf("terms %v", terms)
		}
	}
	checkExclusive(t, &out, candidates*rounds)
	wantLeader(t, cs[0].Election(n), nil, "")
}
