package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A request is given up, and the client closed at once: what the request took
// is given back all the same. Nothing else would ever bring it back.
func TestCloseGivesBackPermitsInDoubt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for i := range 200 { // Close has to come when the undoing is about to connect
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			p := redistest.NewProxy(t, s.Addr())
			c := open(t, p.URL())
			sem := semaphore(t, c, name(t), 5)
			take(t, sem, 1)
			giveBack(t, sem, 1)
			arrived, letGo := p.HoldReply(redistest.Command("EVALSHA"))
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-arrived
				cancel()
			}()
			if err := sem.Acquire(ctx, 2); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
			letGo()
			start := time.Now()
			_ = c.Close()
			took := time.Since(start)
			// A server that does not answer is borne with for two seconds.
			if free := s.Do(t, "GET", sem.Name()); free != "5" && took < 2*time.Second {
				t.Errorf("%v permits are free", free)
			}
		})
	}
}

// What the server must remember of requests that failed is bounded by how many
// are under way at a time as well.
func TestFailedRequestsLeaveFewMarks(t *testing.T) {
	t.Parallel()
	const rounds, most = 200, 50 // undoing goes on beside
	// refused tries in vain, and waits until that is being undone: if the machine
	// stood still there, many would be under way at a time.
	refused := func(t *testing.T, r *semRig) {
		t.Helper()
		before := r.p.Count("EVALSHA")
		if err := r.sem.TryAcquire(t.Context(), 1); !errors.Is(err, holdfast.ErrRefused) {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, "undone", func() bool { return r.p.Count("EVALSHA") > before+1 })
	}
	t.Run("given up", func(t *testing.T) {
		t.Parallel()
		r := newSemRig(t, redistest.Start(t))
		for range rounds {
			arrived, letGo := r.p.HoldReply(redistest.Command("EVALSHA"))
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-arrived
				cancel()
			}()
			if err := r.sem.Acquire(ctx, 1); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			letGo()
			eventually(t, 5*time.Second, "given back", func() bool { return r.free(t) == 5 })
		}
		if n := marks(t, r.s); n > most {
			t.Errorf("%d marks of %d rounds, one at a time", n, rounds)
		}
	})
	t.Run("out of memory", func(t *testing.T) {
		t.Parallel()
		r := newSemRig(t, redistest.Start(t))
		r.s.Do(t, "CONFIG", "SET", "maxmemory", "1")
		for range rounds {
			refused(t, r)
		}
		time.Sleep(aWhile) // for what goes on in the background
		if n := marks(t, r.s); n > most {
			t.Errorf("%d marks of %d rounds, one at a time, on a server without memory", n, rounds)
		}
	})
	t.Run("not a semaphore", func(t *testing.T) {
		t.Parallel()
		r := newSemRig(t, redistest.Start(t))
		r.s.Do(t, "DEL", "rig")
		r.s.Do(t, "RPUSH", "rig", "x")
		for range rounds {
			refused(t, r)
		}
		time.Sleep(aWhile)
		if n := marks(t, r.s); n > most {
			t.Errorf("%d marks of %d rounds, one at a time", n, rounds)
		}
	})
}

// Whatever a call is about, its error says which one it was.
func TestReleaseOfNoneSaysWhatFailed(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Shared(t).URL())
	var failed *holdfast.Error
	if err := c.Semaphore("").Release(t.Context(), 0); !errors.Is(err, holdfast.ErrInvalid) || !errors.As(err, &failed) {
		t.Errorf("error %v", err)
	}
}
