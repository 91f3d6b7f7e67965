package combine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/combine"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A server is a driver whose calls return when the test lets them.
type server struct {
	driver.Driver
	mu    sync.Mutex
	calls []*received
	err   error // of all batches
}

type received struct {
	driver.Call
	ctx    context.Context
	answer chan error
}

func (s *server) Place(string) driver.Place { return driver.Place{} }

func (s *server) Close() error { return nil }

// Do grants every claim, with the number of its owner as the token.
func (s *server) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	r := &received{c, ctx, make(chan error)}
	r.Keys, r.Args = append([]string(nil), c.Keys...), append([]string(nil), c.Args...)
	s.mu.Lock()
	s.calls = append(s.calls, r)
	err := s.err
	s.mu.Unlock()
	select {
	case given := <-r.answer:
		if given != nil {
			return driver.Reply{}, given
		}
	case <-ctx.Done():
		return driver.Reply{}, driver.Unknown(ctx.Err())
	}
	if !strings.HasSuffix(c.Script.Name, "_batch") {
		return token(r.Args[1]), nil
	}
	if err != nil {
		return driver.Reply{}, err
	}
	list := []driver.Reply{{Type: driver.List}, token(r.Args[6])}
	for i := range len(r.Keys) - 1 {
		list = append(list, token(r.Args[8+i]))
	}
	return driver.Reply{Type: driver.List, List: list}, nil
}

func token(owner string) driver.Reply {
	var n int64
	_, _ = fmt.Sscanf(owner, "me:%d", &n)
	return driver.Reply{Type: driver.Int, Int: n}
}

// received returns the requests that the server has received, when nothing more happens.
func (s *server) received() []*received {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*received(nil), s.calls...)
}

// answerAll answers all requests until none comes any more.
func (s *server) answerAll() {
	for done := 0; ; {
		all := s.received()
		if done == len(all) {
			return
		}
		for ; done < len(all); done++ {
			select {
			case all[done].answer <- nil:
			case <-all[done].ctx.Done():
			}
		}
	}
}

func claim(i int) driver.Call {
	return script.NewMutex(fmt.Sprint("name:", i)).Claim(script.Claim{Owner: fmt.Sprint("me:", i), Count: 1, Lease: time.Minute})
}

// How many requests are sent before others queue.
const (
	direct   = 16
	partial  = 2
	underWay = direct + partial
)

// A result is that of a call of Do.
type result struct {
	token int64
	err   error
}

// start runs n calls at the same time, each after the others have been sent or queued.
func start(ctx context.Context, d driver.Driver, from, n int) []chan result {
	results := make([]chan result, n)
	for i := range results {
		results[i] = make(chan result, 1)
		go func() {
			r, err := d.Do(ctx, claim(from+i))
			results[i] <- result{r.Int, err}
		}()
		synctest.Wait()
	}
	return results
}

func (s *server) check(t *testing.T, results []chan result, from int) {
	t.Helper()
	for i, ch := range results {
		if r := <-ch; r.err != nil || r.token != int64(from+i) {
			t.Errorf("call %d: token %d, error %v", from+i, r.token, r.err)
		}
	}
}

// in runs a test with faked time, a driver and its server, which answers all batches with err.
func in(t *testing.T, err error, test func(*testing.T, *server, driver.Driver)) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{err: err}
		d := combine.New(s)
		defer d.Close()
		test(t, s, d)
	})
}

func TestFewCallsAreSentAtOnce(t *testing.T) {
	in(t, nil, func(t *testing.T, s *server, d driver.Driver) {
		results := start(t.Context(), d, 1, direct)
		for i, r := range s.received() {
			if r.Script.Name != "mutex_acquire" || r.Keys[0] != fmt.Sprint("name:", i+1) || r.ctx != t.Context() {
				t.Errorf("request %d: %s of %v", i, r.Script.Name, r.Keys)
			}
		}
		s.answerAll()
		s.check(t, results, 1)
	})
}

