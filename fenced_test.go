package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// wantToken checks what the server says about the last grant of m.
func wantToken(tb testing.TB, m *holdfast.FencedMutex, want int64) {
	tb.Helper()
	if got, err := m.Token(context.Background()); got != want || err != nil {
		tb.Errorf("Token is %d, %v, want %d", got, err, want)
	}
}

func TestFL01TokensCount(t *testing.T) {
	s := redistest.Shared(t)
	m := open(t, s.URL()).FencedMutex(name(t))
	wantToken(t, m, 0)
	for i, take := range []func() (*holdfast.Lease, error){
		func() (*holdfast.Lease, error) { return m.Lock(t.Context()) },
		func() (*holdfast.Lease, error) { return m.TryLock(t.Context()) },
		func() (*holdfast.Lease, error) { return m.TryLock(t.Context(), holdfast.Wait(10*time.Second)) },
		func() (*holdfast.Lease, error) { return m.Lock(t.Context(), holdfast.LeaseTime(time.Minute)) },
		func() (*holdfast.Lease, error) {
			return m.TryLock(t.Context(), holdfast.Wait(10*time.Second), holdfast.LeaseTime(time.Minute))
		},
	} {
		l, err := take()
		if err != nil {
			t.Fatal(err)
		}
		if want := int64(i + 1); l.Token() != want {
			t.Errorf("token %d, want %d", l.Token(), want)
		}
		wantToken(t, m, int64(i+1))
		release(t, l)
	}
	key := "redisson_lock_token:{" + m.Name() + "}"
	if got := s.Do(t, "GET", key); got != "5" {
		t.Errorf("the counter is %v, want 5", got)
	}
	if ttl := s.Int(t, "PTTL", key); ttl != -1 {
		t.Errorf("the counter lasts %d ms, want for ever", ttl)
	}
	// Who cannot have the lock does not count.
	l := lock(t, t.Context(), m)
	wantRefused(t, m)
	release(t, l)
	wantToken(t, m, 6)
}

