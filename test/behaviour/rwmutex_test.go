package behaviour_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func init() { workers["read together"] = readTogetherWorker }

// readTogetherWorker waits to read in many goroutines. It prints "ready" when they
// wait, then when each has entered, and releases the locks at the next line.
func readTogetherWorker() {
	n, _ := strconv.Atoi(os.Getenv("TEST_READERS"))
	c, err := holdfast.Open(context.Background(), os.Getenv("TEST_URL"), &locktest.Unpolled)
	if err != nil {
		panic(err)
	}
	m := c.RWMutex(os.Getenv("TEST_NAME"))
	rec := redistest.NewRecorder(os.Stdout)
	var wg sync.WaitGroup
	letGo := make(chan struct{})
	for range n {
		wg.Go(func() {
			l, err := m.RLock(context.Background())
			if err != nil {
				panic(err)
			}
			now := redistest.Now()
			rec.Record(redistest.Interval{Name: l.Name(), Owner: l.Owner(), Enter: now, Leave: now, Shared: true})
			<-letGo
			if err := l.Release(context.Background()); err != nil {
				panic(err)
			}
		})
	}
	if !redistest.Poll(time.Minute, func() bool { return c.Stats().Waiting >= n }) {
		panic("not all wait")
	}
	fmt.Println("ready")
	bufio.NewScanner(os.Stdin).Scan()
	close(letGo)
	wg.Wait()
	fmt.Println("done")
}

// All waiting readers, of all processes, enter together when the writer leaves.
func TestReadersWakeTogether(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Open(t, s.URL())
	for _, tt := range []struct{ processes, readers int }{{1, 200}, {4, 50}} {
		t.Run(fmt.Sprintf("%dx%d", tt.processes, tt.readers), func(t *testing.T) {
			m := c.RWMutex(locktest.Name(t))
			l := locktest.Lock(t, t.Context(), m)
			ws := make([]*redistest.Process, tt.processes)
			for i := range ws {
				ws[i] = redistest.Worker(t, "read together", "TEST_URL="+s.URL(), "TEST_NAME="+m.Name(), fmt.Sprint("TEST_READERS=", tt.readers))
			}
			for _, w := range ws {
				if line := <-w.Lines(); line != "ready" {
					t.Fatalf("a reader did not wait: %s", line)
				}
			}
			freed := redistest.Now()
			locktest.Release(t, l)
			var last int64
			for _, w := range ws {
				for range tt.readers {
					ivs, err := redistest.ReadIntervals(strings.NewReader(<-w.Lines()))
					if err != nil || len(ivs) != 1 {
						t.Fatalf("%v, %v", ivs, err)
					}
					last = max(last, ivs[0].Enter)
				}
			}
			// Two hundred take their time on a slow machine. A reader that is not told
			// would enter after a minute.
			if took := time.Duration(last - freed); took > 5*locktest.Late {
				t.Errorf("all were in after %v", took)
			} else {
				t.Logf("all were in after %v", took)
			}
			st, err := m.State(t.Context())
			// The readers of a process share holds.
			if n := len(st.Readers); err != nil || n < tt.processes || n > tt.processes*tt.readers {
				t.Errorf("%d readers, %v, want %d to %d", n, err, tt.processes, tt.processes*tt.readers)
			}
			locktest.WantRefused(t, m)
			for _, w := range ws {
				w.Send("leave")
				if line := <-w.Lines(); line != "done" {
					t.Errorf("a worker said %q", line)
				}
			}
			locktest.WantFree(t, m)
		})
	}
}

