package engine

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A room has places for some, and is all that a server would know of it.
type room struct {
	mu     sync.Mutex
	traits script.Traits
	free   int
	after  time.Duration
	fail   error
	asked  []string // requests, in order
}

// A party wants that many places in the room.
type party struct {
	*room
	size int
}

func (p party) Traits() script.Traits     { return p.traits }
func (p party) Gate() string              { return "room" }
func (p party) Channels(string) []string  { return []string{"room"} }
func (p party) Free(o string) driver.Call { return script.NewMutex("room").Free(o) }

// Claim returns a call that changes nothing at the server.
func (p party) Claim(c script.Claim) driver.Call {
	return script.Renew([]time.Duration{time.Second}, []script.LockRef{{Key: "room", Owner: c.Owner}})
}

// Decode grants a claim if there is room.
func (p party) Decode(c script.Claim, _ driver.Reply) (script.Verdict, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, c.Owner)
	switch {
	case p.fail != nil:
		return script.Verdict{}, p.fail
	case p.after > 0 && c.Longest >= 0 && p.after > c.Longest:
		return script.Verdict{TTL: p.after, Final: true, Why: "too late"}, nil
	case p.free < p.size:
		return script.Verdict{TTL: -1, Why: "full"}, nil
	}
	p.free -= p.size
	return script.Verdict{Token: 1, After: p.after}, nil
}

func (r *room) leave(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free += n
}

// Who came first asks first, also if it wants more than is free, and who only
// tries does not push in.
func TestTakeInOrder(t *testing.T) {
	in(t, func(_ *fake.Driver, e, _ *Engine) {
		r := &room{traits: script.Traits{Queue: script.InOrder}, free: 2}
		order := make(chan int, 2)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for _, size := range []int{3, 1} {
			go func() {
				if _, err := e.Take(ctx, party{r, size}, Request{Wait: Forever}); err != nil {
					t.Error(err)
				}
				order <- size
			}()
			synctest.Wait()
		}
		var busy *Busy
		if _, err := e.Take(context.Background(), party{r, 1}, Request{}); !errors.As(err, &busy) || !busy.Local {
			t.Errorf("pushed in: %v", err)
		}
		if _, err := e.Take(context.Background(), party{r, 1}, Request{Wait: time.Second}); !errors.As(err, &busy) || !busy.Local || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("pushed in after a second: %v", err)
		}
		r.leave(2)
		if a, b := <-order, <-order; a != 3 || b != 1 {
			t.Errorf("%d before %d", a, b)
		}
	})
}

