package holdfast_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func init() {
	workers["read and write"] = rwWorker
	workers["read together"] = readTogetherWorker
}

// tolerable reports whether an error is one that a bad network explains.
func tolerable(err error) bool {
	for _, target := range []error{holdfast.ErrUnavailable, holdfast.ErrNotAcquired, holdfast.ErrLost, context.Canceled} {
		if errors.Is(err, target) {
			return true
		}
	}
	return err == nil
}

// rwContender reads and writes under a few names until ctx is done, in every
// way there is: with leases that are renewed and leases that run out, releasing
// in time and not at all, and going on to read after it has written.
func rwContender(ctx context.Context, c *holdfast.Client, names []string, rec *redistest.Recorder) error {
	visit := func(l *holdfast.Lease, work time.Duration, shared bool) {
		if iv := stay(l, work); iv.Enter != 0 {
			iv.Shared = shared
			rec.Record(iv)
		}
	}
	for ctx.Err() == nil {
		var first []holdfast.Option
		if rand.IntN(8) == 0 { // not more often: each that is killed keeps readers out for seconds
			first = append(first, holdfast.WriterFirst())
		}
		m := c.RWMutex(names[rand.IntN(len(names))], first...)
		var lease []holdfast.Option
		work := rand.N(3 * time.Millisecond)
		if rand.IntN(4) == 0 {
			lease = append(lease, holdfast.LeaseTime(30*time.Millisecond+rand.N(50*time.Millisecond)))
			if rand.IntN(2) == 0 {
				work = time.Minute // overstay
			}
		}
		if rand.IntN(3) > 0 {
			r, err := m.RLock(ctx, lease...)
			if err == nil {
				visit(r, work, true)
				err = r.Release(ctx)
			}
			if !tolerable(err) {
				return err
			}
			continue
		}
		w, err := m.Lock(ctx, lease...)
		if err != nil {
			if !tolerable(err) {
				return err
			}
			continue
		}
		var r *holdfast.Lease
		if rand.IntN(4) == 0 {
			if r, err = m.RLock(w.Context()); !tolerable(err) {
				return err
			}
		}
		visit(w, work, false)
		if err := w.Release(ctx); !tolerable(err) {
			return err
		}
		if r != nil {
			visit(r, rand.N(3*time.Millisecond), true)
			if err := r.Release(ctx); !tolerable(err) {
				return err
			}
		}
	}
	return nil
}

func rwWorker() {
	c := openAtLast()
	rec := redistest.NewRecorder(os.Stdout)
	parallel(3, func(int) {
		if err := rwContender(context.Background(), c, strings.Split(os.Getenv("TEST_NAMES"), ","), rec); err != nil {
			panic(err)
		}
	})
}

// Eight processes, each on a line of its own, are killed, halted, cut off and
// left without answers. At no moment does anybody read or write while another
// writes.
func TestRWHistories(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	names := name(t) + "," + name(t) + "," + name(t)
	var (
		mu    sync.Mutex
		out   bytes.Buffer
		said  int
		lines sync.WaitGroup
	)
	start := func(p *redistest.Proxy) *redistest.Process {
		w := redistest.Worker(t, "read and write", "TEST_URL="+p.URL(), "TEST_NAMES="+names)
		lines.Go(func() {
			for line := range w.Lines() {
				if !strings.HasSuffix(line, "}") {
					continue // torn by a kill
				}
				mu.Lock()
				fmt.Fprintln(&out, line)
				said++
				mu.Unlock()
			}
		})
		return w
	}
	going := longEnough(8*time.Second, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return said >= 500
	})
	parallel(8, func(int) {
		p := redistest.NewProxy(t, s.Addr())
		w := start(p)
		for going() {
			time.Sleep(300*time.Millisecond + rand.N(700*time.Millisecond))
			outage := 100*time.Millisecond + rand.N(900*time.Millisecond) // on both sides of the lease time
			switch rand.IntN(6) {
			case 0:
				w.Kill()
				w = start(p)
			case 1:
				p.Freeze()
				time.Sleep(outage)
				p.Thaw()
			case 2:
				p.FreezeReplies()
				time.Sleep(outage)
				p.Thaw()
			case 3:
				w.Pause()
				time.Sleep(outage)
				w.Resume()
			default:
				p.Cut()
			}
		}
		w.Kill()
	})
	lines.Wait()
	ivs, err := redistest.ReadIntervals(&out)
	if err != nil {
		t.Fatal(err)
	}
	reads, together := 0, 0
	slices.SortFunc(ivs, func(a, b redistest.Interval) int { return int(a.Enter - b.Enter) })
	for i, iv := range ivs {
		if iv.Shared {
			reads++
			if i > 0 && ivs[i-1].Shared && ivs[i-1].Name == iv.Name && iv.Enter < ivs[i-1].Leave {
				together++
			}
		}
	}
	if writes := len(ivs) - reads; reads < 100 || writes < 50 || together < 20 {
		t.Errorf("only %d reads, %d of them with another one, and %d writes", reads, together, writes)
	}
	if err := redistest.CheckExclusive(ivs); err != nil {
		t.Error(err)
	}
	t.Logf("%d reads, %d of them with another one, %d writes", reads, together, len(ivs)-reads)
}

