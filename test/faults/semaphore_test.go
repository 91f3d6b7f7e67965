package faults_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A semRig is a semaphore on a client whose replies can be lost.
type semRig struct {
	locktest.Rig
	sem *holdfast.Semaphore
}

// newSemRig returns one with five permits, on a server that knows the scripts.
func newSemRig(t *testing.T, s *redistest.Server) *semRig {
	t.Helper()
	r := &semRig{Rig: locktest.NewRig(t, s, "")}
	r.sem = locktest.NewSemaphore(t, r.Client, "rig", 5)
	locktest.Acquire(t, r.sem, 1)
	locktest.ReleasePermits(t, r.sem, 1)
	if _, err := r.Client.Semaphore("other").Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// free returns how many permits are free, as the server has it.
func (r *semRig) free(t *testing.T) int64 {
	t.Helper()
	if r.Server.Int(t, "EXISTS", "rig") == 0 {
		return 0
	}
	return r.Server.Int(t, "GET", "rig")
}

func (r *semRig) has(t *testing.T, want int64) {
	t.Helper()
	if got := r.free(t); got != want {
		t.Errorf("%d permits are free, want %d", got, want)
	}
}

// settles waits until all permits are free, and checks that it stays so when the client of the
// rig and others have nothing more to do.
func (r *semRig) settles(t *testing.T, others ...*holdfast.Client) {
	t.Helper()
	const want = 5
	locktest.Eventually(t, 15*time.Second, fmt.Sprint(want, " permits are free"), func() bool { return r.free(t) == want })
	locktest.AwaitSettled(t, append(others, r.Client)...)
	heardOut(t, r.Server)
	r.has(t, want)
}

// Taken once, although the request ran twice.
func TestSemaphoreTakeReplyLost(t *testing.T) {
	t.Parallel()
	for how, take := range map[string]func(*holdfast.Semaphore) error{
		"acquire":     func(sem *holdfast.Semaphore) error { return sem.Acquire(context.Background(), 2) },
		"try acquire": func(sem *holdfast.Semaphore) error { return sem.TryAcquire(context.Background(), 2) },
		"wait": func(sem *holdfast.Semaphore) error {
			return sem.Acquire(context.Background(), 2, holdfast.Wait(10*time.Second))
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := newSemRig(t, redistest.Start(t))
			stalls := redistest.MeterStalls(t, r.Server)
			first, second := r.DropNext(), r.Proxy.DropReply(2, redistest.Command("EVALSHA"))
			start := time.Now()
			err := take(r.sem)
			if how == "try acquire" && locktest.StoodStill(stalls, err, start) {
				r.settles(t)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			<-first
			<-second
			r.has(t, 3)
			locktest.ReleasePermits(t, r.sem, 2)
			r.has(t, 5)
		})
	}
}

// The same for one that had to wait.
func TestSemaphoreWaiterReplyLost(t *testing.T) {
	t.Parallel()
	r := newSemRig(t, redistest.Start(t))
	holder := locktest.Open(t, r.Server.URL()).Semaphore("rig")
	locktest.Acquire(t, holder, 4)
	before := r.Proxy.Count("EVALSHA")
	done := locktest.Acquiring(t, r.Server, r.sem, 2)
	locktest.Eventually(t, 10*time.Second, "it has looked for the last time", func() bool { return r.Proxy.Count("EVALSHA") >= before+2 })
	// The answer is there, too, once a later one on the same connection is.
	if _, err := r.sem.Available(t.Context()); err != nil {
		t.Fatal(err)
	}
	dropped := r.DropNext()
	locktest.ReleasePermits(t, holder, 4)
	<-dropped
	locktest.Came(t, done)
	r.has(t, 3)
}

// The server says "not enough", and that is lost.
func TestSemaphoreRefusalLost(t *testing.T) {
	t.Parallel()
	r := newSemRig(t, redistest.Start(t))
	stalls := redistest.MeterStalls(t, r.Server)
	dropped := r.DropNext()
	start := time.Now()
	if err := r.sem.TryAcquire(t.Context(), 6); !errors.Is(err, holdfast.ErrNotAcquired) && !locktest.StoodStill(stalls, err, start) {
		t.Errorf("error %v", err)
	}
	<-dropped
	r.settles(t)
	locktest.Acquire(t, r.sem, 5)
	r.has(t, 0)
}

// The caller gives up while its request is on the way: what it took comes back.
func TestSemaphoreGivenUpInDoubt(t *testing.T) {
	t.Parallel()
	for how, take := range map[string]func(context.Context, *holdfast.Semaphore) error{
		"acquire":     func(ctx context.Context, sem *holdfast.Semaphore) error { return sem.Acquire(ctx, 2) },
		"try acquire": func(ctx context.Context, sem *holdfast.Semaphore) error { return sem.TryAcquire(ctx, 2) },
		"wait": func(_ context.Context, sem *holdfast.Semaphore) error {
			return sem.Acquire(context.Background(), 2, holdfast.Wait(2*time.Second)) // time to arrive, and to look at it
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := newSemRig(t, redistest.Start(t))
			c := locktest.Open(t, r.Proxy.URL()+locktest.PatientQuery) // or it would ask again
			sem := c.Semaphore("rig")
			arrived, letGo := r.Proxy.HoldReply(redistest.Command("EVALSHA"))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ran := make(chan any, 1)
			go func() {
				<-arrived
				n, _ := r.Server.Try("GET", "rig")
				ran <- n
				cancel()
			}()
			start := time.Now()
			err := take(ctx, sem)
			if n := <-ran; n != "3" {
				t.Errorf("%v permits are free while the request is in doubt", n)
			}
			if err == nil {
				t.Fatal("taken without a reply")
			}
			if took := locktest.Took(start); took > 2*locktest.Late { // a moment for the answer included
				t.Errorf("gave up after %v", took)
			}
			if how != "wait" && !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
			if errors.Is(err, holdfast.ErrNotAcquired) {
				t.Errorf("%v: claims that there are not enough", err)
			}
			letGo()
			r.settles(t, c)
		})
	}
}

