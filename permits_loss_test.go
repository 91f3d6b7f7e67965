package holdfast_test

import (
	"bytes"
	"cmp"
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

// visit is stay for a lease on permits: an interval for each of them.
func visit(rec *redistest.Recorder, l *holdfast.Lease, work time.Duration) {
	iv := stay(l, work)
	if iv.Enter == 0 {
		return
	}
	for _, id := range l.Permits() {
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

// checkPermits checks that never more permits than that were held at the same
// time, according to those who held them, but as many once; and that there were
// enough of them for the check to mean anything.
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

// A holder that is cut off must know that it has lost its permits before anybody
// else can have them, whoever finds out that they are over. Rivals ask without a
// pause; the moments at which the holder's context ended and the first of them
// got in are compared.
func TestPermitsToldBeforeAnybodyElse(t *testing.T) {
	for fault, sever := range map[string]func(*permitRig){
		"link frozen":    func(r *permitRig) { r.p.Freeze() },
		"replies frozen": func(r *permitRig) { r.p.FreezeReplies() }, // renewals arrive, and nobody hears of it
		"link refused":   func(r *permitRig) { r.p.Refuse(true); r.p.Cut() },
		"server stopped": func(r *permitRig) {
			r.s.Pause()
			time.AfterFunc(steady.WatchdogTimeout+aWhile, r.s.Resume)
		},
	} {
		fixed := []holdfast.Option{holdfast.LeaseTime(steady.WatchdogTimeout)}
		t.Run(fault+"/renewed, three", func(t *testing.T) { t.Parallel(); toldBefore(t, sever, nil, 3) })
		t.Run(fault+"/fixed, one", func(t *testing.T) { t.Parallel(); toldBefore(t, sever, fixed, 1) })
		t.Run(fault+"/fixed, three", func(t *testing.T) { t.Parallel(); toldBefore(t, sever, fixed, 3) })
	}
}

func toldBefore(t *testing.T, sever func(*permitRig), opts []holdfast.Option, permits int) {
	o := steady
	o.PollInterval = 300 * time.Millisecond
	r := newPermitRig(t, o)
	redistest.MeterStalls(t).Rounds(t, observable, func() error { return toldBeforeRound(t, r, sever, opts, permits) })
}

func toldBeforeRound(t *testing.T, r *permitRig, sever func(*permitRig), opts []holdfast.Option, permits int) error {
	t.Helper()
	if err := r.sem.Set(t.Context(), permits); err != nil {
		t.Fatal(err)
	}
	l := obtain(t, r.sem, permits, opts...)
	ctx := l.Context()
	told := make(chan int64, 1)
	context.AfterFunc(ctx, func() { told <- redistest.Now() })
	if len(opts) == 0 {
		time.Sleep(time.Second) // renewed at least once
		if !l.Valid() {
			t.Fatal("lost before anything happened")
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
	r.p.Refuse(false)
	r.p.Thaw()
	if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("release after a loss: %v", err)
	}
	// Neither the late release nor the undoing of the lost lease may touch the
	// rival, or bring back more than there were.
	time.Sleep(time.Second)
	if !got.Valid() {
		t.Error("the rival lost its permit")
	}
	release(t, got)
	eventually(t, 10*time.Second, "all are back", func() bool {
		st, err := r.far.State(t.Context())
		return err == nil && st == holdfast.PermitState{Available: permits}
	})
	release(t, obtain(t, r.far, permits, holdfast.LeaseTime(time.Minute))) // and what is over is reaped
	r.has(t, int64(permits), 0)
	return verdict
}

// firstRival lets two goroutines ask for a permit without a pause, past the
// proxy, and returns what the first of them got, and when. The other gets none.
func firstRival(t *testing.T, r *permitRig) (*holdfast.Lease, int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var (
		mu  sync.Mutex
		got *holdfast.Lease
		in  int64
	)
	parallel(2, func(int) {
		for ctx.Err() == nil {
			l, err := r.far.TryAcquire(ctx, 1, holdfast.LeaseTime(time.Minute))
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
		t.Fatal("nobody got in")
	}
	return got, in
}

// Leases of all lengths run out, are extended and given back, on a line that
// freezes and breaks, while others wait for the very moment at which one ends.
func TestPermitsExclusionInOneProcess(t *testing.T) {
	t.Parallel()
	const permits, enough = 3, 100
	r := newPermitRig(t, quick)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := new(safeBuffer)
	rec := redistest.NewRecorder(out)
	var wg sync.WaitGroup
	for _, sem := range []*holdfast.LeasedSemaphore{r.sem, r.sem, open(t, r.p.URL(), quick).LeasedSemaphore("rig"), r.far} {
		for range 4 {
			wg.Go(func() {
				for ctx.Err() == nil {
					if err := leasedRound(ctx, sem, rec); !tolerable(err) {
						t.Error(err)
					}
				}
			})
		}
	}
	few := func() bool { return strings.Count(out.String(), "\n") < enough } // as yet, on a busy machine
	for i, start := 0, time.Now(); time.Since(start) < 5*time.Second || few() && time.Since(start) < time.Minute; i++ {
		time.Sleep(100 * time.Millisecond)
		switch i % 4 {
		case 0, 2:
			r.p.Cut()
		case 1:
			r.p.Freeze()
			time.Sleep(rand.N(300 * time.Millisecond))
			r.p.Thaw()
		case 3:
			r.p.FreezeReplies()
			time.Sleep(rand.N(300 * time.Millisecond))
			r.p.Thaw()
		}
	}
	cancel()
	wg.Wait()
	checkPermits(t, bytes.NewBufferString(out.String()), permits, enough)
	r.settled(t)
}

// settled checks that all permits come back, and no more than there were.
func (r *permitRig) settled(t *testing.T) {
	t.Helper()
	eventually(t, 10*time.Second, "all are free", func() bool {
		st, err := r.far.State(t.Context())
		return err == nil && st == holdfast.PermitState{Available: 3}
	})
	release(t, obtain(t, r.far, 3, holdfast.LeaseTime(time.Minute))) // reaps what is over
	// A request that its caller gave up may come only now, and is undone then.
	r.back(t)
}

// leasedRound takes some permits, in one of all the ways there are, stays for a
// moment, and mostly gives them back.
func leasedRound(ctx context.Context, sem *holdfast.LeasedSemaphore, rec *redistest.Recorder) error {
	var opts []holdfast.Option
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

// mortal are the settings of holders that are stopped or killed, but keep what
// they have until then.
var mortal = steady

// leasedHolder holds permits and says, again and again, whether it may rely on
// them.
func leasedHolder() {
	c, err := holdfast.Open(context.Background(), os.Getenv("TEST_URL"), mortal)
	if err != nil {
		panic(err)
	}
	var opts []holdfast.Option
	if os.Getenv("TEST_FIXED") != "" {
		opts = append(opts, holdfast.LeaseTime(mortal.WatchdogTimeout))
	}
	n, err := strconv.Atoi(os.Getenv("TEST_PERMITS"))
	if err != nil {
		panic(err)
	}
	l, err := c.LeasedSemaphore(os.Getenv("TEST_NAME")).Acquire(context.Background(), n, opts...)
	if err != nil {
		panic(err)
	}
	ctx := l.Context()
	for {
		now := redistest.Now() // before the question, lest a stop between the two count
		valid := l.Valid()
		fmt.Println(now, valid)
		if !valid {
			<-ctx.Done() // must come on its own
			fmt.Println(redistest.Now(), "cause:", context.Cause(ctx))
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// A process that was stopped for longer than its lease must see, at its first
// look after it was resumed, that its permits are gone; those of one that was
// killed come back within the lease time.
func TestPermitsStoppedProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL())
	for _, fixed := range []string{"", "yes"} {
		for _, permits := range []int{1, 2} {
			sem := permitsOf(t, c, permits)
			w := redistest.Worker(t, "leased holder", "TEST_URL="+s.URL(), "TEST_NAME="+sem.Name(), "TEST_FIXED="+fixed, fmt.Sprint("TEST_PERMITS=", permits))
			for range 20 {
				<-w.Lines()
			}
			w.Pause()
			l := obtain(t, sem, 1) // when the lease has run out
			in := redistest.Now()
			w.Resume()
			sawEnd := false
			for line := range w.Lines() {
				f := strings.Fields(line)
				at, err := strconv.ParseInt(f[0], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				if f[1] == "true" && at > in {
					t.Errorf("holder was sure of its permits %v after another had one", time.Duration(at-in))
				}
				sawEnd = sawEnd || f[1] == "cause:" && strings.Contains(line, "lost")
			}
			if !sawEnd {
				t.Error("the context of the stopped holder did not end with a loss")
			}
			release(t, l)
			wantPermits(t, sem, permits, 0)
		}
	}
}
