package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A room has a number of free places. It is the state at the server.
type room struct {
	mu       sync.Mutex
	traits   script.Traits
	free     int
	after    time.Duration
	fail     error
	asked    []string // requests, in order
	admitted []int    // sizes, in order
}

// A party is a target that takes that many places of the room.
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
	p.admitted = append(p.admitted, p.size)
	return script.Verdict{Token: 1, After: p.after}, nil
}

// leave frees n places.
func (r *room) leave(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free += n
}

// Calls ask in the order of their arrival, even if the first one wants more than is free. A
// call that does not wait does not overtake them.
func TestTakeInOrder(t *testing.T) {
	in(t, func(_ *fake.Driver, e, _ *Engine) {
		r := &room{traits: script.Traits{Queue: script.InOrder}, free: 2}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		for _, size := range []int{3, 1} {
			wg.Go(func() {
				if _, err := e.Take(ctx, party{r, size}, Request{Wait: Forever}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		var busy *Busy
		if _, err := e.Take(context.Background(), party{r, 1}, Request{}); !errors.As(err, &busy) || !busy.Local {
			t.Errorf("a try overtook the queue: %v", err)
		}
		if _, err := e.Take(context.Background(), party{r, 1}, Request{Wait: time.Second}); !errors.As(err, &busy) || !busy.Local || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call with a wait of a second overtook the queue: %v", err)
		}
		r.leave(2)
		wg.Wait()
		if !slices.Equal(r.admitted, []int{3, 1}) {
			t.Errorf("admitted %v", r.admitted)
		}
	})
}

// Take waits until a future grant takes effect, and undoes the grant if its context ends
// before.
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
			t.Errorf("waited until %v for a grant that comes too late: %v", time.Since(began), err)
		}
		if d.Releases() != 0 {
			t.Error("a grant in use was undone")
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
		if d.Releases() == 0 {
			t.Error("the grant was not undone after its context ended")
		}
	})
}

// sequence returns the sequence of a numbered request.
func sequence(request string) string { return strings.Split(request, ":")[1] }

// The sequence of a request is reused, but not while it is unknown whether the request was
// executed.
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
			if !fake.Release(c) {
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

// Once with a later order ignores the end of its context, and sends the order in the
// background, as the same request, until the server confirms it. Without a later order, it
// ends with its call.
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
		// from returns the requests that were sent since the last call, and makes the next
		// ones fail with err.
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
			t.Errorf("with an ended context: %v, without a later order: %v; sent %q", insisted, not, sent)
		}
		for _, insist := range []bool{true, false} {
			from(&driver.Error{Class: driver.Ambiguous, Err: errors.New("lost")})
			if err := give(context.Background(), insist); !errors.Is(err, ErrUnavailable) {
				t.Errorf("without an answer: %v", err)
			}
			first := from(nil)[0]
			time.Sleep(5 * time.Second)
			if sent := from(nil); insist != (len(sent) == 1) || insist && sent[0] != first {
				t.Errorf("later order %v, request %s: sent %q in the background", insist, first, sent)
			}
		}
		from(&driver.Error{Class: driver.Fatal, Err: errors.New("no")})
		if err := give(context.Background(), true); !errors.Is(err, ErrRefused) {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		if sent := from(nil); len(sent) != 1 {
			t.Errorf("a refused order was repeated: %q", sent)
		}
	})
}

// A process that has released something that other clients wait for lets them ask first.
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
				t.Errorf("waited %v after a release that %d clients received", took, heard)
			}
		}
	})
}

// A server that was unavailable and has answered since is not reported as unavailable.
func TestTakeAheadAfterOutage(t *testing.T) {
	in(t, func(_ *fake.Driver, e, _ *Engine) {
		r := &room{free: 1, after: time.Minute, fail: driver.Unsent(errors.New("away"))}
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			time.Sleep(time.Second)
			r.mu.Lock()
			r.fail = nil
			r.mu.Unlock()
			time.Sleep(10 * time.Second)
			cancel()
		}()
		_, err := e.Take(ctx, party{r, 1}, Request{Wait: Forever})
		if errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrNotAcquired) {
			t.Error(err)
		}
	})
}

// An order is not repeated after its mark may have expired, because it could be executed
// twice.
func TestOrderIsNotRepeatedAfterItsMark(t *testing.T) {
	in(t, func(d *fake.Driver, e, _ *Engine) {
		var mu sync.Mutex
		var first, last time.Time
		d.Fail(func(driver.Call) error {
			mu.Lock()
			defer mu.Unlock()
			if last = time.Now(); first.IsZero() {
				first = last
			}
			return &driver.Error{Class: driver.Ambiguous, Err: errors.New("lost")}
		})
		order := func(request string) driver.Call { return script.NewMutex("l").Free(request) } // any will do
		if _, err := e.Once(context.Background(), order, order); !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		time.Sleep(2 * script.MarkLife)
		mu.Lock()
		defer mu.Unlock()
		if over := last.Sub(first) - script.MarkLife; over >= 0 {
			t.Errorf("sent again %v after the mark of the first copy had expired", over)
		}
		d.Fail(nil)
	})
}

// Each call in a queue waits for an unavailable server for its own patience, not for the sum
// of all patiences before it.
func TestPatienceInQueue(t *testing.T) {
	for name, traits := range map[string]script.Traits{"orderly": {Queue: script.InOrder}, "sharing": {Queue: script.Together, ReadOnly: true}} {
		t.Run(name, func(t *testing.T) {
			in(t, func(_ *fake.Driver, e, _ *Engine) {
				r := &room{traits: traits}
				var wg sync.WaitGroup
				var longest time.Duration
				var mu sync.Mutex
				var began time.Time
				for range 5 {
					wg.Go(func() {
						_, err := e.Take(context.Background(), party{r, 1}, Request{Wait: Forever})
						if !errors.Is(err, ErrUnavailable) {
							t.Error(err)
						}
						mu.Lock()
						longest = time.Since(began)
						mu.Unlock()
					})
					synctest.Wait()
				}
				r.mu.Lock()
				r.fail = driver.Unsent(errors.New("away"))
				r.mu.Unlock()
				mu.Lock()
				began = time.Now()
				mu.Unlock()
				wg.Wait()
				if longest > 2*options.Patience {
					t.Errorf("the last call gave up after %v", longest)
				}
			})
		})
	}
}

// A slowServer grants every claim, and takes the time of a lease for each answer.
type slowServer struct{ party }

func (s slowServer) Decode(script.Claim, driver.Reply) (script.Verdict, error) {
	time.Sleep(options.Lease)
	return script.Verdict{Token: 1}, nil
}

// A grant without a lease is used, however long the answer takes.
func TestTakeFromSlowServer(t *testing.T) {
	in(t, func(_ *fake.Driver, e, _ *Engine) {
		if _, err := e.Take(context.Background(), slowServer{party{new(room), 1}}, Request{Wait: Forever}); err != nil {
			t.Error(err)
		}
	})
}