// What is granted ahead of time is waited for, and undone if the caller goes.
func TestTakeAhead(t *testing.T) {
	in(t, func(d *fake.Driver, e, _ *Engine) {
		r := &room{free: 9, after: 3 * time.Second}
		began := time.Now()
		if _, err := e.Take(context.Background(), party{r, 1}, Request{Wait: Forever}); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if taken, err := e.Take(context.Background(), party{r, 1}, Request{Wait: Forever, Ahead: true}); err != nil || taken.After != 3*time.Second || time.Since(began) != 3*time.Second {
			t.Errorf("after %v: %+v, %v", time.Since(began), taken, err)
		}
		var busy *Busy
		if _, err := e.Take(context.Background(), party{r, 1}, Request{Wait: 2 * time.Second}); !errors.As(err, &busy) || busy.TTL != r.after || time.Since(began) != 3*time.Second {
			t.Errorf("waited in vain until %v: %v", time.Since(began), err)
		}
		if d.Calls("mutex_release") != 0 {
			t.Error("undone what was not to be")
		}
		ctx, cancel := context.WithCancel(context.Background())
		r.after = 500 * time.Millisecond
		go func() {
			time.Sleep(100 * time.Millisecond)
			cancel()
		}()
		if _, err := e.Take(ctx, party{r, 1}, Request{Wait: Forever}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if d.Calls("mutex_release") == 0 {
			t.Error("the grant of a caller that has gone was not undone")
		}
	})
}

// sequence returns the sequence of a numbered request.
func sequence(request string) string { return strings.Split(request, ":")[1] }

// The sequence of a request is used again, but not while nobody knows what became of
// it.
func TestSequences(t *testing.T) {
	in(t, func(d *fake.Driver, e, _ *Engine) {
		r := &room{traits: script.Traits{Numbered: true}, free: 9}
		take := func() error {
			_, err := e.Take(context.Background(), party{r, 1}, Request{})
			return err
		}
		for range 3 {
			if err := take(); err != nil {
				t.Fatal(err)
			}
		}
		if sequence(r.asked[0]) != sequence(r.asked[2]) || r.asked[0] == r.asked[1] {
			t.Errorf("requests %q", r.asked)
		}
		r.fail = &driver.Error{Class: driver.Ambiguous, Err: errors.New("lost")}
		d.Fail(func(c driver.Call) error {
			if c.Script.Name != "mutex_release" {
				return nil
			}
			return driver.Unsent(errors.New("away"))
		})
		if err := take(); !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		doubtful := r.asked[len(r.asked)-1]
		if r.asked[3] != doubtful {
			t.Errorf("sent again as another request: %q", r.asked[3:])
		}
		r.fail = nil
		for range 3 {
			if err := take(); err != nil {
				t.Fatal(err)
			}
			if last := r.asked[len(r.asked)-1]; sequence(last) == sequence(doubtful) {
				t.Errorf("%s used the sequence of %s", last, doubtful)
			}
		}
		d.Fail(nil)
		time.Sleep(5 * time.Second) // undone
		if err := take(); err != nil {
			t.Fatal(err)
		}
		if last := r.asked[len(r.asked)-1]; sequence(last) != sequence(doubtful) {
			t.Errorf("the sequence of %s is lost: %s", doubtful, last)
		}
	})
}

// An order on which the engine insists is given although its context is done,
// and again in the background until it is known to have been carried out, under
// the same name; others end with their call.
func TestOnceInsists(t *testing.T) {
	in(t, func(d *fake.Driver, e, _ *Engine) {
		var mu sync.Mutex
		var fail error
		var sent []string
		d.Fail(func(c driver.Call) error {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, c.Args[0])
			return fail
		})
		// from returns what was sent, and has what is sent from now on fail with err.
		from := func(err error) []string {
			mu.Lock()
			defer mu.Unlock()
			before := sent
			sent, fail = nil, err
			return before
		}
		give := func(ctx context.Context, insist bool) error {
			order := func(request string) driver.Call { return script.NewMutex("k").Free(request) }
			var later Order
			if insist {
				later = order
			}
			_, err := e.Once(ctx, order, later)
			return err
		}
		dead, cancel := context.WithCancel(context.Background())
		cancel()
		insisted, not := give(dead, true), give(dead, false)
		if sent := from(nil); insisted != nil || !errors.Is(not, context.Canceled) || len(sent) != 1 {
			t.Errorf("with a dead context: %v, and not insisting: %v; sent %q", insisted, not, sent)
		}
		for _, insist := range []bool{true, false} {
			from(&driver.Error{Class: driver.Ambiguous, Err: errors.New("lost")})
			if err := give(context.Background(), insist); !errors.Is(err, ErrUnavailable) {
				t.Errorf("without an answer: %v", err)
			}
			first := from(nil)[0]
			time.Sleep(5 * time.Second)
			if sent := from(nil); insist != (len(sent) == 1) || insist && sent[0] != first {
				t.Errorf("insisting %v on %s: sent %q in the background", insist, first, sent)
			}
		}
		from(&driver.Error{Class: driver.Fatal, Err: errors.New("no")})
		if err := give(context.Background(), true); !errors.Is(err, ErrRefused) {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		if sent := from(nil); len(sent) != 1 {
			t.Errorf("refused, and sent on: %q", sent)
		}
	})
}

// Whoever has given something back that others wait for lets them try first.
func TestTakeYields(t *testing.T) {
	in(t, func(_ *fake.Driver, e, _ *Engine) {
		p := party{&room{traits: script.Traits{Queue: script.InOrder}, free: 9}, 1}
		for _, heard := range []int{0, 2} {
			e.Yield(p, heard)
			began := time.Now()
			if _, err := e.Take(context.Background(), p, Request{Wait: Forever}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); (took > 0) != (heard > 0) {
				t.Errorf("%v after %d others heard of it", took, heard)
			}
		}
	})
}