// Inside of Do, the context knows the token.
func TestFencedDo(t *testing.T) {
	m := open(t, redistest.Shared(t).URL()).FencedMutex(name(t))
	err := m.Do(t.Context(), func(ctx context.Context) error {
		if got := holdfast.LeaseOf(ctx).Token(); got != 1 {
			t.Errorf("token %d, want 1", got)
		}
		return m.Do(ctx, func(ctx context.Context) error {
			if got := holdfast.LeaseOf(ctx).Token(); got != 1 {
				t.Errorf("token %d after entering again, want 1", got)
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
	token, err := holdfast.DoValue(t.Context(), m, func(ctx context.Context) (int64, error) {
		return holdfast.LeaseOf(ctx).Token(), nil
	})
	if token != 2 || err != nil {
		t.Errorf("token %d, %v, want 2", token, err)
	}
}

func init() { workers["fenced"] = fencedWorker }

func fencedWorker() {
	c, err := holdfast.Open(context.Background(), os.Getenv("TEST_URL"))
	if err != nil {
		panic(err)
	}
	m := c.FencedMutex(os.Getenv("TEST_NAME"))
	rec := redistest.NewRecorder(os.Stdout)
	parallel(4, func(int) {
		for range 25 {
			l, err := m.Lock(context.Background())
			if err != nil {
				panic(err)
			}
			leave := rec.Enter(m.Name(), fmt.Sprint(l.Token()))
			if !l.Valid() {
				panic("not valid")
			}
			leave()
			if err := l.Release(context.Background()); err != nil {
				panic(err)
			}
		}
	})
}

// Whoever comes later has the next number.
func TestFencedContention(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	const processes, grants = 4, 4 * 4 * 25
	n := name(t)
	var (
		mu  sync.Mutex
		out bytes.Buffer
	)
	var ws [processes]*redistest.Process
	for i := range ws {
		ws[i] = redistest.Worker(t, "fenced", "TEST_URL="+s.URL(), "TEST_NAME="+n)
	}
	parallel(processes, func(i int) {
		for line := range ws[i].Lines() {
			mu.Lock()
			fmt.Fprintln(&out, line)
			mu.Unlock()
		}
		if err := ws[i].Wait(); err != nil {
			t.Error(err)
		}
	})
	ivs, err := redistest.ReadIntervals(&out)
	if err != nil {
		t.Fatal(err)
	}
	if err := redistest.CheckExclusive(ivs); err != nil {
		t.Error(err)
	}
	slices.SortFunc(ivs, func(a, b redistest.Interval) int { return int(a.Enter - b.Enter) })
	for i, iv := range ivs {
		if iv.Owner != strconv.Itoa(i+1) {
			t.Fatalf("grant %d has the token %s", i+1, iv.Owner)
		}
	}
	if len(ivs) != grants {
		t.Errorf("%d grants, want %d", len(ivs), grants)
	}
	wantToken(t, open(t, s.URL()).FencedMutex(n), grants)
}

// Each way to lose a lock leaves the counter alone, and the next token is one
// higher.
func TestFencedTokenGoesOn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes")
	o := holdfast.Options{WatchdogTimeout: 10 * time.Second, RenewEvery: steady.RenewEvery}
	a, b := open(t, s.URL(), o), open(t, s.URL(), o)
	m, other := a.FencedMutex("fenced"), b.FencedMutex("fenced")
	var last int64
	next := func(what string, m *holdfast.FencedMutex, opts ...holdfast.Option) *holdfast.Lease {
		t.Helper()
		l := enteredAfter(t, 3*time.Second, background(t.Context(), m, opts...))
		if l.Token() != last+1 {
			t.Errorf("%s: token %d after %d", what, l.Token(), last)
		}
		last = l.Token()
		return l
	}
	l := next("first", m)
	inner := lock(t, l.Context(), m)
	longer := lock(t, inner.Context(), m, holdfast.LeaseTime(time.Minute))
	if inner.Token() != 1 || longer.Token() != 1 {
		t.Errorf("tokens %d and %d after entering again, want 1", inner.Token(), longer.Token())
	}
	wantToken(t, other, 1)
	release(t, longer)
	release(t, inner)
	release(t, l)

	l = next("released", other, holdfast.LeaseTime(3*time.Second)) // less could be over when it comes
	got := next("expired", m)
	wantLost(t, l, holdfast.LossExpired)

	if freed, err := other.ForceUnlock(t.Context()); !freed || err != nil {
		t.Fatal(freed, err)
	}
	wantToken(t, m, last)
	l = next("forced", other)
	wantLost(t, got, holdfast.LossNotOwner)

	s.RestartWithData()
	eventually(t, 10*time.Second, "the client is connected again", func() bool {
		_, err := m.Token(t.Context())
		return err == nil
	})
	wantToken(t, m, last)
	if _, err := m.TryLock(t.Context()); !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("after the restart the lock is not held: %v", err)
	}
	_ = l.Release(t.Context())
	l = next("restarted", m)
	_ = a.Close()
	wantLost(t, l, holdfast.LossClosed)
	release(t, next("closed", other))
	if keys := s.Keys(t); fmt.Sprint(keys) != "[redisson_lock_token:{fenced}]" {
		t.Errorf("keys %q, want only the counter", keys)
	}
}

// A lost reply neither raises the token twice nor leaves the lock locked.
func TestFencedReplyLost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	stalls := redistest.MeterStalls(t, s)
	m := open(t, p.URL()).FencedMutex("rig")
	l := lock(t, t.Context(), m) // so that the server knows the scripts
	release(t, lock(t, l.Context(), m))
	release(t, l)
	drop := func() <-chan struct{} { return p.DropReply(1, redistest.Command("EVALSHA")) }
	for want := int64(2); want < 5; want++ {
		dropped := drop()
		l := lock(t, t.Context(), m)
		<-dropped
		dropped = drop()
		inner := lock(t, l.Context(), m)
		<-dropped
		if l.Token() != want || inner.Token() != want {
			t.Errorf("tokens %d and %d, want %d", l.Token(), inner.Token(), want)
		}
		if n := holds(t, inner.Context(), m); n != 2 {
			t.Errorf("%d holds, want 2", n)
		}
		release(t, inner)
		dropped = drop()
		releaseUnheard(t, stalls, l)
		<-dropped
		wantToken(t, m, want)
		if s.Int(t, "EXISTS", "rig") != 0 {
			t.Error("locked after Release")
		}
	}
}

// A plain and a fenced mutex by one name are one lock.
func TestFencedAndPlain(t *testing.T) {
	t.Parallel()
	url := redistest.Shared(t).URL()
	holder := open(t, url)
	nearAndFar(t, holder, func(t *testing.T, c *holdfast.Client) {
		n := name(t)
		for _, tt := range []struct{ holder, waiter mutexLike }{
			{holder.Mutex(n), c.FencedMutex(n)},
			{holder.FencedMutex(n), c.Mutex(n)},
		} {
			l := lock(t, t.Context(), tt.holder)
			wantRefused(t, tt.waiter)
			waiter := background(t.Context(), tt.waiter)
			select {
			case o := <-waiter:
				t.Fatalf("the other one did not wait: %v", o.err)
			case <-time.After(50 * time.Millisecond):
			}
			start := time.Now()
			release(t, l)
			release(t, entered(t, waiter))
			if took := time.Since(start); took > late {
				t.Errorf("entered after %v", took)
			}
		}
	})
	n := name(t)
	var ms []mutexLike
	for _, c := range []*holdfast.Client{open(t, url), open(t, url)} {
		ms = append(ms, c.Mutex(n), c.FencedMutex(n), c.Mutex(n), c.FencedMutex(n))
	}
	contend(t, ms, 30)
	wantToken(t, holder.FencedMutex(n), 4*30)
}

// The options of a mutex are those of a fenced one.
func TestFencedOptions(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := open(t, s.URL())
	m := c.FencedMutex(name(t), holdfast.LeaseTime(time.Hour))
	l := lock(t, t.Context(), m)
	wantTTL(t, s, m.Name(), time.Hour)
	start := time.Now()
	_, err := m.TryLock(t.Context(), holdfast.Wait(time.Second))
	if took := time.Since(start); !errors.Is(err, holdfast.ErrNotAcquired) || took < time.Second || took > time.Second+late {
		t.Errorf("%v after %v", err, took)
	}
	if err := l.Extend(t.Context(), 2*time.Hour); err != nil {
		t.Error(err)
	}
	wantTTL(t, s, m.Name(), 2*time.Hour)
	if _, err := m.Lock(l.Context(), holdfast.NonReentrant()); !errors.Is(err, holdfast.ErrReentrant) {
		t.Errorf("error %v, want ErrReentrant", err)
	}
	poller := background(t.Context(), c.FencedMutex(m.Name(), holdfast.Poll(holdfast.Backoff{})))
	time.Sleep(50 * time.Millisecond)
	release(t, l)
	got := entered(t, poller)
	if got.Token() != 2 {
		t.Errorf("token %d, want 2", got.Token())
	}
	release(t, got)
	if _, err := c.FencedMutex("").Token(t.Context()); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("a bad name: %v", err)
	}
}
