package behaviour_test

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
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Inside of Do, the context knows the token.
func TestFencedDo(t *testing.T) {
	m := locktest.Open(t, redistest.Shared(t).URL()).FencedMutex(locktest.Name(t))
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
	c, err := holdfast.Open(context.Background(), os.Getenv("TEST_URL"), nil)
	if err != nil {
		panic(err)
	}
	m := c.FencedMutex(os.Getenv("TEST_NAME"))
	rec := redistest.NewRecorder(os.Stdout)
	locktest.Parallel(4, func(int) {
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

// A later holder has a higher token.
func TestFencedContention(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	const processes, grants = 4, 4 * 4 * 25
	n := locktest.Name(t)
	var (
		mu  sync.Mutex
		out bytes.Buffer
	)
	var ws [processes]*redistest.Process
	for i := range ws {
		ws[i] = redistest.Worker(t, "fenced", "TEST_URL="+s.URL(), "TEST_NAME="+n)
	}
	locktest.Parallel(processes, func(i int) {
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
	locktest.WantToken(t, locktest.Open(t, s.URL()).FencedMutex(n), grants)
}

// The options of a mutex are those of a fenced one.
func TestFencedOptions(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Open(t, s.URL())
	m := c.FencedMutex(locktest.Name(t), holdfast.LeaseTime(time.Hour))
	l := locktest.Lock(t, t.Context(), m)
	locktest.WantTTL(t, s, m.Name(), time.Hour)
	start := time.Now()
	_, err := m.TryLock(t.Context(), holdfast.Wait(time.Second))
	if took := time.Since(start); !errors.Is(err, holdfast.ErrNotAcquired) || took < time.Second || locktest.Took(start) > time.Second+locktest.Late {
		t.Errorf("%v after %v", err, took)
	}
	if err := l.Extend(t.Context(), 2*time.Hour); err != nil {
		t.Error(err)
	}
	locktest.WantTTL(t, s, m.Name(), 2*time.Hour)
	if _, err := m.Lock(l.Context(), holdfast.NonReentrant()); !errors.Is(err, holdfast.ErrReentrant) {
		t.Errorf("error %v, want ErrReentrant", err)
	}
	poller := locktest.Background(t.Context(), c.FencedMutex(m.Name(), holdfast.Poll(holdfast.Backoff{})))
	locktest.AwaitWaiting(t, c, 1)
	locktest.Release(t, l)
	got := locktest.Entered(t, poller)
	if got.Token() != 2 {
		t.Errorf("token %d, want 2", got.Token())
	}
	locktest.Release(t, got)
	if _, err := c.FencedMutex("").State(t.Context()); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("a bad name: %v", err)
	}
}