// unhurried are the settings of waiters that must be told: they would look by
// themselves only when the test is long over.
var unhurried = holdfast.Options{PollInterval: time.Minute}

// Who writes may go on to read and let others read as well. Those who wait are
// told at once.
func TestDowngrade(t *testing.T) {
	t.Parallel()
	url := redistest.Shared(t).URL()
	holder := open(t, url)
	for where, c := range map[string]*holdfast.Client{"same client": holder, "other client": open(t, url, unhurried)} {
		t.Run(where, func(t *testing.T) {
			m := c.RWMutex(name(t))
			w := lock(t, t.Context(), holder.RWMutex(m.Name()))
			r := lock(t, w.Context(), holder.RWMutex(m.Name()).RLocker())
			var waiters []<-chan outcome
			for range 3 {
				waiters = append(waiters, background(t.Context(), m.RLocker()))
			}
			writer := background(t.Context(), m)
			time.Sleep(100 * time.Millisecond) // until all wait, most likely
			wantRefused(t, m.RLocker())
			start := time.Now()
			release(t, w)
			var ls []*holdfast.Lease
			for _, waiter := range waiters {
				ls = append(ls, entered(t, waiter))
			}
			if took := time.Since(start); took > late {
				t.Errorf("readers that waited are in after %v", took)
			}
			wantFree(t, m.RLocker())
			for _, l := range ls {
				release(t, l)
			}
			if !r.Valid() || r.Context().Err() != nil {
				t.Errorf("the read lease has ended with the write lease: %v", context.Cause(r.Context()))
			}
			select {
			case o := <-writer:
				t.Fatalf("a writer beside a reader: %v", o.err)
			default:
			}
			release(t, r)
			release(t, entered(t, writer))
		})
	}
}

