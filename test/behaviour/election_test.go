package behaviour_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Observers see the leader, that it resigned, and the next one.
func TestElection(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	a, b, watcher := locktest.Open(t, s.URL(), locktest.Steady), locktest.Open(t, s.URL(), locktest.Steady), locktest.Open(t, s.URL(), locktest.Steady)
	n := locktest.Name(t)
	if l, err := watcher.Election(n).Leader(t.Context()); l != (holdfast.Leader{}) || err != nil {
		t.Fatal(l, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := locktest.Observe(ctx, watcher.Election(n))
	next := func() holdfast.Leader { t.Helper(); return seen.Next(t) }
	if l := next(); l != (holdfast.Leader{}) {
		t.Fatalf("first %+v", l)
	}
	first := locktest.Campaign(t, t.Context(), a.Election(n), "a")
	if l := next(); l != (holdfast.Leader{Name: "a", Term: first.Token(), Owner: first.Owner()}) {
		t.Fatalf("%+v, term %d", l, first.Token())
	}
	if _, err := a.Election(n).Campaign(first.Context(), "a"); !errors.Is(err, holdfast.ErrReentrant) {
		t.Fatal(err)
	}
	if _, err := b.Election(n).TryCampaign(t.Context(), "b"); !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Fatal(err)
	}
	if err := a.Election(n).Proclaim(t.Context(), first, "a2"); err != nil {
		t.Fatal(err)
	}
	if l := next(); l.Name != "a2" || l.Term != first.Token() {
		t.Fatalf("%+v", l)
	}
	second := make(chan *holdfast.Lease, 1)
	go func() {
		l, err := b.Election(n).Campaign(context.Background(), "b")
		if err != nil {
			t.Error(err)
		}
		second <- l
	}()
	locktest.AwaitListener(t, s, "redisson_lock__channel:{"+n+"}")
	locktest.Release(t, first)
	l := <-second
	if l.Token() <= first.Token() {
		t.Errorf("term %d after %d", l.Token(), first.Token())
	}
	if now := seen.After(t); now.Name != "b" || now.Term != l.Token() {
		t.Fatalf("%+v", now)
	}
	// It vanishes without a word.
	b.Close()
	if l := next(); l != (holdfast.Leader{}) {
		t.Fatalf("%+v", l)
	}
	cancel()
	seen.Ends(t)
}

// What a leader says comes back unchanged, by both ways.
func TestElectionNames(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Open(t, s.URL(), locktest.Steady)
	e := c.Election(locktest.Name(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := locktest.Observe(ctx, locktest.Open(t, s.URL(), locktest.Steady).Election(e.Name()))
	seen.Next(t)
	l := locktest.Campaign(t, t.Context(), e, "")
	if got := seen.Next(t); got != (holdfast.Leader{Term: l.Token(), Owner: l.Owner()}) {
		t.Errorf("seen %+v", got)
	}
	for _, said := range []string{
		"leader", l.Owner(), "0", "a\r\nb\t\"\\", `\x00\u0000%s%n`, "\x00\x01\xff\xfe", "\x1b[31mred", `{"addr":"[::1]:80"}`, "\u202e日本", strings.Repeat("\xf0", 64<<10),
	} {
		if err := e.Proclaim(t.Context(), l, said); err != nil {
			t.Fatal(err)
		}
		locktest.WantLeader(t, e, l, said)
		if got := seen.Next(t); got.Name != said || got.Term != l.Token() || got.Owner != l.Owner() {
			t.Errorf("seen %.60q, want %.60q", got.Name, said)
		}
	}
	locktest.Release(t, l)
	l = locktest.Campaign(t, t.Context(), e, "\x00\r\n\xff")
	locktest.WantLeader(t, e, l, "\x00\r\n\xff")
	locktest.Release(t, l)
	locktest.WantLeader(t, e, nil, "")
}

func TestProclaim(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c, other := locktest.Open(t, p.URL(), locktest.Steady), locktest.Open(t, s.URL(), locktest.Steady)
	n := locktest.Name(t)
	e := c.Election(n)
	theirs := locktest.Campaign(t, t.Context(), other.Election(n), "theirs")
	unrenewed := holdfast.LeaseTime(time.Minute) // so that nothing else is sent
	elsewhere := locktest.Campaign(t, t.Context(), c.Election(n+"2"), "elsewhere", unrenewed)
	mutex := locktest.Lock(t, t.Context(), c.FencedMutex(n+"3"), unrenewed)
	p.ResetCounts()
	for what, err := range map[string]error{
		"nil":             e.Proclaim(t.Context(), nil, "a"),
		"the zero lease":  e.Proclaim(t.Context(), new(holdfast.Lease), "a"),
		"another client":  e.Proclaim(t.Context(), theirs, "a"),
		"another name":    e.Proclaim(t.Context(), elsewhere, "a"),
		"another kind":    c.Election(n+"3").Proclaim(t.Context(), mutex, "a"),
		"too much to say": c.Election(n+"2").Proclaim(t.Context(), elsewhere, strings.Repeat("x", 64<<10+1)),
	} {
		if !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if sent := p.Count("EVAL") + p.Count("EVALSHA"); sent > 0 {
		t.Errorf("%d calls were sent", sent)
	}
	locktest.WantLeader(t, e, theirs, "theirs")
	locktest.WantLeader(t, c.Election(n+"2"), elsewhere, "elsewhere")

	// A former leader cannot proclaim for the next one.
	locktest.Release(t, theirs)
	l := locktest.Campaign(t, t.Context(), e, "mine")
	if err := other.Election(n).Proclaim(t.Context(), theirs, "a"); !errors.Is(err, holdfast.ErrNotHeld) {
		t.Errorf("after a resignation: %v", err)
	}
	s.Do(t, "DEL", n)
	next := locktest.Campaign(t, t.Context(), other.Election(n), "next")
	if err := e.Proclaim(t.Context(), l, "mine again"); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("after a loss: %v", err)
	}
	locktest.WantLeader(t, e, next, "next")
	locktest.Release(t, next)
	c.Close()
	if err := c.Election(n+"2").Proclaim(t.Context(), elsewhere, "a"); !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// The program hears that it leads when others can see it.
func TestElectionHooks(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c, other := locktest.Open(t, s.URL(), locktest.Steady), locktest.Open(t, s.URL(), locktest.Steady)
	n := locktest.Name(t)
	var d diary
	e := c.Election(n, holdfast.OnAcquire(func(l *holdfast.Lease) {
		d.add("election: %v", l.Valid())
		locktest.WantLeader(t, other.Election(n), l, "a")
	}), holdfast.OnRelease(func(_ *holdfast.Lease, err error) {
		d.add("resigned: %v", err)
		locktest.WantLeader(t, other.Election(n), nil, "")
	}))
	call := holdfast.OnAcquire(func(l *holdfast.Lease) {
		d.add("call: %v", l.Valid())
		locktest.WantLeader(t, other.Election(n), l, "a")
	})
	locktest.Release(t, locktest.Campaign(t, t.Context(), e, "a", call))
	d.want(t, "election: true", "call: true", "resigned: <nil>")
	if err := e.Lead(t.Context(), "a", func(context.Context) error { d.add("work"); return nil }); err != nil {
		t.Error(err)
	}
	d.want(t, "election: true", "work", "resigned: <nil>")
	func() {
		defer func() {
			if got := recover(); got != "boom" {
				t.Errorf("recovered %v", got)
			}
		}()
		_, _ = e.TryCampaign(t.Context(), "a", holdfast.OnAcquire(func(*holdfast.Lease) { panic("boom") }))
	}()
	d.want(t, "election: true", "resigned: <nil>")
	held := locktest.Campaign(t, t.Context(), other.Election(n), "other")
	if _, err := e.TryCampaign(t.Context(), "a", holdfast.Wait(time.Second)); !locktest.TimedOut(err) {
		t.Error(err)
	}
	d.want(t)
	locktest.Release(t, held)
}

// Wrong inputs are refused before anything is sent.
func TestElectionBadInput(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := locktest.Open(t, p.URL())
	p.ResetCounts()
	work := func(context.Context) error { t.Error("ran"); return nil }
	first := func(seq iter.Seq2[holdfast.Leader, error]) (err error) {
		n := 0
		for l, e := range seq {
			if n++; l != (holdfast.Leader{}) {
				t.Errorf("saw %+v", l)
			}
			err = e
		}
		if n != 1 {
			t.Errorf("%d sightings", n)
		}
		return err
	}
	long := strings.Repeat("x", 64<<10+1)
	ctx := t.Context()
	for what, err := range map[string]error{
		"Campaign without a name":      second(c.Election("").Campaign(ctx, "a")),
		"TryCampaign with a bad name":  second(c.Election("a{b").TryCampaign(ctx, "a")),
		"Lead with a bad name":         c.Election("holdfast:x").Lead(ctx, "a", work),
		"Leader with a bad name":       second(c.Election("a\nb").Leader(ctx)),
		"Observe with a bad name":      first(c.Election("").Observe(ctx)),
		"Observe with a nil option":    first(c.Election("x").Observe(ctx, nil)),
		"Observe with a bad pause":     first(c.Election("x").Observe(ctx, holdfast.Poll(holdfast.Backoff{Initial: -1}))),
		"Observe of a bad election":    first(c.Election("x", holdfast.LeaseTime(1)).Observe(ctx)),
		"Campaign, too much to say":    second(c.Election("x").Campaign(ctx, long)),
		"TryCampaign, too much to say": second(c.Election("x").TryCampaign(ctx, long)),
		"Lead, too much to say":        c.Election("x").Lead(ctx, long, work),
		"Lead without a function":      c.Election("x").Lead(ctx, "a", nil),
		"Campaign with a nil option":   second(c.Election("x").Campaign(ctx, "a", nil)),
		"Campaign with a bad option":   second(c.Election("x").Campaign(ctx, "a", holdfast.Wait(-1))),
		"Campaign with a nil hook":     second(c.Election("x").Campaign(ctx, "a", holdfast.OnAcquire(nil))),
	} {
		var e *holdfast.Error
		if !errors.Is(err, holdfast.ErrInvalid) || !errors.As(err, &e) || e.Kind != "election" || len(err.Error()) > 400 {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := p.Count("EVAL") + p.Count("EVALSHA"); n > 0 {
		t.Errorf("%d calls were sent", n)
	}
}

// The options of an election apply to all of its calls. One that polls never
// subscribes, not even to observe.
func TestPollingElectionDoesNotListen(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	e := locktest.Open(t, s.URL()).Election(locktest.Name(t), holdfast.Poll(holdfast.Backoff{Max: 10 * time.Millisecond}))
	v := locktest.Observe(t.Context(), e)
	if got := v.Next(t); got != locktest.NoLeader {
		t.Fatalf("saw %+v", got)
	}
	for range 3 { // it finds each change by looking
		l := locktest.Campaign(t, t.Context(), e, "me")
		if got := v.Next(t); got != locktest.LeaderOf(l, "me") {
			t.Fatalf("saw %+v", got)
		}
		locktest.Release(t, l)
		if got := v.Next(t); got != locktest.NoLeader {
			t.Fatalf("saw %+v", got)
		}
	}
	if channels := s.Channels(t); len(channels) > 0 {
		t.Errorf("an election that polls has subscribed to %q", channels)
	}
}
