package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A holder that is cut off must know that it has lost the lock before anybody
// else can have it. A rival waits at the server without detour; the moments at
// which the holder's context ended and the rival got in are compared.
func TestToldBeforeAnybodyElse(t *testing.T) {
	for _, test := range []struct {
		name   string
		sever  func(*redistest.Server, *redistest.Proxy)
		rejoin func(*redistest.Server, *redistest.Proxy)
	}{
		{
			"link frozen",
			func(_ *redistest.Server, p *redistest.Proxy) { p.Freeze() },
			func(_ *redistest.Server, p *redistest.Proxy) { p.Thaw() },
		},
		{
			// Renewals arrive and prolong the key, but nobody tells the holder.
			"replies frozen",
			func(_ *redistest.Server, p *redistest.Proxy) { p.FreezeReplies() },
			func(_ *redistest.Server, p *redistest.Proxy) { p.Thaw() },
		},
		{
			"link refused",
			func(_ *redistest.Server, p *redistest.Proxy) { p.Refuse(true); p.Cut() },
			func(_ *redistest.Server, p *redistest.Proxy) { p.Refuse(false) },
		},
		{
			"server stopped and resumed",
			func(s *redistest.Server, _ *redistest.Proxy) {
				s.Pause()
				time.AfterFunc(steady.WatchdogTimeout+aWhile, s.Resume)
			},
			func(*redistest.Server, *redistest.Proxy) {},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := redistest.NewProxy(t, s.Addr())
			o := steady
			o.PollInterval = 300 * time.Millisecond
			holder, rival := open(t, p.URL(), o), open(t, s.URL(), o)
			redistest.MeterStalls(t).Rounds(t, observable, func() error {
				n := name(t)
				l := lock(t, t.Context(), holder.Mutex(n))
				ctx := l.Context()
				told := make(chan int64, 1)
				context.AfterFunc(ctx, func() { told <- redistest.Now() })
				time.Sleep(time.Second) // renewed at least once
				if !l.Valid() {
					t.Fatal("lost before anything happened")
				}
				test.sever(s, p)
				got := lock(t, t.Context(), rival.Mutex(n))
				in := redistest.Now()
				if l.Valid() {
					t.Error("both are valid")
				}
				verdict := toldBeforeRival(t, told, in)
				var lost *holdfast.LostError
				if cause := context.Cause(ctx); !errors.Is(cause, holdfast.ErrLost) || !errors.As(cause, &lost) || lost.Reason != holdfast.LossExpired {
					t.Errorf("cause %v", cause)
				}
				if got.Token() <= l.Token() {
					t.Errorf("token %d after %d", got.Token(), l.Token())
				}
				test.rejoin(s, p)
				if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
					t.Errorf("release after a loss: %v", err)
				}
				// Neither the late release nor the undoing of the lost lease may
				// touch the rival.
				time.Sleep(time.Second)
				if !got.Valid() {
					t.Error("the rival lost its lock")
				}
				release(t, got)
				return verdict
			})
		})
	}
}

// observable is for how long this process may stand still in a test of who was
// told first: less than the time between a warning and the end of a lease.
const observable = 100 * time.Millisecond

// toldBeforeRival returns an error if a holder was told after somebody else got
// in.
func toldBeforeRival(t *testing.T, told <-chan int64, in int64) error {
	t.Helper()
	select {
	case at := <-told:
		if at >= in {
			return fmt.Errorf("told %v after the rival got in", time.Duration(at-in))
		}
	case <-time.After(late):
		t.Error("not told at all")
	}
	return nil
}

// With the server gone for good there is no rival, but the context ends in
// time all the same.
func TestToldWithoutServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), quick)
	l := lock(t, t.Context(), c.Mutex(name(t)))
	ctx := l.Context()
	s.Kill()
	deadline := time.Now().Add(quick.WatchdogTimeout) // at the latest: no renewal can have moved it since
	<-ctx.Done()
	if after := time.Since(deadline); after > late {
		t.Errorf("told %v after the deadline", after)
	}
	if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("release: %v", err)
	}
}

