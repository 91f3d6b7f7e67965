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

// A rig is a client whose replies can be lost, and an undisturbed look at the
// server.
type rig struct {
	s *redistest.Server
	p *redistest.Proxy
	c *holdfast.Client
	m mutexLike
}

func newRig(t *testing.T, o ...holdfast.Options) *rig {
	t.Helper()
	return newRigOf(t, kinds[0], o...)
}

func newRigOf(t *testing.T, k kind, o ...holdfast.Options) *rig {
	t.Helper()
	return newRigAt(t, "", k, o...)
}

// newRigAt returns a rig whose client has a query in its URL.
func newRigAt(t *testing.T, query string, k kind, o ...holdfast.Options) *rig {
	t.Helper()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := open(t, p.URL()+query, o...)
	r := &rig{s, p, c, k.make(c, "rig")}
	l := lock(t, t.Context(), r.m) // so that the server knows the scripts
	release(t, lock(t, l.Context(), r.m))
	release(t, l)
	return r
}

func (r *rig) has(t *testing.T, want string) {
	t.Helper()
	if got := fmt.Sprint(r.s.Do(t, "HGETALL", "rig")); got != want {
		t.Errorf("the server has %s, want %s", got, want)
	}
}

func (r *rig) dropNext() <-chan struct{} { return r.p.DropReply(1, redistest.Command("EVALSHA")) }

// stoodStill reports whether a call that began at start, and whose reply was
// lost, has failed because this process or the server did not run. Most calls are
// repeated for a second and no longer, and may then fail. A call that fails
// without a stall on record has not been repeated as it should.
func stoodStill(stalls *redistest.StallMeter, err error, start time.Time) bool {
	return errors.Is(err, holdfast.ErrUnavailable) && stalls.Since(start) > aWhile
}

// releaseUnheard is release where the reply is lost.
func releaseUnheard(tb testing.TB, stalls *redistest.StallMeter, l *holdfast.Lease) {
	tb.Helper()
	start := time.Now()
	if err := l.Release(context.Background()); err != nil && !stoodStill(stalls, err, start) {
		tb.Error(err)
	}
}

// loseReply runs a call and loses the reply to its first script, which has run in
// any case. It reports whether the call has failed because of a standstill.
func loseReply(stalls *redistest.StallMeter, p *redistest.Proxy, call func() error) (excused bool, err error) {
	dropped := p.DropReply(1, redistest.Command("EVALSHA"))
	start := time.Now()
	err = call()
	select {
	case <-dropped:
		return stoodStill(stalls, err, start), err
	case <-time.After(late):
		return false, errors.Join(err, errors.New("no reply was lost"))
	}
}

// Acquired once, although the request ran twice; one release frees it.
func TestAcquireReplyLost(t *testing.T) {
	t.Parallel()
	each(t, "PF", func(t *testing.T, k kind) {
		t.Parallel()
		r := newRigOf(t, k)
		stalls := redistest.MeterStalls(t, r.s)
		for name, take := range map[string]func() (*holdfast.Lease, error){
			"lock":     func() (*holdfast.Lease, error) { return r.m.Lock(t.Context()) },
			"try lock": func() (*holdfast.Lease, error) { return r.m.TryLock(t.Context()) },
		} {
			dropped := r.dropNext()
			start := time.Now()
			l, err := take()
			if name == "try lock" && stoodStill(stalls, err, start) {
				eventually(t, 10*time.Second, "what may have been acquired is given back", func() bool { return r.s.Int(t, "EXISTS", "rig") == 0 })
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			<-dropped
			r.has(t, fmt.Sprintf("[%s 1]", l.Owner()))
			release(t, l)
			r.has(t, "[]")
		}
	})
}

func TestReenterReplyLost(t *testing.T) {
	t.Parallel()
	each(t, "PF", func(t *testing.T, k kind) {
		t.Parallel()
		r := newRigOf(t, k)
		outer := lock(t, t.Context(), r.m)
		dropped := r.dropNext()
		inner := lock(t, outer.Context(), r.m)
		<-dropped
		r.has(t, fmt.Sprintf("[%s 2]", outer.Owner()))
		release(t, inner)
		r.has(t, fmt.Sprintf("[%s 1]", outer.Owner()))
		release(t, outer)
		r.has(t, "[]")
	})
}

// Released once, although the request ran twice, and never what somebody else
// holds by then.
func TestReleaseReplyLost(t *testing.T) {
	t.Parallel()
	each(t, "PF", func(t *testing.T, k kind) {
		t.Parallel()
		r := newRigOf(t, k)
		stalls := redistest.MeterStalls(t, r.s)
		rival := open(t, r.s.URL())
		l := lock(t, t.Context(), r.m)
		dropped := r.dropNext()
		taken := make(chan *holdfast.Lease)
		go func() {
			<-dropped // the lock is free, but the one who freed it does not know
			taken <- lock(t, t.Context(), k.make(rival, "rig"))
		}()
		releaseUnheard(t, stalls, l)
		got := <-taken
		r.has(t, fmt.Sprintf("[%s 1]", got.Owner()))
		release(t, got)
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("second release: %v", err)
		}
	})
}

func TestRenewReplyLost(t *testing.T) {
	t.Parallel()
	each(t, "PF", func(t *testing.T, k kind) {
		t.Parallel()
		r := newRigOf(t, k, steady)
		l := lock(t, t.Context(), r.m)
		for range 3 {
			<-r.dropNext() // nothing but renewals goes out
		}
		time.Sleep(steady.RenewEvery)
		if !l.Valid() {
			t.Error("lost by a lost reply")
		}
		r.has(t, fmt.Sprintf("[%s 1]", l.Owner()))
		release(t, l)
		r.has(t, "[]")
	})
}

