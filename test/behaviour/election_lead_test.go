package behaviour_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

var errWork = errors.New("work")

// Lead returns what fn does, and has resigned by then.
func TestLead(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c, other := locktest.Open(t, s.URL(), locktest.Steady), locktest.Open(t, s.URL(), locktest.Steady)
	e := c.Election(locktest.Name(t))
	there := other.Election(e.Name())
	var terms []int64
	for _, want := range []error{nil, errWork} {
		err := e.Lead(t.Context(), "a", func(ctx context.Context) error {
			l := holdfast.LeaseOf(ctx)
			terms = append(terms, l.Token())
			locktest.WantLeader(t, there, l, "a")
			if err := e.Lead(ctx, "a", func(context.Context) error { return nil }); !errors.Is(err, holdfast.ErrReentrant) {
				t.Errorf("led inside of a lead: %v", err)
			}
			return want
		})
		if !errors.Is(err, want) || errors.Is(err, holdfast.ErrLost) {
			t.Errorf("error %v, want %v", err, want)
		}
		locktest.WantLeader(t, there, nil, "")
	}
	if len(terms) != 2 || terms[1] <= terms[0] {
		t.Errorf("terms %v", terms)
	}
	func() {
		defer func() {
			if got, ok := recover().(error); !ok || !errors.Is(got, errWork) {
				t.Errorf("recovered %v", got)
			}
		}()
		_ = e.Lead(t.Context(), "a", func(context.Context) error { panic(errWork) })
	}()
	locktest.WantLeader(t, there, nil, "")
}

// After the lead is lost, the function runs again when its candidate is elected
// again. It does not overlap with the leader in between.
func TestLeadAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c, other := locktest.Open(t, s.URL(), locktest.Steady), locktest.Open(t, s.URL(), locktest.Steady)
	e := c.Election(locktest.Name(t))
	var usurper *holdfast.Lease
	var terms []int64
	var d diary
	err := e.Lead(t.Context(), "a", func(ctx context.Context) error {
		l := holdfast.LeaseOf(ctx)
		terms = append(terms, l.Token())
		switch len(terms) {
		case 1:
			s.Do(t, "DEL", e.Name())
			usurper = locktest.Campaign(t, t.Context(), other.Election(e.Name()), "b")
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Second):
				t.Error("not told of the loss")
			}
			if !errors.Is(context.Cause(ctx), holdfast.ErrLost) || l.Valid() {
				t.Errorf("cause %v, valid %v", context.Cause(ctx), l.Valid())
			}
			locktest.Release(t, usurper)
			return errWork // of a term that is over
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
	locktest.WantLeader(t, other.Election(e.Name()), nil, "")
}

func TestLeadContextDone(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c, other := locktest.Open(t, s.URL(), locktest.Steady), locktest.Open(t, s.URL(), locktest.Steady)
	e := c.Election(locktest.Name(t))
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
	locktest.WantLeader(t, there, nil, "")

	// While another does.
	held := locktest.Campaign(t, t.Context(), there, "b")
	ctx, cancel = context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Lead(ctx, "a", func(context.Context) error { t.Error("run"); return nil }) }()
	locktest.AwaitListener(t, s, "redisson_lock__channel:{"+e.Name()+"}")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("cancelled candidate: %v", err)
	}
	locktest.WantLeader(t, there, held, "b")

	// For as long as it would wait.
	err = e.Lead(t.Context(), "a", func(context.Context) error { t.Error("run"); return nil }, holdfast.Wait(time.Second))
	if !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("impatient candidate: %v", err)
	}
	locktest.Release(t, held)

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
	locktest.Eventually(t, 5*time.Second, "there is no leader", func() bool {
		l, err := there.Leader(t.Context())
		return err == nil && l == holdfast.Leader{}
	})
	if err := e.Lead(t.Context(), "a", func(context.Context) error { return nil }); !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("closed before: %v", err)
	}
}

// Candidates of one client are rivals like all others.
func TestCandidatesOfOneClient(t *testing.T) {
	t.Parallel()
	const candidates, rounds = 6, 5
	s := redistest.Shared(t)
	cs := []*holdfast.Client{locktest.Open(t, s.URL(), locktest.Steady), locktest.Open(t, s.URL(), locktest.Steady)}
	n := locktest.Name(t)
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
				locktest.WantLeader(t, e, l, said)
				mu.Lock()
				terms = append(terms, l.Token())
				mu.Unlock()
				locktest.Record(rec, l, 2*time.Millisecond)
				locktest.Release(t, l)
			}
		})
	}
	wg.Wait()
	for i, term := range terms {
		if term != int64(i+1) {
			t.Fatalf("terms %v", terms)
		}
	}
	locktest.CheckExclusive(t, &out, candidates*rounds)
	locktest.WantLeader(t, cs[0].Election(n), nil, "")
}