// A lease that somebody took away is noticed at the next renewal.
func TestTakenAway(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	c := open(t, s.URL(), steady)
	for name, take := range map[string]func(key string){
		"deleted": func(key string) { s.Do(t, "DEL", key) },
		"flushed": func(string) { s.Do(t, "FLUSHALL") },
		"replaced": func(key string) {
			s.Do(t, "DEL", key)
			s.Do(t, "HSET", key, "somebody:1", "1")
		},
	} {
		key := "taken:" + name
		l := lock(t, t.Context(), c.Mutex(key))
		ctx := l.Context()
		take(key)
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: not told", name)
		}
		var lost *holdfast.LostError
		if !errors.As(context.Cause(ctx), &lost) || lost.Reason != holdfast.LossNotOwner {
			t.Errorf("%s: cause %v", name, context.Cause(ctx))
		}
		if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("%s: release: %v", name, err)
		}
		if name == "replaced" && s.Int(t, "EXISTS", key) != 1 {
			t.Error("the new owner's lock is gone")
		}
	}
}

// An extension must not bring back what was lost.
func TestExtendAfterLoss(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	c, other := open(t, s.URL()), open(t, s.URL())
	l := lock(t, t.Context(), c.Mutex("x"))
	if freed, err := other.Mutex("x").ForceUnlock(t.Context()); !freed || err != nil {
		t.Fatal(freed, err)
	}
	if err := l.Extend(t.Context(), time.Minute); !errors.Is(err, holdfast.ErrLost) || l.Valid() {
		t.Errorf("extended a lost lease: %v, valid %v", err, l.Valid())
	}
	if s.Int(t, "EXISTS", "x") != 0 {
		t.Error("the lock was taken for nobody")
	}
}

func TestLossOfNestedLeases(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	c := open(t, s.URL(), steady)
	m := c.Mutex("nested")
	outer := lock(t, t.Context(), m)
	inner := lock(t, outer.Context(), m)
	// Told on its own, not only through the outer one's context.
	apart := lock(t, context.WithoutCancel(outer.Context()), m)
	ctx := inner.Context()
	s.Do(t, "DEL", "nested")
	<-ctx.Done()
	<-apart.Context().Done()
	if !errors.Is(context.Cause(ctx), holdfast.ErrLost) {
		t.Errorf("cause %v", context.Cause(ctx))
	}
	if _, err := m.Lock(ctx); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("entering a lost lock again: %v", err)
	}
	for _, l := range []*holdfast.Lease{inner, apart, outer} {
		if l.Valid() {
			t.Error("valid after the loss")
		}
		if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("release: %v", err)
		}
	}
}

func init() { workers["hold"] = holdWorker }

// holdWorker holds a lock and says, again and again, whether it may rely on
// it: a line with the time and, as the last word, yes or no.
func holdWorker() {
	c, err := holdfast.Open(context.Background(), os.Getenv("TEST_URL"), mortal)
	if err != nil {
		panic(err)
	}
	l, err := c.Mutex(os.Getenv("TEST_NAME")).Lock(context.Background())
	if err != nil {
		panic(err)
	}
	ctx := l.Context()
	for {
		now := redistest.Now() // before the question, lest a stop between the two count
		valid := l.Valid()
		fmt.Println(now, l.Token(), valid)
		if !valid {
			<-ctx.Done() // must come on its own
			fmt.Println(redistest.Now(), l.Token(), "cause:", context.Cause(ctx))
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// A process that was stopped for longer than its lease must see, at its first
// look after it was resumed, that the lock is gone.
func TestStoppedProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), steady)
	n := name(t)
	for range 3 {
		w := redistest.Worker(t, "hold", "TEST_URL="+s.URL(), "TEST_NAME="+n)
		for range 20 {
			<-w.Lines()
		}
		w.Pause()
		l := lock(t, t.Context(), c.Mutex(n)) // when the lease has run out
		in := redistest.Now()
		w.Resume()
		sawEnd := false
		for line := range w.Lines() {
			f := strings.Fields(line)
			at, err := strconv.ParseInt(f[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			if f[2] == "true" && at > in {
				t.Errorf("holder was sure of its lock %v after another had it", time.Duration(at-in))
			}
			if token, _ := strconv.ParseInt(f[1], 10, 64); token >= l.Token() {
				t.Errorf("the new token %d is not above the old one, %d", l.Token(), token)
			}
			sawEnd = sawEnd || f[2] == "cause:" && strings.Contains(line, "lost")
		}
		if !sawEnd {
			t.Error("the context of the stopped holder did not end with a loss")
		}
		release(t, l)
	}
}