// The caller gives up while its request is on the way: what the request
// acquires is given back at once, not when the lease ends.
func TestCancelledAcquireLeavesNothing(t *testing.T) {
	t.Parallel()
	each(t, "PF", func(t *testing.T, k kind) {
		t.Parallel()
		for name, take := range map[string]func(context.Context, *rig) (*holdfast.Lease, error){
			"lock":     func(ctx context.Context, r *rig) (*holdfast.Lease, error) { return r.m.Lock(ctx) },
			"try lock": func(ctx context.Context, r *rig) (*holdfast.Lease, error) { return r.m.TryLock(ctx) },
			"wait": func(_ context.Context, r *rig) (*holdfast.Lease, error) {
				return r.m.TryLock(context.Background(), holdfast.Wait(50*time.Millisecond))
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := newRigAt(t, slowToDespair, k)
				arrived, letGo := r.p.HoldReply(redistest.Command("EVALSHA"))
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					<-arrived
					time.Sleep(50 * time.Millisecond)
					cancel()
				}()
				start := time.Now()
				l, err := take(ctx, r)
				if err == nil {
					t.Fatalf("acquired %v without a reply", l)
				}
				if took := time.Since(start); took > 2*late { // a moment for the answer included
					t.Errorf("gave up after %v", took)
				}
				if name != "wait" && !errors.Is(err, context.Canceled) {
					t.Errorf("error %v", err)
				}
				if errors.Is(err, holdfast.ErrNotAcquired) {
					t.Errorf("%v: claims that somebody else has it", err)
				}
				letGo()
				eventually(t, 5*time.Second, "free again", func() bool { return r.s.Int(t, "EXISTS", "rig") == 0 })
			})
		}
	})
}

// The request is delayed on the way and runs when its caller has long given
// up.
func TestLateAcquireLeavesNothing(t *testing.T) {
	t.Parallel()
	each(t, "PF", func(t *testing.T, k kind) {
		t.Parallel()
		r := newRigOf(t, k)
		r.p.Freeze()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // less could be over before the request is sent
		defer cancel()
		if _, err := r.m.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, holdfast.ErrUnavailable) {
			t.Errorf("error %v", err)
		}
		r.p.Thaw()
		eventually(t, 10*time.Second, "acquire and undo have both run", func() bool {
			return r.p.Count("EVALSHA") > 4 && r.s.Int(t, "EXISTS", "rig") == 0
		})
		// It stays free: nothing is renewed that nobody holds.
		release(t, lock(t, t.Context(), r.m))
	})
}

// slowToDespair is the query of a client that bears with silence for longer than
// any deadline in these tests: if a call returns in time, it is for its own.
const slowToDespair = "?timeout=20s"

// A deadline is kept on a server that does not answer, and success never comes
// after it.
func TestDeadlineIsKept(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, slowToDespair, kinds[0])
	r.p.FreezeReplies()
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		start := time.Now()
		l, err := r.m.Lock(ctx)
		if err == nil {
			t.Errorf("acquired %v after the deadline", l)
		}
		if took := time.Since(start); took > late {
			t.Errorf("returned after %v", took)
		}
		cancel()
	}
	r.p.Thaw()
}

func TestReleaseWithDeadContext(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	l := lock(t, ctx, r.m)
	cancel()
	if err := l.Release(ctx); err != nil {
		t.Errorf("release with a cancelled context: %v", err)
	}
	r.has(t, "[]")
}

// With the server out of reach, a release goes on in the background.
func TestReleaseGoesOn(t *testing.T) {
	t.Parallel()
	each(t, "PF", func(t *testing.T, k kind) {
		t.Parallel()
		r := newRigOf(t, k)
		l := lock(t, t.Context(), r.m)
		r.p.Refuse(true)
		r.p.Cut()
		start := time.Now()
		err := l.Release(t.Context())
		if !errors.Is(err, holdfast.ErrUnavailable) {
			t.Errorf("release without a server: %v", err)
		}
		if took := time.Since(start); took > 4*time.Second+late {
			t.Errorf("took %v", took)
		}
		if r.s.Int(t, "EXISTS", "rig") != 1 {
			t.Fatal("released although cut off?")
		}
		r.p.Refuse(false)
		eventually(t, 10*time.Second, "released in the background", func() bool { return r.s.Int(t, "EXISTS", "rig") == 0 })
	})
}

// The same for a lease that was extended: in the background for as long as
// that lasts, not only as long as it was taken for.
func TestReleaseGoesOnAfterExtend(t *testing.T) {
	t.Parallel()
	r := newRig(t, steady)
	l := lock(t, t.Context(), r.m)
	if err := l.Extend(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	r.p.Refuse(true)
	r.p.Cut()
	if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrUnavailable) {
		t.Errorf("release without a server: %v", err)
	}
	time.Sleep(steady.WatchdogTimeout + time.Second)
	r.p.Refuse(false)
	eventually(t, 10*time.Second, "released in the background", func() bool { return r.s.Int(t, "EXISTS", "rig") == 0 })
}

// One look at a server that does not answer takes as long as one request may.
func TestTryLockOnSilentServer(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, "?timeout=5s", kinds[0])
	r.s.Pause()
	defer r.s.Resume()
	start := time.Now()
	_, err := r.m.TryLock(t.Context())
	if took := time.Since(start); !errors.Is(err, holdfast.ErrUnavailable) || took > 5*time.Second+late {
		t.Errorf("%v after %v", err, took)
	}
}
