package faults_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// visit is stay for a lease on permits: an interval for each of them.
func visit(rec *redistest.Recorder, l *holdfast.Lease, work time.Duration) {
	iv := locktest.Stay(l, work)
	if iv.Enter == 0 {
		return
	}
	for _, id := range l.PermitIDs() {
		iv.Owner = id
		rec.Record(iv)
	}
}

// most returns how many intervals there were at the same time at most. One that
// begins when another ends does not overlap with it.
func most(ivs []redistest.Interval) (n int, at int64) {
	type edge struct {
		at    int64
		delta int
	}
	var edges []edge
	for _, iv := range ivs {
		edges = append(edges, edge{iv.Enter, 1}, edge{iv.Leave, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.delta, b.delta)) })
	now := 0
	for _, e := range edges {
		if now += e.delta; now > n {
			n, at = now, e.at
		}
	}
	return n, at
}

// checkPermits checks the recorded intervals: never more than that many permits were
// held at the same time, but as many at least once. There must be enough intervals
// for the check to mean anything.
func checkPermits(t *testing.T, out *bytes.Buffer, permits, atLeast int) {
	t.Helper()
	text := out.String()
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = text[:i+1] // the last line of a killed process may be torn
	}
	ivs, err := redistest.ReadIntervals(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(ivs) < atLeast {
		t.Errorf("only %d permits were taken, want %d", len(ivs), atLeast)
	}
	n, at := most(ivs)
	if n != permits {
		t.Errorf("%d permits were held at the same time, want %d", n, permits)
	}
	if n > permits {
		for _, iv := range ivs {
			if iv.Enter <= at && at <= iv.Leave {
				t.Logf("at %d: %s from %d to %d", at, iv.Owner, iv.Enter, iv.Leave)
			}
		}
	}
	t.Logf("%d permits taken", len(ivs))
}

func TestMost(t *testing.T) {
	iv := func(enter, leave int64) redistest.Interval { return redistest.Interval{Enter: enter, Leave: leave} }
	for _, test := range []struct {
		ivs  []redistest.Interval
		want int
	}{
		{nil, 0},
		{[]redistest.Interval{iv(1, 2), iv(2, 3), iv(3, 4)}, 1},
		{[]redistest.Interval{iv(1, 10), iv(2, 3), iv(3, 4)}, 2},
		{[]redistest.Interval{iv(5, 7), iv(1, 6), iv(4, 6)}, 3},
	} {
		if n, _ := most(test.ivs); n != test.want {
			t.Errorf("%v: %d, want %d", test.ivs, n, test.want)
		}
	}
}

// A holder that is cut off must know that it has lost its permits before another
// owner can get them, whichever client finds that they have expired. Rivals ask
// without a pause. The test compares when the holder's context ended with when the
// first rival entered.
func TestPermitsToldBeforeAnybodyElse(t *testing.T) {
	for fault, sever := range map[string]func(*locktest.LeasedRig){
		"link frozen":    func(r *locktest.LeasedRig) { r.Proxy.Freeze() },
		"replies frozen": func(r *locktest.LeasedRig) { r.Proxy.FreezeReplies() }, // renewals arrive, but their replies do not
		"link refused":   func(r *locktest.LeasedRig) { r.Disconnect() },
		"server stopped": func(r *locktest.LeasedRig) {
			redistest.Outage(locktest.Steady.WatchdogTimeout+locktest.AWhile, r.Server.Pause, r.Server.Resume)
		},
	} {
		fixed := []holdfast.LockOption{holdfast.LeaseTime(locktest.Steady.WatchdogTimeout)}
		t.Run(fault+"/renewed, three", func(t *testing.T) { t.Parallel(); toldBefore(t, sever, nil, 3) })
		t.Run(fault+"/fixed, one", func(t *testing.T) { t.Parallel(); toldBefore(t, sever, fixed, 1) })
		t.Run(fault+"/fixed, three", func(t *testing.T) { t.Parallel(); toldBefore(t, sever, fixed, 3) })
	}
}