// Lead returns the error of its function as it is, as Do does.
func TestLeadReturnsTheError(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Shared(t).URL())
	fail := func(context.Context) error { return errWork }
	if err := c.Mutex(locktest.Name(t)).Do(t.Context(), fail); !errors.Is(err, errWork) || err.Error() != errWork.Error() {
		t.Errorf("Do: %#v", err)
	}
	if err := c.Election(locktest.Name(t)).Lead(t.Context(), "a", fail); !errors.Is(err, errWork) || err.Error() != errWork.Error() {
		t.Errorf("Lead: %#v", err)
	}
}

// A leader that learns from the server, when it speaks, that it does not lead
// any more has lost its lease at that moment, not at the next renewal.
func TestProclaimTellsOfLoss(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	e := locktest.Open(t, s.URL()).Election(locktest.Name(t)) // renews in ten seconds
	l := locktest.Campaign(t, t.Context(), e, "a")
	ctx := l.Context()
	s.Do(t, "DEL", e.Name())
	next := locktest.Campaign(t, t.Context(), locktest.Open(t, s.URL()).Election(e.Name()), "b")
	err := e.Proclaim(t.Context(), l, "a2")
	var lost *holdfast.LostError
	if !errors.As(err, &lost) || lost.Reason != holdfast.LossNotOwner {
		t.Errorf("error %v, want that of a loss to another owner", err)
	}
	if l.Valid() {
		t.Error("the lease is valid, although the server has said that another one leads")
	}
	if cause := context.Cause(ctx); !errors.Is(cause, holdfast.ErrLost) {
		t.Errorf("the cause of its context is %v", cause)
	}
	locktest.Release(t, next)
}

// A candidate that was elected and could not announce it has not led. Its hooks do
// not run for a lease that ends without having begun.
func TestUnannouncedHooks(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	e := locktest.Open(t, p.URL()+locktest.PatientQuery).Election(locktest.Name(t)) // or it could ask again before it is told
	locktest.Release(t, locktest.Campaign(t, t.Context(), e, "a"))                  // so that the server knows the scripts
	granted, tell := p.HoldReply(redistest.Command("EVALSHA"))
	go func() {
		<-granted
		s.Do(t, "CONFIG", "SET", "maxmemory", "1")
		tell()
	}()
	var d diary
	if _, err := e.Campaign(t.Context(), "a", d.hooks()...); !errors.Is(err, holdfast.ErrRefused) {
		t.Errorf("error %v", err)
	}
	d.want(t)
	if s.Int(t, "EXISTS", e.Name()) != 0 {
		t.Error("still elected")
	}
}

// An election is a fenced mutex: as that it can be looked at, and its leader be
// deposed by force, whatever it says of itself.
func TestElectionAsMutex(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c, other := locktest.Open(t, s.URL(), locktest.Steady), locktest.Open(t, s.URL(), locktest.Steady)
	for i := range 20 { // with much to say, the server keeps the fields in no order
		e := c.Election(locktest.Name(t))
		m := other.FencedMutex(e.Name())
		l := locktest.Campaign(t, t.Context(), e, strings.Repeat("x", 10*i))
		if st, err := m.State(t.Context()); err != nil || st.Owner != l.Owner() {
			t.Errorf("%d bytes: state %+v, error %v", 10*i, st, err)
		}
		if freed, err := m.ForceUnlock(t.Context()); !freed || err != nil {
			t.Errorf("%d bytes: freed %v, error %v", 10*i, freed, err)
		}
	}
}

// A context that ends after the lead was lost, and before the function has
// returned, ends Lead with its own error, and what the function returns is
// dropped.
func TestLeadLostAndDone(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c, other := locktest.Open(t, s.URL(), locktest.Steady), locktest.Open(t, s.URL())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e := c.Election(locktest.Name(t))
	late := errors.New("of the function, after the loss")
	err := e.Lead(ctx, "a", func(term context.Context) error {
		if ok, err := other.Election(e.Name()).Depose(t.Context()); !ok || err != nil {
			t.Error(ok, err)
		}
		<-term.Done()
		cancel()
		return late
	})
	if !errors.Is(err, context.Canceled) || errors.Is(err, late) {
		t.Errorf("error %v, want context.Canceled and not what the function has returned", err)
	}
}
