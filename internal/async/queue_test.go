package async

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

const linger = time.Millisecond

// A user records the calls of a queue.
type user struct {
	got      []int
	dropped  int
	panicked []any
}

func (u *user) queue(size int, handle func(int)) *Queue[int] {
	return New(size, linger, User[int]{
		Handle: func(v int) {
			u.got = append(u.got, v)
			handle(v)
		},
		Dropped:  func(n int) { u.dropped += n },
		Panicked: func(v any) { u.panicked = append(u.panicked, v) },
	})
}

// Values arrive in their order, however many goroutines the queue starts for them.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u user
		q := u.queue(100, func(int) {})
		var want []int
		for i := range 50 {
			q.Put(i)
			want = append(want, i)
			if i%10 == 0 {
				time.Sleep(linger / 2)
			}
			if i%20 == 0 {
				time.Sleep(3 * linger) // the goroutine has ended
			}
		}
		q.Flush(time.Hour)
		if !slices.Equal(u.got, want) || u.dropped != 0 || q.Dropped() != 0 {
			t.Errorf("got %v, %d dropped", u.got, u.dropped)
		}
	})
}

// A user that blocks delays neither Put nor, for longer than the limit, Flush. What does
// not fit is dropped and counted, also if no value follows.
func TestBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u user
		open := make(chan struct{})
		q := u.queue(10, func(int) { <-open })
		q.Put(0)
		synctest.Wait()
		start := time.Now()
		for i := range 15 {
			q.Put(1 + i)
		}
		q.Flush(time.Second)
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v", took)
		}
		if b := q.Blocked(); b != time.Second {
			t.Errorf("blocked for %v", b)
		}
		if q.Dropped() != 5 {
			t.Errorf("%d dropped", q.Dropped())
		}
		close(open)
		q.Flush(time.Hour)
		if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}; !slices.Equal(u.got, want) || u.dropped != 5 {
			t.Errorf("got %v, %d dropped", u.got, u.dropped)
		}
		if b := q.Blocked(); b != 0 {
			t.Errorf("blocked for %v", b)
		}
	})
}

// After a panic, the queue goes on.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u user
		q := u.queue(10, func(v int) {
			if v == 1 {
				panic("one")
			}
		})
		for i := range 3 {
			q.Put(i)
		}
		q.Flush(time.Hour)
		if !slices.Equal(u.got, []int{0, 1, 2}) || !slices.Equal(u.panicked, []any{"one"}) {
			t.Errorf("got %v, panics %v", u.got, u.panicked)
		}
	})
}

func BenchmarkPut(b *testing.B) {
	q := New(1<<13, linger, User[[20]int]{Handle: func([20]int) {}, Dropped: func(int) {}})
	b.ReportAllocs()
	for b.Loop() {
		q.Put([20]int{})
	}
}
