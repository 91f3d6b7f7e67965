package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A leader that learns from the server, when it speaks, that it does not lead
// any more has lost its lease at that moment, not at the next renewal.
func TestProclaimTellsOfLoss(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	e := open(t, s.URL()).Election(name(t)) // renews in ten seconds
	l := campaign(t, t.Context(), e, "a")
	ctx := l.Context()
	s.Do(t, "DEL", e.Name())
	next := campaign(t, t.Context(), open(t, s.URL()).Election(e.Name()), "b")
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
	release(t, next)
}

// Who was elected and could not say so has led nobody: the program does not
// hear of a lease that ends without having begun.
func TestUnannouncedHooks(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	e := open(t, p.URL()+slowToDespair).Election(name(t)) // or it could ask again before it is told
	release(t, campaign(t, t.Context(), e, "a"))          // so that the server knows the scripts
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

// Lead outlives an outage of the server that is longer than a call would wait:
// fn has not returned while it led, and ctx is not done.
func TestLeadOutage(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := open(t, p.URL(), holdfast.Options{WatchdogTimeout: 600 * time.Millisecond, RetryTimeout: 300 * time.Millisecond})
	e := c.Election(name(t))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	runs := 0
	err := e.Lead(ctx, "a", func(ctx context.Context) error {
		if runs++; runs > 1 {
			return nil
		}
		p.Refuse(true)
		p.Cut()
		time.AfterFunc(3*time.Second, func() { p.Refuse(false) })
		<-ctx.Done()
		return ctx.Err()
	})
	if err != nil || runs < 2 {
		t.Errorf("%d runs, error %v", runs, err)
	}
}

// An election is a fenced mutex: as that it can be looked at, and its leader be
// deposed by force, whatever it says of itself.
func TestElectionAsMutex(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c, other := open(t, s.URL(), steady), open(t, s.URL(), steady)
	for i := range 20 { // with much to say, the server keeps the fields in no order
		e := c.Election(name(t))
		m := other.FencedMutex(e.Name())
		l := campaign(t, t.Context(), e, strings.Repeat("x", 10*i))
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
	c, other := open(t, s.URL(), steady), open(t, s.URL())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e := c.Election(name(t))
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
