// Package redlock_test checks Redlock, with servers that fail.
package redlock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { locktest.Main(m, map[string]func(){"contend": contendWorker}) }

const lease = 4 * time.Second // the longest here, and so how long a young server does not vote

// On a machine that stands still for a moment each server needs more time than
// the default.
const nodeTimeout = lease / 2

// soon is how long a call may take that does not depend on a silent server. Clients
// wait for replies for much longer.
const soon, silence = 10 * time.Second, "?timeout=20s"

var quick = holdfast.Options{WatchdogTimeout: lease, RenewEvery: lease / 16, RetryTimeout: 10 * time.Second, Anonymous: true}

func open(tb testing.TB, url string) *holdfast.Client {
	tb.Helper()
	c, err := holdfast.Open(context.Background(), url+silence, &quick)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// start returns servers that are old enough to vote.
func start(tb testing.TB, n int) []*redistest.Server {
	tb.Helper()
	servers := make([]*redistest.Server, n)
	for i := range servers {
		servers[i] = redistest.Start(tb)
	}
	for _, s := range servers {
		grown(tb, s)
	}
	return servers
}

func grown(tb testing.TB, s *redistest.Server) {
	tb.Helper()
	locktest.AwaitVoter(tb, s, lease)
}

func urls(servers []*redistest.Server) []string {
	var us []string
	for _, s := range servers {
		us = append(us, s.URL())
	}
	return us
}

// over returns a redlock with clients of its own.
func over(tb testing.TB, urls []string, o ...holdfast.RedlockOptions) *holdfast.Redlock {
	tb.Helper()
	var clients []*holdfast.Client
	for _, url := range urls {
		clients = append(clients, open(tb, url))
	}
	return of(tb, clients, o...)
}

func of(tb testing.TB, clients []*holdfast.Client, o ...holdfast.RedlockOptions) *holdfast.Redlock {
	tb.Helper()
	r, err := holdfast.NewRedlock(clients, append(o, holdfast.RedlockOptions{NodeTimeout: nodeTimeout})[0])
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func try(tb testing.TB, m holdfast.Locker, opts ...holdfast.LockOption) *holdfast.Lease {
	tb.Helper()
	l, err := m.TryLock(context.Background(), opts...)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// voted returns a lease with the votes of n servers.
func voted(tb testing.TB, m holdfast.Locker, n int, opts ...holdfast.LockOption) *holdfast.Lease {
	tb.Helper()
	for {
		l := try(tb, m, opts...)
		if len(l.Parts()) == n {
			return l
		}
		locktest.Release(tb, l) // one was slow, or all of them
	}
}

func wantBusy(tb testing.TB, m holdfast.Locker) {
	tb.Helper()
	if _, err := m.TryLock(context.Background()); !errors.Is(err, holdfast.ErrNotAcquired) || errors.Is(err, holdfast.ErrUnavailable) {
		tb.Errorf("TryLock of a held lock: %v", err)
	}
}

// empty waits until no server has a key.
func empty(tb testing.TB, servers []*redistest.Server) {
	tb.Helper()
	var keys []string
	none := redistest.Poll(lease+5*time.Second, func() bool {
		keys = nil
		for _, s := range servers {
			keys = append(keys, s.Keys(tb)...)
		}
		return len(keys) == 0
	})
	if !none {
		tb.Fatalf("left behind: %v", keys)
	}
}

func TestMutex(t *testing.T) { // not parallel, or it would see the goroutines of others
	redistest.CheckGoroutines(t)
	servers := start(t, 3)
	a, b := over(t, urls(servers)).Mutex("m"), over(t, urls(servers)).Mutex("m")
	l := voted(t, a, 3)
	if !l.Valid() || l.Name() != "m" || l.Token() != 0 || len(l.Parts()) != 3 || time.Until(l.Deadline()) > lease {
		t.Errorf("lease %v %v %v %v %v", l.Valid(), l.Name(), l.Token(), len(l.Parts()), time.Until(l.Deadline()))
	}
	wantBusy(t, b)
	// It is entered again with its context, and only with that.
	wantBusy(t, a)
	again := try(t, within{a, l.Context()})
	if _, err := a.TryLock(l.Context(), holdfast.NonReentrant()); !errors.Is(err, holdfast.ErrReentrant) {
		t.Errorf("non-reentrant: %v", err)
	}
	if err := again.Extend(t.Context(), lease); err != nil {
		t.Error(err)
	}
	locktest.Release(t, again)
	wantBusy(t, b)
	// It is renewed.
	for _, s := range servers {
		locktest.WantRenewed(t, s, "m")
	}
	if !l.Valid() || l.Context().Err() != nil {
		t.Error("lost although nothing has happened")
	}
	// A waiter is woken.
	got := make(chan *holdfast.Lease)
	go func() {
		l, err := b.Lock(context.Background())
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	for _, s := range servers {
		locktest.AwaitListener(t, s, "redisson_lock__channel:{m}")
	}
	locktest.Release(t, l)
	began := time.Now()
	l = <-got
	if late := locktest.Took(began); late > soon {
		t.Errorf("got in %v after the release", late)
	}
	locktest.Release(t, l)
	// A fixed lease ends by itself.
	l = try(t, a, holdfast.LeaseTime(lease/2))
	<-l.Context().Done()
	if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("release after the end: %v", err)
	}
	n, err := holdfast.DoValue(t.Context(), b, func(ctx context.Context) (int, error) { return len(holdfast.LeaseOf(ctx).Parts()), nil })
	if err != nil || n < 2 {
		t.Errorf("%d, %v", n, err)
	}
	empty(t, servers)
}

// within is a lock that is always called with one context.
type within struct {
	holdfast.Locker
	ctx context.Context
}

func (w within) TryLock(_ context.Context, opts ...holdfast.LockOption) (*holdfast.Lease, error) {
	return w.Locker.TryLock(w.ctx, opts...)
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	a, b, c := open(t, s.URL()), open(t, s.URL()), open(t, s.URL())
	for what, try := range map[string]func() error{
		"two": func() error {
			_, err := holdfast.NewRedlock([]*holdfast.Client{a, b}, holdfast.RedlockOptions{})
			return err
		},
		"none": func() error { _, err := holdfast.NewRedlock(nil, holdfast.RedlockOptions{}); return err },
		"nil": func() error {
			_, err := holdfast.NewRedlock([]*holdfast.Client{a, b, nil}, holdfast.RedlockOptions{})
			return err
		},
		"twice": func() error {
			_, err := holdfast.NewRedlock([]*holdfast.Client{a, b, a}, holdfast.RedlockOptions{})
			return err
		},
		"no majority": func() error {
			_, err := holdfast.NewRedlock([]*holdfast.Client{a, b}, holdfast.RedlockOptions{Servers: 5})
			return err
		},
		"too slow": func() error {
			_, err := holdfast.NewRedlock([]*holdfast.Client{a, b, c}, holdfast.RedlockOptions{NodeTimeout: time.Minute})
			return err
		},
		"longest": func() error {
			_, err := holdfast.NewRedlock([]*holdfast.Client{a, b, c}, holdfast.RedlockOptions{LongestLease: time.Second})
			return err
		},
		"name": func() error {
			_, err := of(t, []*holdfast.Client{a, b, c}).Mutex("").Lock(t.Context())
			return err
		},
		"lease": func() error {
			_, err := of(t, []*holdfast.Client{a, b, c}).Mutex("x").Lock(t.Context(), holdfast.LeaseTime(time.Hour))
			return err
		},
	} {
		if err := try(); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Where not all servers could be reached at the start, a majority is still one
// of all.
func TestFewerClients(t *testing.T) {
	t.Parallel()
	servers := start(t, 3)
	r := over(t, urls(servers[:2]), holdfast.RedlockOptions{Servers: 3, NodeTimeout: nodeTimeout})
	l := try(t, r.Mutex("m"))
	wantBusy(t, over(t, urls(servers)).Mutex("m"))
	locktest.Release(t, l)
	servers[0].Kill()
	if _, err := r.Mutex("m").TryLock(t.Context()); !errors.Is(err, holdfast.ErrUnavailable) {
		t.Errorf("one of three: %v", err)
	}
}

// A call with too few votes releases them before it returns.
func TestSplitVote(t *testing.T) {
	t.Parallel()
	servers := start(t, 3)
	us := urls(servers)
	var held []*holdfast.Lease
	var late []*redistest.Proxy
	for i := range 2 {
		held = append(held, try(t, open(t, us[i]).Mutex("m")))
		p := redistest.NewProxy(t, servers[i].Addr())
		late = append(late, p)
		us[i] = p.URL()
	}
	m := over(t, us, holdfast.RedlockOptions{NodeTimeout: nodeTimeout}).Mutex("m")
	wantBusy(t, m) // the servers know the scripts
	empty(t, servers[2:])
	for _, p := range late {
		p.Delay(nodeTimeout / 2) // so that the third has voted before
	}
	for range 5 { // on a busy machine, the third may vote too late to count
		wantBusy(t, m)
		empty(t, servers[2:])
	}
	for _, p := range late {
		p.Delay(0)
	}
	for _, l := range held {
		locktest.Release(t, l)
	}
}

// brief is the lease time of those that contend.
const brief = lease / 2

func contendWorker() {
	var clients []*holdfast.Client
	for url := range strings.SplitSeq(os.Getenv("TEST_URLS"), ",") {
		c, err := holdfast.Open(context.Background(), url, &holdfast.Options{WatchdogTimeout: brief, RetryTimeout: 5 * time.Second})
		if err != nil {
			panic(err)
		}
		clients = append(clients, c)
	}
	r, err := holdfast.NewRedlock(clients, holdfast.RedlockOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Println("open")
	rec := redistest.NewRecorder(os.Stdout)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { contend(context.Background(), r.Mutex("m"), rec) })
	}
	wg.Wait()
}

func contend(ctx context.Context, m holdfast.Locker, rec *redistest.Recorder) {
	for n := 0; ctx.Err() == nil; n++ {
		l, err := m.Lock(ctx)
		if err != nil {
			continue
		}
		work := time.Duration(n%5) * 20 * time.Millisecond
		if n%10 == 9 {
			work = 2 * brief // as long as it is valid, and beyond
		}
		if iv := locktest.Stay(l, work); iv.Enter != 0 {
			iv.Owner = fmt.Sprint(l.Owner(), "#", n)
			rec.Record(iv)
		}
		_ = l.Release(ctx)
	}
}

// Five servers and four processes. Servers are killed, paused, restarted
// without their data and cut off, one process is killed: at most one holds the
// lock at any time.
func TestExclusion(t *testing.T) {
	t.Parallel()
	servers := start(t, 5)
	p := redistest.NewProxy(t, servers[4].Addr())
	us := urls(servers)
	us[4] = p.URL()
	var out bytes.Buffer
	var mu sync.Mutex
	var wg sync.WaitGroup
	var ws []*redistest.Process
	for range 4 {
		w := redistest.Worker(t, "contend", "TEST_URLS="+strings.Join(us, ","))
		ws = append(ws, w)
		if line := <-w.Lines(); line != "open" { // before any server fails
			t.Fatalf("the worker says %q", line)
		}
		wg.Go(func() {
			for line := range w.Lines() {
				mu.Lock()
				fmt.Fprintln(&out, line)
				mu.Unlock()
			}
		})
	}
	few := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return bytes.Count(out.Bytes(), []byte("\n")) < 20
	}
	nothing := func() {}
	round := []func(){
		servers[0].Pause,                           // one silent
		servers[1].Restart,                         // one empty
		func() { servers[0].Resume(); p.Freeze() }, // one cut off
		nothing,
		func() { p.Thaw(); servers[2].Kill(); servers[3].Kill() }, // two dead
		func() { ws[0].Pause(); servers[2].Restart(); servers[3].Restart() },
		nothing,
		ws[0].Resume,
	}
	faults := slices.Concat(round, round, []func(){ws[3].Kill, nothing})
	var late time.Time // since all faults are over
	going := func() bool {
		return len(faults) > 0 || few() && time.Since(late) < 20*time.Second // on a busy machine
	}
	locktest.Repeat(brief/2, brief/2, going, func(int) {
		if len(faults) > 0 {
			faults[0]()
			faults, late = faults[1:], time.Now()
		}
	})
	for _, w := range ws {
		w.Kill()
	}
	wg.Wait()
	ivs, err := redistest.ReadIntervals(&out)
	if err != nil {
		t.Fatal(err)
	}
	if err := redistest.CheckExclusive(ivs); err != nil {
		t.Error(err)
	}
	if len(ivs) < 20 {
		t.Errorf("only %d holds", len(ivs))
	}
	t.Logf("%d holds", len(ivs))
}

// One server does not vote twice, not even with two of its databases.
func TestOneServerTwice(t *testing.T) {
	t.Parallel()
	servers := start(t, 2)
	clients := []*holdfast.Client{open(t, servers[0].URL()), open(t, servers[0].URL()+"/1"), open(t, servers[1].URL())}
	servers[1].Kill() // or it would depend on which server answers first
	if _, err := of(t, clients).Mutex("m").TryLock(t.Context()); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("one server twice: %v", err)
	}
	empty(t, servers[:1])
}

// A server that has forgotten its votes gives none for as long as the longest
// lease. So none may last longer, by whichever lease it is extended.
func TestExtendBeyondLongestLease(t *testing.T) {
	t.Parallel()
	servers := start(t, 3)
	l := voted(t, over(t, urls(servers)).Mutex("m"), 3)
	for i, part := range append(l.Parts(), l) {
		if err := part.Extend(t.Context(), lease+time.Millisecond); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("lease %d of 4, extended beyond the longest: %v", i+1, err)
		}
		if err := part.Extend(t.Context(), lease); err != nil {
			t.Error(err)
		}
	}
	for i, s := range servers {
		if ttl := s.Int(t, "PTTL", "m"); ttl > lease.Milliseconds() {
			t.Errorf("server %d keeps its vote for %d ms", i, ttl)
		}
	}
	locktest.Release(t, l)
}

// Entering again with a context that is done ends with its error, and is no
// outage.
func TestEnterWithDoneContext(t *testing.T) {
	t.Parallel()
	m := over(t, urls(start(t, 3))).Mutex("m")
	l := voted(t, m, 3)
	ctx, cancel := context.WithCancel(l.Context())
	cancel()
	if _, err := m.Lock(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, holdfast.ErrUnavailable) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	locktest.Release(t, l)
}