// The request runs when its caller has long given up.
func TestSemaphoreLateTake(t *testing.T) {
	t.Parallel()
	r := newSemRig(t, redistest.Start(t))
	c := locktest.Open(t, r.Proxy.URL()+locktest.PatientQuery)
	sem := c.Semaphore("rig")
	r.Proxy.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // or it might not be asked at all
	defer cancel()
	if err := sem.Acquire(ctx, 2); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, holdfast.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	before := r.Proxy.Count("EVALSHA")
	r.Proxy.Thaw()
	locktest.Eventually(t, 10*time.Second, "the request and its undoing have run", func() bool { return r.Proxy.Count("EVALSHA") > before+1 })
	r.settles(t, c)
	locktest.Acquire(t, r.sem, 5)
}

// Orders are carried out once, and answered as if nothing had been lost.
func TestSemaphoreOrderReplyLost(t *testing.T) {
	t.Parallel()
	r := newSemRig(t, redistest.Start(t))
	stalls := redistest.MeterStalls(t, r.Server)
	for _, row := range []struct {
		what string
		do   func() (any, error)
		want any
		free int64
	}{
		{"release", func() (any, error) { return nil, r.sem.Release(t.Context(), 2) }, nil, 7},
		{"release if it exists", func() (any, error) { return r.sem.ReleaseIfExists(t.Context(), 1) }, true, 8},
		{"add", func() (any, error) { return nil, r.sem.Add(t.Context(), 2) }, nil, 10},
		{"add less than none", func() (any, error) { return nil, r.sem.Add(t.Context(), -4) }, nil, 6},
		{"drain", func() (any, error) { return r.sem.Drain(t.Context()) }, 6, 0},
		{"set again", func() (any, error) { return r.sem.TrySet(t.Context(), 3, 0) }, false, 0},
		{"release what is gone", func() (any, error) { return r.Server.Int(t, "DEL", "rig"), r.sem.Release(t.Context(), 1) }, int64(1), 1},
		{"set", func() (any, error) { r.Server.Do(t, "DEL", "rig"); return r.sem.TrySet(t.Context(), 3, 0) }, true, 3},
	} {
		first, second := r.DropNext(), r.Proxy.DropReply(2, redistest.Command("EVALSHA"))
		start := time.Now()
		got, err := row.do()
		if locktest.StoodStill(stalls, err, start) {
			_, _ = r.sem.Available(t.Context()) // in place of the second
		} else if got != row.want || err != nil {
			t.Errorf("%s: %v, want %v; %v", row.what, got, row.want, err)
		}
		<-first
		<-second
		r.has(t, row.free)
	}
}