// A nested shorter lease never cuts a longer one, nor does the end of a longer
// one cut what it has brought.
func TestNestedLeaseTimesOfBothSides(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	const brief, lasting = 3 * time.Second, time.Minute // longer than the test, also on a busy machine
	c := locktest.Open(t, s.URL(), holdfast.Options{WatchdogTimeout: lasting, RenewEvery: locktest.Steady.RenewEvery})
	other := locktest.Open(t, s.URL())
	locktest.Each(t, "RW", func(t *testing.T, k locktest.Kind) {
		short, long := holdfast.LeaseTime(brief), holdfast.LeaseTime(lasting)
		renewed := holdfast.OnAcquire(func(*holdfast.Lease) {}) // no lease time
		for _, tt := range []struct {
			name         string
			outer, inner holdfast.LockOption
		}{
			{"short in long", long, short},
			{"short in renewed", renewed, short},
			{"long in short", short, long},
			{"renewed in short", short, renewed},
		} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				backs := []string{"none", "inner", "outer"}
				locktest.Parallel(len(backs), func(i int) {
					m := k.Make(c, locktest.Name(t))
					outer := locktest.Lock(t, t.Context(), m, tt.outer)
					inner := locktest.Lock(t, context.WithoutCancel(outer.Context()), m, tt.inner)
					left := []*holdfast.Lease{outer, inner}
					switch backs[i] {
					case "inner":
						locktest.Release(t, inner)
						left = left[:1]
					case "outer":
						locktest.Release(t, outer)
						left = left[1:]
					}
					locktest.Outlast(t, other, brief)
					for _, l := range left {
						if !l.Valid() || l.Context().Err() != nil {
							t.Errorf("released %s: the remaining lease has ended: %v", backs[i], context.Cause(l.Context()))
						}
					}
					locktest.WantRefused(t, k.Rival(other, m.Name()))
					for _, l := range left {
						locktest.Release(t, l)
					}
					locktest.WantFree(t, k.Rival(other, m.Name()))
				})
			})
		}
	})
}

// Reading for a while does not end the renewal of the write lease around it, nor
// the other way round.
func TestRenewalOfOneSideLeavesTheOther(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Open(t, s.URL(), locktest.Steady)
	for _, stays := range []string{"write", "read"} {
		t.Run(stays, func(t *testing.T) {
			t.Parallel()
			m := c.RWMutex(locktest.Name(t))
			w := locktest.Lock(t, t.Context(), m)
			r := locktest.Lock(t, w.Context(), m.RLocker())
			again := locktest.Lock(t, r.Context(), m.RLocker())
			l, field := w, w.Owner()+":write"
			if stays == "write" {
				locktest.Release(t, again)
				locktest.Release(t, r)
			} else {
				locktest.Release(t, again)
				locktest.Release(t, w)
				l, field = r, r.Owner()
			}
			ctx := l.Context()
			locktest.WantRenewed(t, s, m.Name())
			if !l.Valid() || ctx.Err() != nil || s.Int(t, "HGET", m.Name(), field) != 1 {
				t.Errorf("not renewed: %v", context.Cause(ctx))
			}
			locktest.Release(t, l)
			locktest.WantFree(t, m)
		})
	}
}

// A reader that is renewed does not cut the long lease of another one.
func TestRenewalLeavesLongReader(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	a, b := locktest.Open(t, s.URL()), locktest.Open(t, s.URL(), locktest.Steady)
	m := a.RWMutex(locktest.Name(t))
	long := locktest.Lock(t, t.Context(), m.RLocker(), holdfast.LeaseTime(time.Hour))
	renewed := locktest.Lock(t, t.Context(), b.RWMutex(m.Name()).RLocker())
	locktest.WantRenewed(t, s, locktest.HoldKey(renewed, 1))
	if !renewed.Valid() {
		t.Error("the renewed lease is not valid")
	}
	locktest.WantTTL(t, s, m.Name(), time.Hour)
	locktest.WantTTL(t, s, locktest.HoldKey(long, 1), time.Hour)
	if ttl := s.Int(t, "PTTL", locktest.HoldKey(renewed, 1)); ttl > locktest.Steady.WatchdogTimeout.Milliseconds() {
		t.Errorf("the renewed lease lasts %d ms, more than its own time", ttl)
	}
	_ = b.Close()
	locktest.WantTTL(t, s, m.Name(), time.Hour)
	locktest.WantRefused(t, m)
	locktest.Release(t, long)
	locktest.WantFree(t, m)
}

