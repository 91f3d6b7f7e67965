package holdfast_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// campaign waits until it leads, or ends the test.
func campaign(tb testing.TB, ctx context.Context, e *holdfast.Election, said string, opts ...holdfast.Option) *holdfast.Lease {
	tb.Helper()
	l, err := e.Campaign(ctx, said, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// wantLeader checks who leads, as the server sees it; nil: nobody.
func wantLeader(tb testing.TB, e *holdfast.Election, l *holdfast.Lease, said string) {
	tb.Helper()
	var want holdfast.Leader
	if l != nil {
		want = holdfast.Leader{Name: said, Term: l.Token(), Owner: l.Owner()}
	}
	if got, err := e.Leader(context.Background()); got != want || err != nil {
		tb.Errorf("leader %+v, error %v, want %+v", got, err, want)
	}
}

// A view is what an observer sees, from its first look on. It is closed at the
// end of the loop.
type view chan sight

type sight struct {
	leader holdfast.Leader
	err    error
}

func observe(ctx context.Context, e *holdfast.Election, opts ...holdfast.Option) view {
	v := make(view, 100)
	go func() {
		defer close(v)
		for l, err := range e.Observe(ctx, opts...) {
			v <- sight{l, err}
		}
	}()
	return v
}

// any returns what is seen next, be it an error.
func (v view) any(tb testing.TB) sight {
	tb.Helper()
	select {
	case s, ok := <-v:
		if !ok {
			tb.Fatal("the loop has ended")
		}
		return s
	case <-time.After(10 * time.Second):
		tb.Fatal("nothing seen")
		return sight{}
	}
}

// next returns who is seen next.
func (v view) next(tb testing.TB) holdfast.Leader {
	tb.Helper()
	s := v.any(tb)
	if s.err != nil {
		tb.Fatal(s.err)
	}
	return s.leader
}

// after returns who is seen next, but for the moment between two leaders.
func (v view) after(tb testing.TB) holdfast.Leader {
	tb.Helper()
	l := v.next(tb)
	if l == (holdfast.Leader{}) {
		l = v.next(tb)
	}
	return l
}

// ends waits for the end of the loop.
func (v view) ends(tb testing.TB) {
	tb.Helper()
	select {
	case s, ok := <-v:
		if ok {
			tb.Errorf("saw %+v after the end", s)
		}
	case <-time.After(10 * time.Second):
		tb.Fatal("the loop does not end")
	}
}

// Observers see the leader, that it resigned, and the next one.
func TestElection(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	a, b, watcher := open(t, s.URL(), steady), open(t, s.URL(), steady), open(t, s.URL(), steady)
	n := name(t)
	if l, err := watcher.Election(n).Leader(t.Context()); l != (holdfast.Leader{}) || err != nil {
		t.Fatal(l, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := observe(ctx, watcher.Election(n))
	next := func() holdfast.Leader { t.Helper(); return seen.next(t) }
	if l := next(); l != (holdfast.Leader{}) {
		t.Fatalf("first %+v", l)
	}
	first := campaign(t, t.Context(), a.Election(n), "a")
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
	listened(t, s, "redisson_lock__channel:{"+n+"}")
	release(t, first)
	l := <-second
	if l.Token() <= first.Token() {
		t.Errorf("term %d after %d", l.Token(), first.Token())
	}
	if now := seen.after(t); now.Name != "b" || now.Term != l.Token() {
		t.Fatalf("%+v", now)
	}
	// It vanishes without a word.
	b.Close()
	if l := next(); l != (holdfast.Leader{}) {
		t.Fatalf("%+v", l)
	}
	cancel()
	seen.ends(t)
}

// What a leader says comes back unchanged, by both ways.
func TestElectionNames(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := open(t, s.URL(), steady)
	e := c.Election(name(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := observe(ctx, open(t, s.URL(), steady).Election(e.Name()))
	seen.next(t)
	l := campaign(t, t.Context(), e, "")
	if got := seen.next(t); got != (holdfast.Leader{Term: l.Token(), Owner: l.Owner()}) {
		t.Errorf("seen %+v", got)
	}
	for _, said := range []string{
		"leader", l.Owner(), "0", "a\r\nb\t\"\\", `\x00\u0000%s%n`, "\x00\x01\xff\xfe", "\x1b[31mred", `{"addr":"[::1]:80"}`, "\u202e日本", strings.Repeat("\xf0", 64<<10),
	} {
		if err := e.Proclaim(t.Context(), l, said); err != nil {
			t.Fatal(err)
		}
		wantLeader(t, e, l, said)
		if got := seen.next(t); got.Name != said || got.Term != l.Token() || got.Owner != l.Owner() {
			t.Errorf("seen %.60q, want %.60q", got.Name, said)
		}
	}
	release(t, l)
	l = campaign(t, t.Context(), e, "\x00\r\n\xff")
	wantLeader(t, e, l, "\x00\r\n\xff")
	release(t, l)
	wantLeader(t, e, nil, "")
}

func TestProclaim(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c, other := open(t, p.URL(), steady), open(t, s.URL(), steady)
	n := name(t)
	e := c.Election(n)
	theirs := campaign(t, t.Context(), other.Election(n), "theirs")
	unrenewed := holdfast.LeaseTime(time.Minute) // so that nothing else is sent
	elsewhere := campaign(t, t.Context(), c.Election(n+"2"), "elsewhere", unrenewed)
	mutex := lock(t, t.Context(), c.FencedMutex(n+"3"), unrenewed)
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
	wantLeader(t, e, theirs, "theirs")
	wantLeader(t, c.Election(n+"2"), elsewhere, "elsewhere")

	// Whoever leads no more cannot speak for the next.
	release(t, theirs)
	l := campaign(t, t.Context(), e, "mine")
	if err := other.Election(n).Proclaim(t.Context(), theirs, "a"); !errors.Is(err, holdfast.ErrNotHeld) {
		t.Errorf("after a resignation: %v", err)
	}
	s.Do(t, "DEL", n)
	next := campaign(t, t.Context(), other.Election(n), "next")
	if err := e.Proclaim(t.Context(), l, "mine again"); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("after a loss: %v", err)
	}
	wantLeader(t, e, next, "next")
	release(t, next)
	c.Close()
	if err := c.Election(n+"2").Proclaim(t.Context(), elsewhere, "a"); !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// The program hears that it leads when others can see it.
func TestElectionHooks(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c, other := open(t, s.URL(), steady), open(t, s.URL(), steady)
	n := name(t)
	var d diary
	e := c.Election(n, holdfast.OnAcquire(func(l *holdfast.Lease) {
		d.add("election: %v", l.Valid())
		wantLeader(t, other.Election(n), l, "a")
	}), holdfast.OnRelease(func(_ *holdfast.Lease, err error) {
		d.add("resigned: %v", err)
		wantLeader(t, other.Election(n), nil, "")
	}))
	call := holdfast.OnAcquire(func(l *holdfast.Lease) {
		d.add("call: %v", l.Valid())
		wantLeader(t, other.Election(n), l, "a")
	})
	release(t, campaign(t, t.Context(), e, "a", call))
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
	held := campaign(t, t.Context(), other.Election(n), "other")
	if _, err := e.TryCampaign(t.Context(), "a", holdfast.Wait(time.Second)); !inVain(err) {
		t.Error(err)
	}
	d.want(t)
	release(t, held)
}

// Wrong inputs are refused before anything is sent.
func TestElectionBadInput(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := open(t, p.URL())
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
		"Campaign without a name":       second(c.Election("").Campaign(ctx, "a")),
		"TryCampaign with a bad name":   second(c.Election("a{b").TryCampaign(ctx, "a")),
		"Lead with a bad name":          c.Election("holdfast:x").Lead(ctx, "a", work),
		"Leader with a bad name":        second(c.Election("a\nb").Leader(ctx)),
		"Observe with a bad name":       first(c.Election("").Observe(ctx)),
		"Observe with a nil option":     first(c.Election("x").Observe(ctx, nil)),
		"Observe with a bad pause":      first(c.Election("x").Observe(ctx, holdfast.Poll(holdfast.Backoff{Initial: -1}))),
		"Observe of a bad election":     first(c.Election("x", holdfast.LeaseTime(1)).Observe(ctx)),
		"Campaign, too much to say":     second(c.Election("x").Campaign(ctx, long)),
		"TryCampaign, too much to say":  second(c.Election("x").TryCampaign(ctx, long)),
		"Lead, too much to say":         c.Election("x").Lead(ctx, long, work),
		"Lead without a function":       c.Election("x").Lead(ctx, "a", nil),
		"Campaign with a nil option":    second(c.Election("x").Campaign(ctx, "a", nil)),
		"Campaign with a bad option":    second(c.Election("x").Campaign(ctx, "a", holdfast.Wait(-1))),
		"Campaign with a nil hook":      second(c.Election("x").Campaign(ctx, "a", holdfast.OnAcquire(nil))),
		"an election that writes first": second(c.Election("x", holdfast.WriterFirst()).Campaign(ctx, "a")),
		"a call that writes first":      second(c.Election("x").Campaign(ctx, "a", holdfast.WriterFirst())),
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