// A read that got no answer is repeated.
func TestSemaphoreAvailableReplyLost(t *testing.T) {
	t.Parallel()
	r := newSemRig(t, redistest.Start(t))
	stalls := redistest.MeterStalls(t, r.Server)
	locktest.WantFreePermits(t, r.sem, 5)
	dropped := r.DropNext()
	start := time.Now()
	if n, err := r.sem.Available(t.Context()); (n != 5 || err != nil) && !locktest.StoodStill(stalls, err, start) {
		t.Errorf("%d permits are free; %v", n, err)
	}
	<-dropped
}

func TestSemaphoreReleaseWithDeadContext(t *testing.T) {
	t.Parallel()
	r := newSemRig(t, redistest.Start(t))
	locktest.Acquire(t, r.sem, 3)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.sem.Release(ctx, 2); err != nil {
		t.Error(err)
	}
	if ok, err := r.sem.ReleaseIfExists(ctx, 1); !ok || err != nil {
		t.Error(ok, err)
	}
	r.has(t, 5)
	if err := r.sem.Acquire(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("acquire with a dead context: %v", err)
	}
	r.settles(t)
}

// With the server away for three seconds, a release continues in the background, and
// releases once.
func TestSemaphoreReleaseGoesOn(t *testing.T) {
	t.Parallel()
	for how, away := range map[string]func(r *semRig) (back func()){
		"cut off": func(r *semRig) func() {
			r.Disconnect()
			return func() { r.Proxy.Refuse(false) }
		},
		// Everything that was sent meanwhile runs, once the server goes on.
		"paused": func(r *semRig) func() {
			r.Server.Pause()
			return r.Server.Resume
		},
		// Whatever is sent runs, and no answer comes.
		"mute": func(r *semRig) func() {
			r.Proxy.FreezeReplies()
			return r.Proxy.Thaw
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := newSemRig(t, redistest.Start(t))
			locktest.Acquire(t, r.sem, 2)
			start := time.Now()
			var back func()
			lasted := redistest.Outage(3*time.Second, func() { back = away(r) }, nil)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			err := r.sem.Release(ctx, 2)
			if !errors.Is(err, holdfast.ErrUnavailable) {
				t.Errorf("release without a server: %v", err)
			}
			if took := locktest.Took(start); took > 4*time.Second+locktest.Late {
				t.Errorf("took %v", took)
			}
			<-lasted
			if how == "cut off" {
				r.has(t, 3)
				r.DropNext() // it gets through, and that is not known
			}
			back()
			r.settles(t)
			locktest.Acquire(t, r.sem, 5)
			locktest.ReleasePermits(t, r.sem, 5)
			r.has(t, 5)
		})
	}
}

// A request is given up, and the client is closed at once. What the request acquired
// is released nevertheless. Nothing else would ever release it.
func TestCloseGivesBackPermitsInDoubt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for i := range 200 { // Close has to come when the undoing is about to connect
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			p := redistest.NewProxy(t, s.Addr())
			c := locktest.Open(t, p.URL())
			sem := locktest.NewSemaphore(t, c, locktest.Name(t), 5)
			locktest.Acquire(t, sem, 1)
			locktest.ReleasePermits(t, sem, 1)
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
			// A silent server is retried for two seconds.
			if free := s.Do(t, "GET", sem.Name()); free != "5" && took < 2*time.Second {
				t.Errorf("%v permits are free", free)
			}
		})
	}
}

