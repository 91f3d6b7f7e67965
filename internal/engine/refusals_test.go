package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A lasting party is refused until time has passed.
type lasting struct {
	party
	answer script.Verdict
	during func() // between the request and its answer
}

func (l *lasting) Traits() script.Traits {
	t := l.party.Traits()
	t.Lasting = script.Lasting{Key: "room", Wants: l.size}
	return t
}

func (l *lasting) Decode(c script.Claim, r driver.Reply) (script.Verdict, error) {
	if l.during != nil {
		l.during()
	}
	l.asked = append(l.asked, c.Owner)
	return l.answer, nil
}

// refusedFor returns a party of that size that is refused for that time.
func refusedFor(size int, ttl time.Duration) *lasting {
	return &lasting{party: party{&room{}, size}, answer: script.Verdict{TTL: ttl, Why: "full", Most: 3}}
}

// tryOnce tries to take k, and checks whether the server was asked.
func tryOnce(t *testing.T, e *Engine, k *lasting, r Request, asks bool) *Busy {
	t.Helper()
	before := len(k.asked)
	_, err := e.Take(context.Background(), k, r)
	var busy *Busy
	if !errors.As(err, &busy) || !errors.Is(err, ErrNotAcquired) || busy.Why != "full" {
		t.Errorf("not refused: %v", err)
		return &Busy{}
	}
	if asked := len(k.asked) > before; asked != asks {
		t.Errorf("asked the server: %v", asked)
	}
	return busy
}

// A refusal counts for its time, but not longer than that, and for 5 ms at most.
func TestRefusalLasts(t *testing.T) {
	in(t, func(_ *fake.Driver, e, other *Engine) {
		k := refusedFor(2, 3*time.Millisecond)
		tryOnce(t, e, k, Request{}, true)
		tryOnce(t, other, k, Request{}, true) // another client
		time.Sleep(3*time.Millisecond - 1)
		if busy := tryOnce(t, e, k, Request{}, false); busy.TTL != time.Millisecond {
			t.Errorf("%v are left", busy.TTL)
		}
		time.Sleep(time.Nanosecond)
		tryOnce(t, e, k, Request{}, true)

		k.answer.TTL = time.Second
		time.Sleep(5 * time.Millisecond)
		tryOnce(t, e, k, Request{}, true)
		time.Sleep(5*time.Millisecond - 1)
		if busy := tryOnce(t, e, k, Request{}, false); busy.TTL != 996*time.Millisecond {
			t.Errorf("%v are left", busy.TTL)
		}
		time.Sleep(time.Nanosecond)
		tryOnce(t, e, k, Request{}, true)
	})
}

// The time of a refusal counts from before the request was sent.
func TestRefusalOfSlowServer(t *testing.T) {
	in(t, func(_ *fake.Driver, e, _ *Engine) {
		k := refusedFor(1, 4*time.Millisecond)
		k.during = func() { time.Sleep(3 * time.Millisecond) }
		tryOnce(t, e, k, Request{}, true)
		tryOnce(t, e, k, Request{}, false)
		time.Sleep(time.Millisecond)
		tryOnce(t, e, k, Request{}, true)
	})
}

// A refusal counts for calls that want as much or more and do not wait.
func TestRefusalConcerns(t *testing.T) {
	in(t, func(_ *fake.Driver, e, _ *Engine) {
		two := refusedFor(2, time.Second)
		tryOnce(t, e, two, Request{}, true)
		tryOnce(t, e, refusedFor(3, time.Second), Request{}, false)
		tryOnce(t, e, refusedFor(4, time.Second), Request{}, true) // may be invalid
		tryOnce(t, e, two, Request{}, false)
		tryOnce(t, e, refusedFor(1, time.Second), Request{}, true)
		tryOnce(t, e, two, Request{}, false)
		two.answer.Final = true
		tryOnce(t, e, two, Request{Wait: time.Millisecond}, true)
		tryOnce(t, e, two, Request{Ahead: true}, false)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := e.Take(ctx, two, Request{}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		e.Close(time.Second)
		if _, err := e.Take(context.Background(), two, Request{}); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

// A change by the client ends a refusal, also if the request was sent before the change and
// answered after it.
func TestRefusalEndsWithChange(t *testing.T) {
	in(t, func(_ *fake.Driver, e, _ *Engine) {
		k := refusedFor(1, time.Second)
		order := func(string) driver.Call {
			return script.Renew([]time.Duration{time.Second}, []script.LockRef{{Key: "room", Owner: "a:1"}})
		}
		for what, change := range map[string]func(){
			"changed": func() { e.Changed("room") },
			"ordered": func() {
				if _, err := e.Once(context.Background(), order, nil); err != nil {
					t.Error(err)
				}
			},
		} {
			tryOnce(t, e, k, Request{}, true)
			tryOnce(t, e, k, Request{}, false)
			change()
			k.during = change
			tryOnce(t, e, k, Request{}, true)
			k.during = nil
			if tryOnce(t, e, k, Request{}, true); t.Failed() {
				t.Fatal(what)
			}
			time.Sleep(time.Second)
		}
	})
}

// What is declared is carried out also if the call is refused without a request.
func TestRefusalAndDeclaration(t *testing.T) {
	in(t, func(_ *fake.Driver, e, _ *Engine) {
		k := refusedFor(1, time.Second)
		tryOnce(t, e, k, Request{}, true)
		var calls int
		declare := func(context.Context, bool) error {
			if calls++; calls == 1 {
				e.Changed("room")
			}
			return nil
		}
		tryOnce(t, e, k, Request{Declare: declare}, true)
		tryOnce(t, e, k, Request{Declare: declare}, false)
	})
}

// Neither an object that does not exist nor a request that is never granted counts as a
// refusal for later calls.
func TestNoRefusal(t *testing.T) {
	in(t, func(_ *fake.Driver, e, _ *Engine) {
		for what, v := range map[string]script.Verdict{
			"missing":   {TTL: time.Second, Missing: "room", Why: "full"},
			"an error":  {TTL: time.Second, Err: errors.New("never")},
			"for ever":  {TTL: -1, Why: "full"},
			"a moment":  {Why: "full"},
			"a success": {Token: 1, TTL: time.Second},
		} {
			k := refusedFor(1, 0)
			k.answer = v
			for range 2 {
				_, _ = e.Take(context.Background(), k, Request{})
			}
			if len(k.asked) != 2 {
				t.Errorf("%s: asked %d times, want 2", what, len(k.asked))
			}
		}
	})
}