func toldBefore(t *testing.T, sever func(*locktest.LeasedRig), opts []holdfast.LockOption, permits int) {
	o := locktest.Steady
	o.PollInterval = 300 * time.Millisecond
	r := locktest.NewLeasedRig(t, o)
	redistest.MeterStalls(t).Rounds(t, observable, func() error { return toldBeforeRound(t, r, sever, opts, permits) })
}

func toldBeforeRound(t *testing.T, r *locktest.LeasedRig, sever func(*locktest.LeasedRig), opts []holdfast.LockOption, permits int) error {
	t.Helper()
	if err := r.Sem.Set(t.Context(), permits); err != nil {
		t.Fatal(err)
	}
	l := locktest.Obtain(t, r.Sem, permits, opts...)
	ctx := l.Context()
	told := make(chan int64, 1)
	context.AfterFunc(ctx, func() { told <- redistest.Now() })
	if len(opts) == 0 {
		renewedOnce(t, r.Client, l)
		if !l.Valid() {
			return errors.New("lost before anything happened")
		}
	}
	sever(r)
	got, in := firstRival(t, r)
	if l.Valid() {
		t.Error("both are valid")
	}
	verdict := toldBeforeRival(t, told, in)
	var lost *holdfast.LostError
	if cause := context.Cause(ctx); !errors.As(cause, &lost) || lost.Reason != holdfast.LossExpired {
		t.Errorf("cause %v", cause)
	}
	if got.Token() <= l.Token() {
		t.Errorf("token %d after %d", got.Token(), l.Token())
	}
	r.Proxy.Refuse(false)
	r.Proxy.Thaw()
	if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("release after a loss: %v", err)
	}
	// Neither the late release nor the undoing of the lost lease may touch the
	// rival, or bring back more than there were.
	locktest.AwaitSettled(t, r.Client)
	heardOut(t, r.Server)
	if !got.Valid() || locktest.PermitExpiry(t, r.Server, r.Sem, got.PermitIDs()[0]) == 0 {
		t.Error("the rival lost its permit")
	}
	_ = got.Release(t.Context()) // at once, or in the background if the machine stands still
	locktest.Eventually(t, 10*time.Second, "all are back", func() bool {
		st, err := r.Far.State(t.Context())
		return err == nil && st == holdfast.PermitState{Available: permits}
	})
	locktest.Release(t, locktest.Obtain(t, r.Far, permits, holdfast.LeaseTime(time.Minute))) // and what is over is reaped
	r.Has(t, int64(permits), 0)
	return verdict
}

// firstRival lets two goroutines ask for a permit without a pause, past the
// proxy, and returns what the first of them got, and when. The other gets none.
func firstRival(t *testing.T, r *locktest.LeasedRig) (*holdfast.Lease, int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var (
		mu  sync.Mutex
		got *holdfast.Lease
		in  int64
	)
	locktest.Parallel(2, func(int) {
		for ctx.Err() == nil {
			l, err := r.Far.TryAcquire(ctx, 1, holdfast.LeaseTime(time.Minute))
			now := redistest.Now()
			if err != nil {
				continue
			}
			mu.Lock()
			first := got == nil
			if first {
				got, in = l, now
				cancel()
			} else {
				in = min(in, now)
			}
			mu.Unlock()
			if !first {
				_ = l.Release(context.Background())
			}
		}
	})
	if got == nil {
		t.Fatal("no rival entered")
	}
	return got, in
}

