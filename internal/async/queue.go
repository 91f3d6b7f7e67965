// Package async isolates the goroutines of the library from code of the user,
// such as a logger or an observer.
//
// Code of the user may block or panic. A [Queue] passes values to the user on a
// goroutine of its own, in order. The goroutine runs only while there are values.
// If the queue is full, values are dropped and counted.
package async

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// A Queue holds the values that the user has not handled yet. Create it with
// [New].
type Queue[T any] struct {
	size   int
	linger time.Duration
	user   User[T]

	mu      sync.Mutex
	values  []item[T]
	spare   []item[T]     // the empty slice of the values that were handled last
	dropped int           // since the last value that was not
	idle    chan struct{} // closed when the goroutine ends; nil if it does not run

	total atomic.Uint64 // how many values were dropped
	told  atomic.Bool   // that the present call blocks
	began atomic.Int64  // when the present call of the user's code began, by clock.Early; 0: none
}

type item[T any] struct {
	value   T
	dropped int // before it
}

// A User is the code of the user that a queue calls.
type User[T any] struct {
	Handle   func(T)
	Dropped  func(n int) // so many values were dropped before the next call of Handle
	Panicked func(any)   // one of the others has panicked with that value
	Blocked  func()      // one of the others has not returned for BlockedTime; called once, by Put
}

// BlockedTime is how long the user's code may take until [User].Blocked is called.
const BlockedTime = 5 * time.Second

// New returns a queue for up to size values. Its goroutine ends when there have been no
// values for the time linger. If values come often, to start a goroutine for each would
// cost more than to handle it.
func New[T any](size int, linger time.Duration, user User[T]) *Queue[T] {
	return &Queue[T]{size: size, linger: linger, user: user}
}

// Put adds a value. It never blocks.
func (q *Queue[T]) Put(value T) {
	q.mu.Lock()
	if len(q.values) >= q.size {
		q.dropped++
		q.mu.Unlock()
		q.total.Add(1)
		return
	}
	q.values = append(q.values, item[T]{value, q.dropped})
	q.dropped = 0
	if q.idle == nil {
		q.idle = make(chan struct{})
		go q.run(q.idle)
	}
	n := len(q.values)
	q.mu.Unlock()
	if n&(n-1) == 0 { // seldom
		q.check()
	}
}

// check tells the user if its code blocks.
func (q *Queue[T]) check() {
	if q.user.Blocked != nil && q.Blocked() >= BlockedTime && !q.told.Swap(true) {
		q.user.Blocked()
	}
}

// run handles values until there have been none for a while.
func (q *Queue[T]) run(idle chan struct{}) {
	defer close(idle)
	for waited := false; ; {
		q.mu.Lock()
		items, last := q.values, 0
		if len(items) == 0 {
			last, q.dropped = q.dropped, 0
			if (waited || q.linger == 0) && last == 0 {
				q.values, q.spare, q.idle = nil, nil, nil
				q.mu.Unlock()
				return
			}
		}
		q.values, q.spare = q.spare, nil
		q.mu.Unlock()
		q.report(last)
		for _, it := range items {
			q.report(it.dropped)
			q.call(func() { q.user.Handle(it.value) })
		}
		if waited = len(items) == 0; waited {
			time.Sleep(q.linger)
		}
		clear(items)
		q.mu.Lock()
		q.spare = items[:0]
		q.mu.Unlock()
	}
}

// report tells the user how many values were dropped.
func (q *Queue[T]) report(dropped int) {
	if dropped > 0 {
		q.call(func() { q.user.Dropped(dropped) })
	}
}

// call calls code of the user.
func (q *Queue[T]) call(user func()) {
	q.began.Store(int64(clock.Early()))
	defer func() {
		q.began.Store(0)
		q.told.Store(false)
		if r := recover(); r != nil {
			q.user.Panicked(r)
		}
	}()
	user()
}

// Flush waits until all values are handled, or until the limit has passed.
func (q *Queue[T]) Flush(limit time.Duration) {
	q.mu.Lock()
	idle := q.idle
	q.mu.Unlock()
	if idle == nil {
		return
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}

// Dropped returns how many values were dropped.
func (q *Queue[T]) Dropped() uint64 { return q.total.Load() }

// Blocked returns for how long the present call of the user's code has lasted, or zero
// if there is none.
func (q *Queue[T]) Blocked() time.Duration {
	began := q.began.Load()
	if began == 0 {
		return 0
	}
	return clock.Early() - time.Duration(began)
}
