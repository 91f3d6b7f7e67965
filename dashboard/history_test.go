package dashboard

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
)

// A film is a series of snapshots, one per second.
type film struct {
	history history
	last    *snapshot
	now     time.Time
}

func newFilm() *film {
	return &film{history: history{locks: make(map[string]*timeline)}, now: time.Now().Add(-time.Minute).Truncate(bucketTime)}
}

// shoot adds a snapshot with the owners of the lock a.
func (f *film) shoot(owners ...string) *snapshot {
	f.now = f.now.Add(time.Second)
	p := &snapshot{at: f.now, every: time.Second, complete: true}
	if len(owners) > 0 {
		l := inspect.Lock{Name: "a", Kind: inspect.Mutex}
		for _, o := range owners {
			l.Holders = append(l.Holders, inspect.Holder{Owner: o, Mode: inspect.Exclusive, TTL: 30 * time.Second})
		}
		p.locks = []*state{newState(l, f.now)}
	}
	p.index()
	f.history.add(f.last, p)
	f.last = p
	return p
}

// The history of a lock has the holders with their times, as far as they are known.
func TestHistory(t *testing.T) {
	f := newFilm()
	start := f.now
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	f.shoot("x:1")
	f.shoot("x:1")
	f.shoot("x:2")
	f.shoot()
	p := f.shoot("x:3")
	if since, earlier := p.locks[0].since(); !since.Equal(at(5)) || earlier {
		t.Errorf("x:3 holds it since %v, %v", since, earlier)
	}
	f.now = f.now.Add(time.Minute) // no page was open
	f.shoot("x:4")
	spans, pauses := f.history.of("a")
	want := []span{
		{"x:1", inspect.Exclusive, nil, at(1), at(3), false, true},
		{"x:2", inspect.Exclusive, nil, at(3), at(4), false, false},
		{"x:3", inspect.Exclusive, nil, at(5), at(5), false, false},
		{"x:4", inspect.Exclusive, nil, at(66), at(66), true, true},
	}
	if !slices.Equal(spans, want) {
		t.Errorf("%+v, want\n%+v", spans, want)
	}
	if len(pauses) != 1 || !pauses[0].from.Equal(at(5)) || !pauses[0].to.Equal(at(66)) {
		t.Errorf("pauses %+v", pauses)
	}
	handoffs, held := 0, 0
	for _, b := range f.history.series(f.now) {
		handoffs += b.handoffs
		held = max(held, b.held)
	}
	if handoffs != 1 || held != 1 { // neither the free lock nor the pause counts
		t.Errorf("%d hand-offs, %d held", handoffs, held)
	}
	pic := timelines[0].picture(spans, pauses, f.now)
	var classes []string
	for _, s := range pic.Shapes {
		if s.Tag == "rect" {
			classes = append(classes, s.Class)
		}
	}
	if got := strings.Join(classes, " "); got != "unseen open past past past" {
		t.Errorf("the picture has %s", got)
	}
}

// The history is bounded.
func TestHistoryBound(t *testing.T) {
	f := newFilm()
	for i := range 2 * mostSpans {
		f.shoot("x:" + string(rune('a'+i%26)))
	}
	if spans, _ := f.history.of("a"); len(spans) != mostSpans {
		t.Errorf("%d spans", len(spans))
	}
	f.now = f.now.Add(remembered + time.Minute)
	f.shoot()
	if n := len(f.history.locks); n != 0 {
		t.Errorf("%d locks are remembered", n)
	}
}

// Times that differ a little are not sent again.
func TestSteady(t *testing.T) {
	now := time.Now()
	one := newState(inspect.Lock{Name: "a", Holders: []inspect.Holder{{Owner: "x:1", TTL: 20 * time.Second}}}, now)
	two := newState(inspect.Lock{Name: "a", Holders: []inspect.Holder{{Owner: "x:1", TTL: 19100 * time.Millisecond}}}, now.Add(time.Second))
	two.after(one, true)
	if !two.until().Equal(one.until()) {
		t.Errorf("%v, then %v", one.until(), two.until())
	}
	renewed := newState(inspect.Lock{Name: "a", Holders: []inspect.Holder{{Owner: "x:1", TTL: 30 * time.Second}}}, now.Add(2*time.Second))
	renewed.after(two, true)
	if renewed.until().Equal(two.until()) {
		t.Error("the renewal is not seen")
	}
}

// A hold expires soon if little of its lease is left, however long the lease is.
func TestSoon(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		what string
		ttls []time.Duration // one per second
		soon bool
	}{
		{"a watchdog of 5 s", []time.Duration{5 * time.Second, 4 * time.Second, 5 * time.Second, 4 * time.Second, 3400 * time.Millisecond}, false},
		{"a watchdog of 5 s that has stopped", []time.Duration{5 * time.Second, 4 * time.Second, 3 * time.Second, 2 * time.Second, time.Second}, true},
		{"a watchdog of 5 s that has come back", []time.Duration{3 * time.Second, 2 * time.Second, time.Second, 5 * time.Second}, false},
		{"a lease of 8 s", []time.Duration{8 * time.Second, 7 * time.Second, 6 * time.Second, 5 * time.Second}, false},
		{"a lease of 10 minutes", []time.Duration{10 * time.Minute, 10*time.Minute - time.Second}, false},
		{"no lease", []time.Duration{-1, -1}, false},
		{"a short lease after a long one", []time.Duration{10 * time.Minute, 5 * time.Second, 4 * time.Second}, false},
	} {
		var last *state
		for i, ttl := range c.ttls {
			s := newState(inspect.Lock{Name: "a", Holders: []inspect.Holder{{Owner: "x:1", TTL: ttl}}}, now.Add(time.Duration(i)*time.Second))
			s.after(last, true)
			last = s
		}
		if last.soon(0) != c.soon || last.anySoon() != c.soon {
			t.Errorf("%s: expires soon is %v", c.what, last.soon(0))
		}
	}
}