// Leases of all lengths expire, are extended and released, on a connection that
// freezes and breaks, while others wait for the moment at which one ends.
func TestPermitsExclusionInOneProcess(t *testing.T) {
	t.Parallel()
	const permits, enough = 3, 100
	r := locktest.NewLeasedRig(t, locktest.Quick)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := new(locktest.Buffer)
	rec := redistest.NewRecorder(out)
	var wg sync.WaitGroup
	for _, sem := range []*holdfast.LeasedSemaphore{r.Sem, r.Sem, locktest.Open(t, r.Proxy.URL(), locktest.Quick).LeasedSemaphore("rig"), r.Far} {
		for range 4 {
			wg.Go(func() {
				for ctx.Err() == nil {
					if err := leasedRound(ctx, sem, rec); !locktest.Tolerable(err) {
						t.Error(err)
					}
				}
			})
		}
	}
	few := func() bool { return strings.Count(out.String(), "\n") < enough } // as yet, on a busy machine
	start := time.Now()
	going := func() bool {
		return time.Since(start) < 5*time.Second || few() && time.Since(start) < time.Minute
	}
	locktest.Repeat(100*time.Millisecond, 100*time.Millisecond, going, func(i int) {
		switch i % 4 {
		case 0, 2:
			r.Proxy.Cut()
		case 1:
			<-redistest.Outage(rand.N(300*time.Millisecond), r.Proxy.Freeze, r.Proxy.Thaw)
		case 3:
			<-redistest.Outage(rand.N(300*time.Millisecond), r.Proxy.FreezeReplies, r.Proxy.Thaw)
		}
	})
	cancel()
	wg.Wait()
	checkPermits(t, bytes.NewBufferString(out.String()), permits, enough)
	r.Settled(t)
}

// leasedRound acquires some permits in one of all possible ways, stays for a moment,
// and mostly releases them.
func leasedRound(ctx context.Context, sem *holdfast.LeasedSemaphore, rec *redistest.Recorder) error {
	var opts []holdfast.LockOption
	work, overstay := rand.N(3*time.Millisecond), false
	if rand.IntN(4) == 0 {
		opts = append(opts, holdfast.LeaseTime(30*time.Millisecond+rand.N(100*time.Millisecond)))
		overstay = rand.IntN(2) == 0
	}
	l, err := sem.Acquire(ctx, 1+rand.IntN(6)/4+rand.IntN(6)/5, opts...)
	if err != nil {
		return err
	}
	if rand.IntN(8) == 0 {
		_ = l.Extend(ctx, 100*time.Millisecond+rand.N(200*time.Millisecond))
	}
	if overstay {
		visit(rec, l, time.Minute) // until it is over
		if rand.IntN(2) == 0 {
			return nil // and is never released
		}
	} else {
		visit(rec, l, work)
	}
	return l.Release(ctx)
}

func init() { workers["leased holder"] = leasedHolder }

// leasedHolder holds permits and says whether it may rely on them.
func leasedHolder() {
	c, err := holdfast.Open(context.Background(), os.Getenv("TEST_URL"), &locktest.Steady)
	if err != nil {
		panic(err)
	}
	var opts []holdfast.LockOption
	if os.Getenv("TEST_FIXED") != "" {
		opts = append(opts, holdfast.LeaseTime(locktest.Steady.WatchdogTimeout))
	}
	n, err := strconv.Atoi(os.Getenv("TEST_PERMITS"))
	if err != nil {
		panic(err)
	}
	l, err := c.LeasedSemaphore(os.Getenv("TEST_NAME")).Acquire(context.Background(), n, opts...)
	if err != nil {
		panic(err)
	}
	saySure(l)
}

// A process that was stopped for longer than its lease must see, at its first
// look after it was resumed, that its permits are gone; those of one that was
// killed come back within the lease time.
func TestPermitsStoppedProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL())
	for _, fixed := range []string{"", "yes"} {
		for _, permits := range []int{1, 2} {
			t.Run(fmt.Sprint(permits, fixed), func(t *testing.T) {
				t.Parallel()
				permitsStoppedProcess(t, s, c, permits, fixed)
			})
		}
	}
}

func permitsStoppedProcess(t *testing.T, s *redistest.Server, c *holdfast.Client, permits int, fixed string) {
	t.Helper()
	sem := locktest.NewLeasedSemaphore(t, c, permits)
	var w *redistest.Process
	for holds := false; !holds; { // a lease may end while the machine stands still
		w = redistest.Worker(t, "leased holder", "TEST_URL="+s.URL(), "TEST_NAME="+sem.Name(), "TEST_FIXED="+fixed, fmt.Sprint("TEST_PERMITS=", permits))
		for range 20 {
			holds = strings.HasSuffix(<-w.Lines(), "true")
		}
	}
	w.Pause()
	l := locktest.Obtain(t, sem, 1) // when the lease has run out
	in := redistest.Now()
	w.Resume()
	wantSureUntil(t, w, in, math.MaxInt64) // permits have no order
	locktest.Release(t, l)
	locktest.WantPermits(t, sem, permits, 0)
}