// What ends the context of a read lease that was taken while writing.
func TestDowngradeContext(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := open(t, s.URL(), steady)
	boom := errors.New("boom")
	for _, tt := range []struct {
		name  string
		write bool // still held when it ends
		end   func(t *testing.T, m *holdfast.RWMutex, r *holdfast.Lease, cancel context.CancelCauseFunc)
		cause error
	}{
		{"given context", false, func(_ *testing.T, _ *holdfast.RWMutex, _ *holdfast.Lease, cancel context.CancelCauseFunc) {
			cancel(boom)
		}, boom},
		{"given context while writing", true, func(_ *testing.T, _ *holdfast.RWMutex, _ *holdfast.Lease, cancel context.CancelCauseFunc) {
			cancel(boom)
		}, boom},
		{"release", false, func(t *testing.T, _ *holdfast.RWMutex, r *holdfast.Lease, _ context.CancelCauseFunc) { release(t, r) }, holdfast.ErrNotHeld},
		{"release while writing", true, func(t *testing.T, _ *holdfast.RWMutex, r *holdfast.Lease, _ context.CancelCauseFunc) { release(t, r) }, holdfast.ErrNotHeld},
		{"loss", false, func(t *testing.T, m *holdfast.RWMutex, _ *holdfast.Lease, _ context.CancelCauseFunc) {
			s.Do(t, "DEL", m.Name())
		}, holdfast.ErrLost},
		{"loss while writing", true, func(t *testing.T, m *holdfast.RWMutex, r *holdfast.Lease, _ context.CancelCauseFunc) {
			s.Do(t, "HDEL", m.Name(), r.Owner())
		}, holdfast.ErrLost},
		{"loss of the write lease", true, func(t *testing.T, m *holdfast.RWMutex, _ *holdfast.Lease, _ context.CancelCauseFunc) {
			s.Do(t, "DEL", m.Name())
		}, holdfast.ErrLost},
	} {
		for _, asked := range []string{"early", "late"} { // for the context
			t.Run(tt.name+" "+asked, func(t *testing.T) {
				t.Parallel()
				m := c.RWMutex(name(t))
				given, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				w := lock(t, given, m)
				inner := lock(t, w.Context(), m) // the hold, not the lease, is what it depends on
				r := lock(t, inner.Context(), m.RLocker())
				if asked == "early" {
					_ = r.Context()
				}
				if !tt.write {
					release(t, inner)
					release(t, w)
				}
				ctx := r.Context()
				nested := lock(t, ctx, m.RLocker()).Context()
				time.Sleep(20 * time.Millisecond)
				if ctx.Err() != nil || nested.Err() != nil || !r.Valid() || !errors.Is(context.Cause(ctx), nil) {
					t.Fatalf("ended too early: %v", context.Cause(ctx))
				}
				tt.end(t, m, r, cancel)
				select {
				case <-nested.Done():
				case <-time.After(10 * time.Second):
					t.Fatal("the context does not end")
				}
				if cause := context.Cause(ctx); !errors.Is(cause, tt.cause) {
					t.Errorf("cause %v, want %v", cause, tt.cause)
				}
				if given.Err() == nil && errors.Is(tt.cause, boom) {
					t.Error("the given context was not ended")
				}
			})
		}
	}
}

// A tally is a context that counts who waits for its end.
type tally struct {
	context.Context
	mu    sync.Mutex
	funcs map[*func()]struct{}
	done  chan struct{}
}

func newTally(ctx context.Context) *tally {
	return &tally{Context: ctx, funcs: make(map[*func()]struct{}), done: make(chan struct{})}
}

func (c *tally) Done() <-chan struct{} { return c.done }
func (c *tally) Err() error            { return nil }

// AfterFunc is what package context uses instead of a goroutine.
func (c *tally) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.funcs[&f] = struct{}{}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, ok := c.funcs[&f]
		delete(c.funcs, &f)
		return ok
	}
}

func (c *tally) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.funcs)
}

// Nothing is left at a context that outlives all the leases taken with it.
func TestDowngradeDoesNotLeak(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Fresh(t)
	m := open(t, s.URL()).RWMutex(name(t))
	ctx := newTally(t.Context())
	for i := range 300 {
		w := lock(t, ctx, m)
		r := lock(t, w.Context(), m.RLocker())
		inside, first, second := r.Context(), w, r
		if i%3 == 1 {
			first, second = r, w
		}
		release(t, first)
		if i%3 == 0 {
			_ = lock(t, inside, m.RLocker()).Release(t.Context())
		}
		release(t, second)
	}
	eventually(t, 5*time.Second, "nobody waits for the end of the given context", func() bool { return ctx.count() == 0 })
	if keys := s.Keys(t); len(keys) > 0 {
		t.Errorf("keys left: %q", keys)
	}
}