// A Redisson that renews its read lock sets the TTL of the whole lock to its own,
// and an early version of it also those of all readers. A reader with a fixed lease
// time beside it gets the rest of its time back, and no more, or is told of the
// loss.
func TestReadLeaseCutShort(t *testing.T) {
	t.Parallel()
	s := redistest.One(t)
	c := locktest.Open(t, s.URL(), holdfast.Options{WatchdogTimeout: 6 * time.Second})
	n := locktest.Name(t)
	const whole = 20 * time.Second
	// For the server, the restored time begins when the request arrives, which may be
	// that much later than it was sent.
	const delay = 3 * time.Second
	l := locktest.Lock(t, t.Context(), c.RWMutex(n).RLocker(), holdfast.LeaseTime(whole))
	start := time.Now()
	own := s.Strings(t, "KEYS", "*"+n+"*:rwlock_timeout:*")
	if len(own) != 1 {
		t.Fatalf("the keys of its own are %q", own)
	}
	locktest.AwaitOlder(t, s, own[0], whole, delay-500*time.Millisecond) // or the whole time could be taken for what is left
	for _, key := range []string{n, own[0]} {
		s.Do(t, "PEXPIRE", key, "6000")
		locktest.Eventually(t, 5*time.Second, "the time that was cut short is restored", func() bool { return s.Int(t, "PTTL", key) > 7000 })
		most := (whole - time.Since(start) + delay).Milliseconds()
		if left := s.Int(t, "PTTL", key); left > most {
			t.Errorf("%s lasts for %d ms, want %d: the lease is of fixed time", key, left, most)
		}
	}
	s.Do(t, "DEL", n, own[0])
	select {
	case <-l.Context().Done():
		if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("released: %v, want ErrLost", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the lock is gone, and its reader has not been told")
	}
}

// ForceUnlock reports that it has freed what its own client held.
func TestForceUnlockSaysThatItFreed(t *testing.T) {
	url := redistest.Shared(t).URL()
	locktest.Each(t, "PRW", func(t *testing.T, k locktest.Kind) {
		m := k.Make(locktest.Open(t, url), locktest.Name(t))
		missed := 0
		for range 300 {
			locktest.Lock(t, t.Context(), m)
			freed, err := m.ForceUnlock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !freed {
				missed++
			}
		}
		if missed > 0 {
			t.Errorf("%d of 300 times ForceUnlock reports that the lock was not held", missed)
		}
	})
}

// What a writer reads is left alone by the force on the read side, also in the
// client that uses it.
func TestForceUnlockLeavesReadingWriter(t *testing.T) {
	url := redistest.Shared(t).URL()
	a, b := locktest.Open(t, url), locktest.Open(t, url)
	for by, c := range map[string]*holdfast.Client{"the holder's client": a, "another client": b} {
		t.Run(by, func(t *testing.T) {
			m := a.RWMutex(locktest.Name(t))
			w := locktest.Lock(t, t.Context(), m)
			r := locktest.Lock(t, w.Context(), m.RLocker())
			if freed, err := locktest.Readers(c.RWMutex(m.Name())).ForceUnlock(t.Context()); freed || err != nil {
				t.Errorf("ForceUnlock of a read side that a writer holds: %v, %v", freed, err)
			}
			if !w.Valid() || !r.Valid() || r.Context().Err() != nil {
				t.Errorf("valid: write %v, read %v, %v", w.Valid(), r.Valid(), context.Cause(r.Context()))
			}
			_ = r.Release(t.Context())
			locktest.Release(t, w)
		})
	}
}

// The holder is told at once, whatever it calls its lock.
func TestForceUnlockTellsFencedHolder(t *testing.T) {
	c := locktest.Open(t, redistest.Shared(t).URL())
	n := locktest.Name(t)
	l := locktest.Lock(t, t.Context(), c.FencedMutex(n), holdfast.LeaseTime(time.Minute))
	if freed, err := c.Mutex(n).ForceUnlock(t.Context()); !freed || err != nil {
		t.Fatal(freed, err)
	}
	if l.Valid() {
		t.Error("the fenced lease is valid")
	}
}

// Goroutines that share an owner enter again and leave without disturbing each
// other.
func TestReentryBesideRelease(t *testing.T) {
	url := redistest.Shared(t).URL()
	locktest.Each(t, "PSRW", func(t *testing.T, k locktest.Kind) {
		m := k.Make(locktest.Open(t, url), locktest.Name(t))
		outer := locktest.Lock(t, t.Context(), m)
		var failed atomic.Int64
		var last atomic.Value
		locktest.Parallel(4, func(int) {
			for range 100 {
				inner, err := m.Lock(outer.Context())
				if err != nil {
					failed.Add(1)
					last.Store(err)
					continue
				}
				locktest.Release(t, inner)
			}
		})
		if n := failed.Load(); n > 0 {
			t.Errorf("%d of 400 times: %v", n, last.Load())
		}
		locktest.Release(t, outer)
	})
}

// If the key of the waiting writers has another type, no writer gets the lock.
func TestWritersKeyOfAnotherType(t *testing.T) {
	s := redistest.Shared(t)
	m := locktest.Open(t, s.URL()).RWMutex(locktest.Name(t))
	s.Do(t, "SET", "holdfast:writers:{"+m.Name()+"}", "precious")
	if _, err := m.Lock(t.Context()); !errors.Is(err, holdfast.ErrRefused) {
		t.Errorf("error %v, want ErrRefused", err)
	}
	if s.Int(t, "EXISTS", m.Name()) == 1 {
		t.Error("refused, and held nevertheless")
	}
}

// Readers whose leases have run out are forgotten while others read on.
func TestDeadReadersAreForgotten(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	m := locktest.Open(t, s.URL()).RWMutex(locktest.Name(t))
	stays := locktest.Lock(t, t.Context(), m.RLocker())
	locktest.Parallel(20, func(int) {
		l, err := m.RLock(t.Context(), holdfast.LeaseTime(500*time.Millisecond)) // or it could be over before it is granted
		if err != nil {
			t.Error(err)
			return
		}
		<-l.Context().Done()
	})
	locktest.Eventually(t, 15*time.Second, "only the mode and one reader are left", func() bool {
		return s.Int(t, "HLEN", m.Name()) == 2
	})
	locktest.Release(t, stays)
}

// ForceUnlock frees all holders of one side, in all clients, and no others.
func TestRWForceUnlock(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	a, b := locktest.Open(t, s.URL(), locktest.Steady), locktest.Open(t, s.URL(), locktest.Steady)
	for by, c := range map[string]*holdfast.Client{"a holder's client": a, "another client": locktest.Open(t, s.URL())} {
		t.Run(by, func(t *testing.T) {
			n := locktest.Name(t)
			force := c.RWMutex(n)
			told := func(l *holdfast.Lease) {
				t.Helper()
				select {
				case <-l.Context().Done():
				case <-time.After(10 * time.Second):
					t.Error("a holder was not told")
				}
				if !errors.Is(context.Cause(l.Context()), holdfast.ErrLost) || l.Valid() {
					t.Errorf("cause %v, valid %v", context.Cause(l.Context()), l.Valid())
				}
				if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
					t.Errorf("release: %v", err)
				}
			}
			ls := []*holdfast.Lease{
				locktest.Lock(t, t.Context(), a.RWMutex(n).RLocker()),
				locktest.Lock(t, t.Context(), a.RWMutex(n).RLocker()),
				locktest.Lock(t, t.Context(), b.RWMutex(n).RLocker()),
			}
			writer := locktest.Background(t.Context(), force)
			locktest.AwaitWaiting(t, c, 1)
			if freed, err := locktest.Readers(force).ForceUnlock(t.Context()); !freed || err != nil {
				t.Errorf("read side: %v, %v", freed, err)
			}
			locktest.Release(t, locktest.Entered(t, writer))
			for _, l := range ls {
				told(l)
			}
			if keys := s.Keys(t); len(keys) > 0 {
				t.Errorf("keys left: %q", keys)
			}

			w := locktest.Lock(t, t.Context(), a.RWMutex(n))
			r := locktest.Lock(t, w.Context(), a.RWMutex(n).RLocker())
			reader := locktest.Background(t.Context(), force.RLocker())
			locktest.AwaitWaiting(t, c, 1)
			if freed, err := force.ForceUnlock(t.Context()); !freed || err != nil {
				t.Errorf("write side: %v, %v", freed, err)
			}
			locktest.Release(t, locktest.Entered(t, reader))
			<-w.Context().Done()
			if !r.Valid() {
				t.Error("what the writer read is lost")
			}
			locktest.WantRefused(t, force)
			locktest.Release(t, r)
			told(w)
			if keys := s.Keys(t); len(keys) > 0 {
				t.Errorf("keys left: %q", keys)
			}
		})
	}
}

// The keys of readers must be gone with them, also where they have names of the
// kind that Redisson uses.
func TestReadersLeaveNoKeys(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	alone := holdfast.Options{Handoffs: -1} // or readers share holds
	cs := []*holdfast.Client{locktest.Open(t, s.URL(), alone), locktest.Open(t, s.URL(), alone)}
	var ls []*holdfast.Lease
	for i := range 40 {
		l := locktest.Lock(t, t.Context(), cs[i%2].RWMutex("many").RLocker())
		ls = append(ls, l, locktest.Lock(t, context.WithoutCancel(l.Context()), cs[i%2].RWMutex("many").RLocker()))
	}
	if keys := s.Keys(t); len(keys) != 81 {
		t.Errorf("%d keys, want that of the lock and one for every hold", len(keys))
	}
	for i := range ls {
		locktest.Release(t, ls[(i*37)%len(ls)])
	}
	for _, key := range s.Keys(t) {
		t.Errorf("left: %s", key)
		if strings.Contains(key, "rwlock_timeout") {
			t.Error("of a reader")
		}
	}
}