func init() { workers["leased worker"] = leasedWorker }

// leasedWorker acquires and releases permits in four goroutines, and records the
// intervals.
func leasedWorker() {
	sem := openAtLast().LeasedSemaphore("rig")
	rec := redistest.NewRecorder(os.Stdout)
	locktest.Parallel(4, func(int) {
		for {
			if err := leasedRound(context.Background(), sem, rec); !locktest.Tolerable(err) {
				panic(err)
			}
		}
	})
}

// Processes that share three permits are killed, and frozen for longer than their
// leases last. By the clocks of the holders, never more than three permits are held.
// In the end there are exactly three permits.
func TestPermitsAcrossProcesses(t *testing.T) {
	t.Parallel()
	r := locktest.NewLeasedRig(t, locktest.Quick)
	var (
		mu  sync.Mutex
		out bytes.Buffer
		wg  sync.WaitGroup
	)
	start := func() *redistest.Process {
		w := redistest.Worker(t, "leased worker", "TEST_URL="+r.Server.URL())
		wg.Go(func() {
			for line := range w.Lines() {
				mu.Lock()
				fmt.Fprintln(&out, line)
				mu.Unlock()
			}
		})
		return w
	}
	taken := func() int {
		mu.Lock()
		defer mu.Unlock()
		return bytes.Count(out.Bytes(), []byte("\n"))
	}
	const enough = 200
	ws := []*redistest.Process{start(), start(), start(), start()}
	// All take part before anything happens to one.
	locktest.Eventually(t, time.Minute, "permits are taken", func() bool { return taken() > 50 })
	begin := time.Now()
	going := func() bool { // for longer on a busy machine, where few are taken
		return time.Since(begin) < 10*time.Second || taken() < enough && time.Since(begin) < time.Minute
	}
	locktest.Repeat(100*time.Millisecond, 400*time.Millisecond, going, func(int) {
		i := rand.IntN(len(ws))
		if rand.IntN(2) == 0 {
			ws[i].Kill()
			ws[i] = start()
			return
		}
		<-redistest.Outage(rand.N(2*locktest.Quick.WatchdogTimeout), ws[i].Pause, ws[i].Resume)
	})
	for _, w := range ws {
		w.Kill()
	}
	wg.Wait()
	checkPermits(t, &out, 3, enough)
	r.Settled(t)
}

// The permits of a killed process become free within the lease time, and a waiter
// gets them then.
func TestPermitsKilledProcess(t *testing.T) {
	t.Parallel()
	r := locktest.NewLeasedRig(t, locktest.Unpolled)
	w := redistest.Worker(t, "leased holder", "TEST_URL="+r.Server.URL(), "TEST_NAME=rig", "TEST_FIXED=", "TEST_PERMITS=3")
	<-w.Lines()
	go func() {
		for range w.Lines() {
		}
	}()
	for range 2 { // it is renewed
		before := r.LastExpiry(t)
		locktest.Eventually(t, 20*time.Second, "the permits are renewed", func() bool { return r.LastExpiry(t) > before })
	}
	r.Has(t, 0, 3)
	const lease = time.Minute
	waiter := locktest.Background(t.Context(), r.Sem.Locker(2), holdfast.LeaseTime(lease))
	r.Awake(t)
	w.Kill()
	last := r.LastExpiry(t)
	if left := last - locktest.ServerTime(t, r.Server); left > locktest.Steady.WatchdogTimeout.Milliseconds() {
		t.Errorf("the permits outlive the process by %d ms", left)
	}
	got := locktest.EnteredAfter(t, locktest.Steady.WatchdogTimeout, waiter)
	if after := locktest.PermitExpiry(t, r.Server, r.Sem, got.PermitIDs()[0]) - lease.Milliseconds() - last; after < 0 || after > locktest.Late.Milliseconds() {
		t.Errorf("entered %d ms after the leases ended", after)
	}
	locktest.Release(t, got)
	r.Has(t, 3, 0)
}