// Who reads cannot write: it would wait for itself.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	url := redistest.Shared(t).URL()
	c, other := open(t, url), open(t, url)
	m := c.RWMutex(name(t))
	r := lock(t, t.Context(), m.RLocker())
	nested := lock(t, r.Context(), c.Mutex(m.Name()+":between"))
	try := func(what string, ctx context.Context, want error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
		defer cancel()
		start := time.Now()
		calls := map[string]func() (*holdfast.Lease, error){
			"TryLock":          func() (*holdfast.Lease, error) { return m.TryLock(ctx) },
			"TryLock and wait": func() (*holdfast.Lease, error) { return m.TryLock(ctx, holdfast.Wait(time.Second)) },
		}
		if errors.Is(want, holdfast.ErrUpgrade) { // or it would wait for ever
			calls["Lock"] = func() (*holdfast.Lease, error) { return m.Lock(ctx) }
			calls["Do"] = func() (*holdfast.Lease, error) {
				return nil, m.Do(ctx, func(context.Context) error { panic("inside") })
			}
			calls["first"] = func() (*holdfast.Lease, error) { return c.RWMutex(m.Name(), holdfast.WriterFirst()).Lock(ctx) }
		}
		for call, take := range calls {
			l, err := take()
			if errors.Is(want, holdfast.ErrNotAcquired) && inVain(err) {
				continue
			}
			if !errors.Is(err, want) {
				t.Errorf("%s, %s: %v, %v, want %v", what, call, l, err, want)
			}
		}
		if took := time.Since(start); errors.Is(want, holdfast.ErrUpgrade) && took > late {
			t.Errorf("%s: refused after %v", what, took)
		}
	}
	try("reader", r.Context(), holdfast.ErrUpgrade)
	try("reader, with a lock in between", nested.Context(), holdfast.ErrUpgrade)
	try("somebody else", holdfast.Detach(r.Context()), holdfast.ErrNotAcquired)
	if _, err := other.RWMutex(m.Name()).TryLock(r.Context()); !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("another client: %v", err)
	}
	if !r.Valid() {
		t.Error("the read lease is not valid")
	}
	release(t, nested)
	release(t, r)
	w := lock(t, context.WithoutCancel(r.Context()), m)
	// Who writes may read and, with that context, enter again to write.
	r = lock(t, w.Context(), m.RLocker())
	release(t, lock(t, r.Context(), m))
	release(t, w)
	try("downgraded", r.Context(), holdfast.ErrUpgrade)
	release(t, r)
	wantFree(t, m)
}

// readTogetherWorker waits to read in many goroutines. It writes "ready" when
// they wait, then when each was let in, and lets go at the next line.
func readTogetherWorker() {
	n, _ := strconv.Atoi(os.Getenv("TEST_READERS"))
	c, err := holdfast.Open(context.Background(), os.Getenv("TEST_URL"), unhurried)
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
	time.Sleep(300 * time.Millisecond) // until all wait, most likely
	fmt.Println("ready")
	bufio.NewScanner(os.Stdin).Scan()
	close(letGo)
	wg.Wait()
	fmt.Println("done")
}

// However many readers wait, in however many processes: all are let in when the
// writer leaves, together.
func TestReadersWakeTogether(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := open(t, s.URL())
	for _, tt := range []struct{ processes, readers int }{{1, 200}, {4, 50}} {
		t.Run(fmt.Sprintf("%dx%d", tt.processes, tt.readers), func(t *testing.T) {
			m := c.RWMutex(name(t))
			l := lock(t, t.Context(), m)
			ws := make([]*redistest.Process, tt.processes)
			for i := range ws {
				ws[i] = redistest.Worker(t, "read together", "TEST_URL="+s.URL(), "TEST_NAME="+m.Name(), fmt.Sprint("TEST_READERS=", tt.readers))
			}
			for _, w := range ws {
				if line := <-w.Lines(); line != "ready" {
					t.Fatalf("somebody did not wait: %s", line)
				}
			}
			freed := redistest.Now()
			release(t, l)
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
			// Two hundred take their time on a slow machine. Who is not told would be
			// in after a minute.
			if took := time.Duration(last - freed); took > 5*late {
				t.Errorf("all were in after %v", took)
			} else {
				t.Logf("all were in after %v", took)
			}
			st, err := m.State(t.Context())
			if err != nil || len(st.Readers) != tt.processes*tt.readers {
				t.Errorf("%d readers, %v, want %d", len(st.Readers), err, tt.processes*tt.readers)
			}
			wantRefused(t, m)
			for _, w := range ws {
				w.Send("leave")
				if line := <-w.Lines(); line != "done" {
					t.Errorf("a worker said %q", line)
				}
			}
			wantFree(t, m)
		})
	}
}

// A reader that was killed keeps a writer out for its own time, and no longer,
// whatever other readers do meanwhile.
func TestDeadReaderFreesWriter(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	stalls := redistest.MeterStalls(t, s)
	const poll = 200 * time.Millisecond
	c := open(t, s.URL(), holdfast.Options{PollInterval: poll, WatchdogTimeout: steady.WatchdogTimeout, RenewEvery: steady.RenewEvery})
	m := c.RWMutex(name(t))
	p := redistest.Worker(t, "holder", "URL="+s.URL(), "NAME="+m.Name(), "KIND=read")
	dead := <-p.Lines()
	alive := lock(t, t.Context(), m.RLocker())
	writer := background(t.Context(), m, ample)
	time.Sleep(mortal.WatchdogTimeout + aWhile)
	p.Kill()
	ends := expiry(t, s, fmt.Sprintf("{%s}:%s:rwlock_timeout:1", m.Name(), dead))
	time.Sleep(400 * time.Millisecond) // in which the living renews itself
	release(t, alive)
	entersAt(t, s, stalls, writer, ends, late+poll)
}

