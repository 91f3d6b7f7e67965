package interop_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// says calls a method and compares the value that it returns.
func (o object) says(tb testing.TB, want any, method string, args ...any) {
	tb.Helper()
	got := o.do(tb, tb.Name(), method, args...).Value
	if f, ok := got.(float64); ok {
		got = int(f)
	}
	if got != want {
		tb.Errorf("Redisson's %s%v = %v, want %v", method, args, got, want)
	}
}

// throws calls a method that must throw an exception.
func (o object) throws(tb testing.TB, method string, args ...any) {
	tb.Helper()
	if a := o.Do(tb.Name(), method, args...); a.Err() == nil {
		tb.Errorf("Redisson's %s%v = %v, want an exception", method, args, a.Value)
	}
}

// gives compares the result of a Holdfast call, as in gives(t, 3)(sem.Available(ctx)).
func gives[T comparable](tb testing.TB, want T) func(got T, err error) {
	tb.Helper()
	return func(got T, err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		if got != want {
			tb.Errorf("Holdfast's answer is %v, want %v", got, want)
		}
	}
}

// fails compares the error of a Holdfast call.
func fails(tb testing.TB, err, want error) {
	tb.Helper()
	if !errors.Is(err, want) {
		tb.Errorf("Holdfast's error is %v, want %v", err, want)
	}
}

// unpolled are the options of a client that relies on messages and does not poll.
var unpolled = holdfast.Options{PollInterval: time.Hour}

// wakes checks that the other side wakes a waiter. The function waits reports whether that waits.
func wakes(t *testing.T, waits func() bool, wait func() error, wake func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- wait() }()
	awaitWaiting(t, waits, done)
	began := time.Now()
	wake()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("awake after %v", time.Since(began))
	case <-time.After(2 * slack):
		t.Fatal("the waiter was not woken")
	}
}

// fleetSize is the number of members of each side in a fleet.
const fleetSize = 4

// A fleet is a group of Java threads and goroutines that use the same object. Each
// visit is recorded from the return of its first call to the start of its last call.
type fleet struct {
	mu     sync.Mutex
	visits []redistest.Interval
}

func (f *fleet) record(owner string, entered, left int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.visits = append(f.visits, redistest.Interval{Name: "fleet", Owner: owner, Enter: entered, Leave: left})
}

// run runs the rounds of all members. The Java calls enter and leave. The Go function
// also enters and leaves, and returns the times of both.
func (f *fleet) run(t *testing.T, p *interop.Peer, rounds int, java func(i int) []interop.Call, golang func() (entered, left int64, err error)) {
	t.Helper()
	n := name(t)
	var wg sync.WaitGroup
	for i := range fleetSize {
		wg.Go(func() {
			calls := java(i)
			a := p.Do(interop.Call{Thread: fmt.Sprint(n, i), Times: rounds, Calls: calls})
			if a.Err() != nil {
				t.Error(a.Err())
			}
			for ; len(a.Spans) >= len(calls); a.Spans = a.Spans[len(calls):] {
				f.record(fmt.Sprint("Java ", i), a.Spans[0][1], a.Spans[len(calls)-1][0])
			}
		})
		wg.Go(func() {
			for range rounds {
				entered, left, err := golang()
				if err != nil {
					t.Error(err)
					return
				}
				f.record(fmt.Sprint("Go ", i), entered, left)
			}
		})
	}
	wg.Wait()
	if want := 2 * fleetSize * rounds; len(f.visits) != want && !t.Failed() {
		t.Errorf("%d visits, want %d", len(f.visits), want)
	}
}