func TestManyCallsShareRequests(t *testing.T) {
	in(t, nil, func(t *testing.T, s *server, d driver.Driver) {
		results := start(t.Context(), d, 1, underWay+script.MaxBatch-1)
		if n := len(s.received()); n != underWay {
			t.Errorf("%d requests before an answer, want %d", n, underWay)
		}
		results = append(results, start(t.Context(), d, 1+len(results), 37)...)
		if all := s.received(); len(all) != underWay+1 || len(all[underWay].Keys) != script.MaxBatch {
			t.Errorf("%d requests when as many calls wait as a batch can have", len(all))
		}
		s.answerAll()
		s.check(t, results, 1)
		if all := s.received(); len(all) != underWay+2 || len(all[underWay+1].Keys) != 36 {
			t.Errorf("%d requests", len(all))
		}
	})
}

// While batches are under way, there are many calls, so none is sent alone.
func TestCallsJoinTheNextBatch(t *testing.T) {
	in(t, nil, func(t *testing.T, s *server, d driver.Driver) {
		results := start(t.Context(), d, 1, underWay)
		for _, r := range s.received()[:direct] {
			r.answer <- nil
		}
		synctest.Wait()
		results = append(results, start(t.Context(), d, 1+underWay, 5)...)
		if n := len(s.received()); n != underWay {
			t.Errorf("%d requests while two batches are under way, want %d", n, underWay)
		}
		s.received()[direct].answer <- nil
		if all := s.received(); len(all) != underWay+1 || len(all[underWay].Keys) != 5 {
			t.Errorf("%d requests after an answer", len(all))
		}
		for _, r := range s.received()[direct+1:] {
			r.answer <- nil
		}
		s.check(t, results, 1)
		results = start(t.Context(), d, 100, 1)
		if last := s.received()[underWay+1]; last.ctx != t.Context() {
			t.Error("a lone call was not sent at once")
		} else {
			last.answer <- nil
		}
		s.check(t, results, 100)
	})
}

func TestCallsOfAnotherLength(t *testing.T) {
	in(t, nil, func(t *testing.T, s *server, d driver.Driver) {
		results := start(t.Context(), d, 1, underWay)
		for i := range 4 {
			go func() {
				c := claim(100 + i)
				if i >= 2 {
					c.Args = append(c.Args, "more")
				}
				_, _ = d.Do(t.Context(), c)
			}()
			synctest.Wait()
		}
		s.answerAll()
		s.check(t, results, 1)
		all := s.received()
		if len(all) != underWay+2 || len(all[underWay].Keys) != 2 || len(all[underWay+1].Keys) != 2 {
			t.Errorf("%d requests", len(all))
		}
	})
}

// A call whose context ends after it was sent returns its answer if it comes soon. A request
// that undoes the call could overtake the batch otherwise.
func TestNotOvertaken(t *testing.T) {
	in(t, nil, func(t *testing.T, s *server, d driver.Driver) {
		first := start(t.Context(), d, 1, underWay)
		ctx, cancel := context.WithCancel(t.Context())
		late := start(ctx, d, 100, 2)
		s.received()[direct].answer <- nil // now the batch with the two is sent
		last := s.received()[underWay]
		cancel()
		time.Sleep(20 * time.Millisecond)
		last.answer <- nil
		s.check(t, late, 100)
		for i, r := range s.received()[:underWay] {
			if i != direct {
				r.answer <- nil
			}
		}
		s.check(t, first, 1)
	})
}

func TestEachCallHasItsOwnContext(t *testing.T) {
	in(t, nil, func(t *testing.T, s *server, d driver.Driver) {
		first := start(t.Context(), d, 1, underWay)
		queued, cancelQueued := context.WithCancel(t.Context())
		sent, cancelSent := context.WithTimeout(t.Context(), time.Second)
		defer cancelSent()
		a, b, c := start(queued, d, 100, 2), start(sent, d, 200, 2), start(t.Context(), d, 300, 2)
		cancelQueued()
		for _, ch := range a {
			if r := <-ch; driver.ClassOf(r.err) != driver.Definite || !errors.Is(r.err, context.Canceled) {
				t.Errorf("cancelled before it was sent: %v, %v", driver.ClassOf(r.err), r.err)
			}
		}
		s.received()[direct].answer <- nil
		last := s.received()[underWay]
		if len(last.Keys) != 4 || last.Keys[0] != "name:200" {
			t.Errorf("sent %v", last.Keys)
		}
		<-sent.Done()
		for _, ch := range b {
			if r := <-ch; driver.ClassOf(r.err) != driver.Ambiguous || !errors.Is(r.err, context.DeadlineExceeded) {
				t.Errorf("cancelled after it was sent: %v, %v", driver.ClassOf(r.err), r.err)
			}
		}
		last.answer <- nil
		s.check(t, c, 300)
		for i, r := range s.received()[:underWay] {
			if i != direct {
				r.answer <- nil
			}
		}
		s.check(t, first, 1)
	})
}