// A nested shorter lease never cuts a longer one, nor does the end of a longer
// one cut what it has brought.
func TestNestedLeaseTimesOfBothSides(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	const brief = 3 * time.Second
	c := open(t, s.URL(), holdfast.Options{WatchdogTimeout: 3 * brief, RenewEvery: steady.RenewEvery})
	other := open(t, s.URL())
	each(t, "RW", func(t *testing.T, k kind) {
		short, long := holdfast.LeaseTime(brief), holdfast.LeaseTime(3*brief)
		renewed := holdfast.OnAcquire(func(*holdfast.Lease) {}) // no lease time
		for _, tt := range []struct {
			name         string
			outer, inner holdfast.Option
		}{
			{"short in long", long, short},
			{"short in renewed", renewed, short},
			{"long in short", short, long},
			{"renewed in short", short, renewed},
		} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				backs := []string{"none", "inner", "outer"}
				parallel(len(backs), func(i int) {
					m := k.make(c, name(t))
					outer := lock(t, t.Context(), m, tt.outer)
					inner := lock(t, context.WithoutCancel(outer.Context()), m, tt.inner)
					left := []*holdfast.Lease{outer, inner}
					switch backs[i] {
					case "inner":
						release(t, inner)
						left = left[:1]
					case "outer":
						release(t, outer)
						left = left[1:]
					}
					time.Sleep(brief + 300*time.Millisecond)
					for _, l := range left {
						if !l.Valid() || l.Context().Err() != nil {
							t.Errorf("given back %s: what is left has ended: %v", backs[i], context.Cause(l.Context()))
						}
					}
					wantRefused(t, k.rival(other, m.Name()))
					for _, l := range left {
						release(t, l)
					}
					wantFree(t, k.rival(other, m.Name()))
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
	c := open(t, s.URL(), steady)
	for _, stays := range []string{"write", "read"} {
		t.Run(stays, func(t *testing.T) {
			t.Parallel()
			m := c.RWMutex(name(t))
			w := lock(t, t.Context(), m)
			r := lock(t, w.Context(), m.RLocker())
			again := lock(t, r.Context(), m.RLocker())
			l, field := w, w.Owner()+":write"
			if stays == "write" {
				release(t, again)
				release(t, r)
			} else {
				release(t, again)
				release(t, w)
				l, field = r, r.Owner()
			}
			ctx := l.Context()
			time.Sleep(2 * steady.WatchdogTimeout)
			if !l.Valid() || ctx.Err() != nil || s.Int(t, "HGET", m.Name(), field) != 1 {
				t.Errorf("not renewed: %v", context.Cause(ctx))
			}
			release(t, l)
			wantFree(t, m)
		})
	}
}

// A reader that is renewed does not cut the long lease of another one.
func TestRenewalLeavesLongReader(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	a, b := open(t, s.URL()), open(t, s.URL(), mortal)
	m := a.RWMutex(name(t))
	long := lock(t, t.Context(), m.RLocker(), holdfast.LeaseTime(time.Hour))
	renewed := lock(t, t.Context(), b.RWMutex(m.Name()).RLocker())
	time.Sleep(mortal.WatchdogTimeout + aWhile)
	if !renewed.Valid() {
		t.Error("the renewed lease is not valid")
	}
	wantTTL(t, s, m.Name(), time.Hour)
	wantTTL(t, s, holdKey(long, 1), time.Hour)
	if ttl := s.Int(t, "PTTL", holdKey(renewed, 1)); ttl > mortal.WatchdogTimeout.Milliseconds() {
		t.Errorf("the renewed lease lasts %d ms, more than its own time", ttl)
	}
	_ = b.Close()
	wantTTL(t, s, m.Name(), time.Hour)
	wantRefused(t, m)
	release(t, long)
	wantFree(t, m)
}
