package interop_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// The tokens of threads and goroutines rise in the order of their entries. While a party
// holds the lock, its token is the last one.
func TestFencedTokens(t *testing.T) {
	t.Parallel()
	const each, rounds, batch = 3, 60, 20 // goroutines continue while there are threads
	r, n := newFixture(t, interop.Current), name(t)
	type section struct {
		redistest.Interval
		token int64
	}
	var mu sync.Mutex
	var all []section
	record := func(owner string, token, last, entered, left int64) {
		mu.Lock()
		defer mu.Unlock()
		if last != token {
			t.Errorf("%s: the last token is %d while %d is inside", owner, last, token)
		}
		all = append(all, section{redistest.Interval{Name: n, Owner: owner, Enter: entered, Leave: left}, token})
	}
	inOrder := func() []section {
		mu.Lock()
		defer mu.Unlock()
		return slices.SortedFunc(slices.Values(all), func(a, b section) int { return cmp.Compare(a.Enter, b.Enter) })
	}
	passes := func(all []section) (passed int) { // number of changes between the sides
		for i := 1; i < len(all); i++ {
			if all[i-1].Owner[0] != all[i].Owner[0] {
				passed++
			}
		}
		return passed
	}
	ctx := context.Background()
	var threads, goroutines sync.WaitGroup
	var over atomic.Bool
	began := time.Now()
	for i := range each {
		threads.Go(func() {
			owner := fmt.Sprint("Java ", i)
			lock := r.java.get(t, "getFencedLock", n)
			// On a busy machine threads may make all of their rounds while goroutines do not run.
			for done := 0; done < rounds || passes(inOrder()) < rounds/2 && time.Since(began) < time.Minute; done += batch {
				a := r.java.Peer().Do(interop.Call{Thread: n + owner, Times: batch, Calls: []interop.Call{
					lock.Call("", "lockAndGetToken"), lock.Call("", "getToken"), lock.Call("", "unlock"),
				}})
				if a.Err() != nil {
					t.Error(a.Err())
					return
				}
				values := a.Value.([]any)
				for i := 0; i < len(values); i += 3 {
					record(owner, int64(values[i].(float64)), int64(values[i+1].(float64)), a.Spans[i][1], a.Spans[i+2][0])
				}
			}
		})
		goroutines.Go(func() {
			owner := fmt.Sprint("Go ", i)
			lock := r.golang.FencedMutex(n)
			for !over.Load() {
				l, err := lock.Lock(ctx)
				entered := redistest.Now()
				if err != nil {
					t.Error(err)
					return
				}
				last, err := lock.State(ctx)
				if err != nil {
					t.Error(err)
				}
				record(owner, l.Token(), last.Token, entered, redistest.Now())
				if err := l.Release(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	threads.Wait()
	over.Store(true)
	goroutines.Wait()
	all = inOrder()
	for i := range all[1:] {
		before, s := all[i], all[i+1]
		if before.Leave > s.Enter {
			t.Errorf("%s and %s were inside at the same time", before.Owner, s.Owner)
		}
		if s.token != before.token+1 {
			t.Errorf("%s entered with token %d after %s with %d", s.Owner, s.token, before.Owner, before.token)
		}
	}
	passed := passes(all)
	t.Logf("%d sections; from one side to the other: %d times", len(all), passed)
	if passed < rounds/2 {
		t.Error("too few changes between the sides")
	}
}

// Redisson counts each entry, Holdfast each grant. The next token of each side is higher
// than all earlier tokens.
func TestFencedReentry(t *testing.T) {
	t.Parallel()
	r, n := newFixture(t, interop.Current), name(t)
	ctx := context.Background()
	java, golang := r.java.get(t, "getFencedLock", n), r.golang.FencedMutex(n)
	want := func(what string, got, want int64) {
		t.Helper()
		if got != want {
			t.Errorf("%s has token %d, want %d", what, got, want)
		}
	}
	want("no owner", java.do(t, n, "getToken").Int(), 0)
	want("the first thread", java.do(t, n, "lockAndGetToken").Int(), 1)
	want("the thread inside itself", java.do(t, n, "lockAndGetToken").Int(), 2)
	last, err := golang.State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want("the lock", last.Token, 2)
	if a := java.do(t, n+"other", "tryLockAndGetToken", 0, -1, "MILLISECONDS"); a.Value != nil {
		t.Errorf("another thread has token %v", a.Value)
	}
	java.do(t, n, "unlock")
	java.do(t, n, "unlock")

	p := &goParty{client: r.golang, lock: golang}
	p.Lock(t, 0)
	p.Lock(t, 0)
	want("the lease", p.leases[0].Token(), 3)
	want("the lease inside of it", p.leases[1].Token(), 3)
	want("the lock", java.do(t, n, "getToken").Int(), 3)
	if a := java.do(t, n, "tryLockAndGetToken", 0, -1, "MILLISECONDS"); a.Value != nil {
		t.Errorf("a thread has token %v while a goroutine is inside", a.Value)
	}
	p.Unlock(t)
	p.Unlock(t)
	java.do(t, n, "lock")
	want("a thread that did not ask for one", java.do(t, n, "getToken").Int(), 4)

	// The counter outlives the lock, also when the lock is broken.
	if !must[bool](t)(golang.ForceUnlock(ctx)) {
		t.Error("the lock was not held")
	}
	want("the next thread", java.do(t, n+"other", "lockAndGetToken").Int(), 5)
	if !java.do(t, n, "forceUnlock").Bool() {
		t.Error("the lock was not held")
	}
	p.Lock(t, 0)
	want("the next lease", p.leases[0].Token(), 6)
	p.Unlock(t)
}