func TestRefusedBatchIsSplit(t *testing.T) {
	refused := driver.ServerError("NOPERM this user has no permissions to access one of the keys")
	in(t, refused, func(t *testing.T, s *server, d driver.Driver) {
		results := start(t.Context(), d, 1, underWay+10)
		s.answerAll()
		s.check(t, results, 1)
	})
}

func TestBrokenBatchFailsAllCalls(t *testing.T) {
	broken := driver.Unknown(errors.New("the connection broke"))
	in(t, broken, func(t *testing.T, s *server, d driver.Driver) {
		results := start(t.Context(), d, 1, underWay+10)
		s.answerAll()
		s.check(t, results[:underWay], 1)
		for i, ch := range results[underWay:] {
			if r := <-ch; !errors.Is(r.err, broken) {
				t.Errorf("call %d: token %d, error %v", i, r.token, r.err)
			}
		}
	})
}

// TestStall has requests that are not answered. Others do not wait for them.
func TestStall(t *testing.T) {
	in(t, nil, func(t *testing.T, s *server, d driver.Driver) {
		results := start(t.Context(), d, 1, underWay+3)
		time.Sleep(100 * time.Millisecond)
		all := s.received()
		last := all[len(all)-1]
		if len(last.Keys) != 3 || last.Keys[2] != fmt.Sprint("name:", underWay+3) {
			t.Fatalf("the last request is for %v", last.Keys)
		}
		last.answer <- nil
		s.check(t, results[underWay:], underWay+1)
		for _, r := range all[:len(all)-1] {
			r.answer <- nil
		}
		s.check(t, results[:underWay], 1)
	})
}

// A counter is a driver that counts requests.
type counter struct {
	driver.Driver
	requests atomic.Int64
}

func (c *counter) Do(ctx context.Context, call driver.Call) (driver.Reply, error) {
	c.requests.Add(1)
	return c.Driver.Do(ctx, call)
}

// TestCombined has many goroutines acquire and release locks of their own. Some of them
// also ask for a key that no lock can have.
func TestCombined(t *testing.T) {
	s := redistest.Start(t)
	c, err := rueidis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := rueidis.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	counted := &counter{Driver: raw}
	d := combine.New(counted)
	s.Do(t, "SET", "foreign", "data")
	const goroutines, rounds = 200, 50
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			m := script.NewMutex(fmt.Sprint("own:", i))
			for n := range rounds {
				c := script.Claim{Owner: fmt.Sprintf("me:%d:%d", i, n), Count: 1, Lease: time.Minute}
				if v, err := script.Acquire(t.Context(), d, m, c); err != nil || !v.Granted() {
					t.Errorf("%s: %+v, %v", c.Owner, v, err)
				}
				if i%50 == 0 {
					if _, err := script.Acquire(t.Context(), d, script.NewMutex("foreign"), c); driver.CodeOf(err) != "WRONGTYPE" {
						t.Errorf("a key of another type: %v", err)
					}
				}
				if freed, err := m.Release(t.Context(), d, c.Owner, 0); err != nil || !freed.Held {
					t.Errorf("release of %s: %+v, %v", c.Owner, freed, err)
				}
			}
		})
	}
	wg.Wait()
	if keys := s.Keys(t); len(keys) != 1 {
		t.Errorf("left: %v", keys)
	}
	if n := counted.requests.Load(); n > goroutines*rounds {
		t.Errorf("%d requests for %d pairs", n, goroutines*rounds)
	}
}