// What the server must remember of failed requests is also bounded by how many are
// under way at a time.
func TestFailedRequestsLeaveFewMarks(t *testing.T) {
	t.Parallel()
	const rounds, most = 200, 50 // undoing goes on beside
	// refused makes a try that fails, and waits until that is being undone. If the
	// machine stood still there, many would be under way at a time.
	refused := func(t *testing.T, r *semRig) {
		t.Helper()
		before := r.Proxy.Count("EVALSHA")
		if err := r.sem.TryAcquire(t.Context(), 1); !errors.Is(err, holdfast.ErrRefused) {
			t.Fatal(err)
		}
		locktest.Eventually(t, 10*time.Second, "undone", func() bool { return r.Proxy.Count("EVALSHA") > before+1 })
	}
	t.Run("given up", func(t *testing.T) {
		t.Parallel()
		r := newSemRig(t, redistest.Start(t))
		for range rounds {
			arrived, letGo := r.Proxy.HoldReply(redistest.Command("EVALSHA"))
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-arrived
				cancel()
			}()
			if err := r.sem.Acquire(ctx, 1); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			letGo()
			locktest.Eventually(t, 5*time.Second, "all permits are free", func() bool { return r.free(t) == 5 })
		}
		if n := marks(t, r.Server); n > most {
			t.Errorf("%d marks of %d rounds, one at a time", n, rounds)
		}
	})
	t.Run("out of memory", func(t *testing.T) {
		t.Parallel()
		r := newSemRig(t, redistest.Start(t))
		r.Server.Do(t, "CONFIG", "SET", "maxmemory", "1")
		for range rounds {
			refused(t, r)
		}
		locktest.AwaitSettled(t, r.Client)
		if n := marks(t, r.Server); n > most {
			t.Errorf("%d marks of %d rounds, one at a time, on a server without memory", n, rounds)
		}
	})
	t.Run("not a semaphore", func(t *testing.T) {
		t.Parallel()
		r := newSemRig(t, redistest.Start(t))
		r.Server.Do(t, "DEL", "rig")
		r.Server.Do(t, "RPUSH", "rig", "x")
		for range rounds {
			refused(t, r)
		}
		locktest.AwaitSettled(t, r.Client)
		if n := marks(t, r.Server); n > most {
			t.Errorf("%d marks of %d rounds, one at a time", n, rounds)
		}
	})
}

// Marks do not grow with the number of objects: a request that was answered
// needs none when the next one comes.
func TestMarksAreReclaimed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL())
	for i := range 100 {
		name := fmt.Sprint("object:", i)
		if _, err := c.Latch(name).TrySet(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Latch(name).CountDown(t.Context()); err != nil {
			t.Fatal(err)
		}
		sem := c.Semaphore("semaphore:" + name)
		if _, err := sem.TrySet(t.Context(), 1, 0); err != nil {
			t.Fatal(err)
		}
		if err := sem.Acquire(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if err := sem.Release(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	marks := 0
	for _, key := range s.Keys(t) {
		if strings.HasPrefix(key, "holdfast:once:") {
			marks++
		}
	}
	if marks > 1 {
		t.Errorf("%d marks of one goroutine are left", marks)
	}
}

// The mark of a request that was sent twice stays: a late copy may still arrive.
func TestMarkOfDoubtStays(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := locktest.Open(t, p.URL())
	count := func(name string) {
		t.Helper()
		s.Do(t, "SET", name, "5")
		if left, err := c.Latch(name).CountDown(t.Context()); left != 4 || err != nil {
			t.Fatal(left, err)
		}
	}
	count("first") // the script is known from now on
	dropped := p.DropReply(1, func(cmd []string) bool { return cmd[0] == "EVALSHA" })
	count("second")
	<-dropped
	count("third")
	count("fourth")
	var marks []string
	for _, key := range s.Keys(t) {
		if strings.HasPrefix(key, "holdfast:once:") {
			marks = append(marks, key[:strings.Index(key, "}")+1])
		}
	}
	if got := fmt.Sprint(marks); !strings.Contains(got, "{second}") || !strings.Contains(got, "{fourth}") || len(marks) != 2 {
		t.Errorf("marks %v, want those of the second, which was sent twice, and of the fourth, which is the last", marks)
	}
}

// The same for a grant whose reply was lost.
func TestMarkOfDoubtfulGrantStays(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := locktest.Open(t, p.URL())
	take := func(name string) {
		t.Helper()
		s.Do(t, "SET", name, "5")
		if err := c.Semaphore(name).Acquire(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if got := s.Int(t, "GET", name); got != 4 {
			t.Errorf("%d permits of %s are free", got, name)
		}
	}
	take("first")
	dropped := p.DropReply(1, func(cmd []string) bool { return cmd[0] == "EVALSHA" })
	take("second")
	<-dropped
	take("third")
	take("fourth")
	if keys := fmt.Sprint(s.Keys(t)); !strings.Contains(keys, "once:{second}") || strings.Contains(keys, "once:{third}") {
		t.Errorf("keys %v, want the mark of the second, which was sent twice, and not that of the third", keys)
	}
}
