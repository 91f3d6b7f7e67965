package interop_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// An rwLock is a read/write lock in a fixture.
type rwLock struct {
	*fixture
	release interop.Release
	name    string
}

// eachRWLock runs a test with a read/write lock of each release. The clients have short watchdog
// times.
func eachRWLock(t *testing.T, f func(t *testing.T, b *rwLock)) {
	t.Parallel()
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		f(t, &rwLock{newShortLeaseFixture(t, peer(t, release), redistest.One(t)), release, name(t)})
	})
}

// either returns a new thread for even numbers and a goroutine for odd ones, for the mode
// "read" or "write".
func (b *rwLock) either(tb testing.TB, i int, what string) party {
	if i%2 == 0 {
		return newJava(tb, b.java, kindOf(what), b.name, fmt.Sprint(b.name, " ", names.Add(1)))
	}
	return newGo(b.golang, kindOf(what), b.name)
}

// fields returns the hash of the lock.
func (b *rwLock) fields(tb testing.TB) map[string]string {
	tb.Helper()
	list := b.server.Strings(tb, "HGETALL", b.name)
	m := map[string]string{}
	for i := 0; i < len(list); i += 2 {
		m[list[i]] = list[i+1]
	}
	return m
}

// wantFields checks the hash of the lock, given as field, value, field, ...
func (b *rwLock) wantFields(tb testing.TB, list ...string) {
	tb.Helper()
	want := map[string]string{}
	for i := 0; i < len(list); i += 2 {
		want[list[i]] = list[i+1]
	}
	if got := b.fields(tb); !maps.Equal(got, want) {
		tb.Errorf("the hash is %v, want %v", got, want)
	}
}

// holdKey returns the key of the i-th hold of a reader.
func (b *rwLock) holdKey(reader string, i int) string {
	return fmt.Sprintf("{%s}:%s:rwlock_timeout:%d", b.name, reader, i)
}

// hold returns the remaining time of the i-th hold of a reader; negative if there is none.
func (b *rwLock) hold(tb testing.TB, reader string, i int) time.Duration {
	tb.Helper()
	return time.Duration(b.server.Int(tb, "PTTL", b.holdKey(reader, i))) * time.Millisecond
}

// Both sides can read at the same time. Neither can write in the meantime.
func TestRWReaders(t *testing.T) {
	eachRWLock(t, func(t *testing.T, b *rwLock) {
		for i := range 2 { // the side that enters and leaves first
			first, second := b.either(t, i, "read"), b.either(t, i+1, "read")
			first.Lock(t, 0)
			if !second.TryLock(t, 0, 0) {
				t.Fatal("a reader excludes a reader of the other side")
			}
			b.wantFields(t, "mode", "read", first.Owner(t), "1", second.Owner(t), "1")
			first.Lock(t, 0)
			b.wantFields(t, "mode", "read", first.Owner(t), "2", second.Owner(t), "1")
			for _, reader := range []party{first, second} {
				if d := b.hold(t, reader.Owner(t), 1); d <= 0 || d > watchdogTime {
					t.Errorf("a hold lasts for %v", d)
				}
			}
			if b.hold(t, first.Owner(t), 2) <= 0 {
				t.Error("the second hold has no key")
			}
			for range 2 {
				b.wantNoWriter(t)
				first.Unlock(t)
			}
			b.wantNoWriter(t)
			b.wantFields(t, "mode", "read", second.Owner(t), "1")
			second.Unlock(t)
			for n := range 2 {
				writer := b.either(t, n, "write")
				if !writer.TryLock(t, 0, 0) {
					t.Fatal("no writer can enter after the readers have left")
				}
				b.wantFields(t, "mode", "write", writer.Owner(t)+":write", "1")
				for n := range 2 {
					if b.either(t, n, "read").TryLock(t, 0, 0) {
						t.Error("a reader entered beside a writer")
					}
				}
				b.wantNoWriter(t)
				writer.Unlock(t)
			}
		}
		wantNothingLeft(t, b.server, b.name)
	})
}

// wantNoWriter checks that no side can write now.
func (b *rwLock) wantNoWriter(tb testing.TB) {
	tb.Helper()
	for i := range 2 {
		if b.either(tb, i, "write").TryLock(tb, 0, 0) {
			tb.Fatal("a writer entered")
		}
	}
}

// Threads and goroutines read and write at random. A writer is always alone. Both sides use
// the same clock.
func TestRWExclusion(t *testing.T) {
	eachRWLock(t, func(t *testing.T, b *rwLock) {
		const each, rounds = 3, 100
		var mu sync.Mutex
		var all []redistest.Interval
		record := func(owner string, entered, left int64, shared bool) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, redistest.Interval{Name: b.name, Owner: owner, Enter: entered, Leave: left, Shared: shared})
		}
		var wg sync.WaitGroup
		for i := range each {
			wg.Go(func() {
				owner := fmt.Sprint("Java ", i)
				var reads []bool
				var calls []interop.Call
				sides := map[bool]object{true: kindOf("read").java(t, b.java, b.name), false: kindOf("write").java(t, b.java, b.name)}
				for range rounds {
					read := rand.N(3) > 0
					reads = append(reads, read)
					calls = append(calls, sides[read].Call("", "lock"), sides[read].Call("", "unlock"))
				}
				a := peer(t, b.release).Do(interop.Call{Thread: b.name + owner, Times: 1, Calls: calls})
				if a.Err() != nil {
					t.Error(a.Err())
				}
				for i := 0; i+1 < len(a.Spans); i += 2 {
					record(owner, a.Spans[i][1], a.Spans[i+1][0], reads[i/2])
				}
			})
			wg.Go(func() {
				owner := fmt.Sprint("Go ", i)
				m := b.golang.RWMutex(b.name)
				for range rounds {
					read, lock := rand.N(3) > 0, m.Lock
					if read {
						lock = m.RLock
					}
					l, err := lock(context.Background())
					if err != nil {
						t.Error(err)
						return
					}
					entered := redistest.Now()
					record(owner, entered, redistest.Now(), read)
					if err := l.Release(context.Background()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if err := redistest.CheckExclusive(all); err != nil {
			t.Error(err)
		}
		if want := 2 * each * rounds; len(all) != want && !t.Failed() {
			t.Errorf("%d visits, want %d", len(all), want)
		}
		wantNothingLeft(t, b.server, b.name)
	})
}

// begin makes parties lock and returns when they wait, so that none misses the message of a
// writer. The channel receives the times of their entries.
func begin(tb testing.TB, parties ...party) <-chan int64 {
	entered := make(chan int64, len(parties))
	for _, p := range parties {
		waits := partyWaits(tb, p)
		go func() { entered <- p.Lock(silentTB{tb}, 0) }()
		awaitWaiting(tb, waits, entered)
	}
	return entered
}

// wantEntered waits for the given number of entries and checks that they were soon after the
// release.
func wantEntered(tb testing.TB, n int, entered <-chan int64, left int64, soon time.Duration) {
	tb.Helper()
	for i := range n {
		select {
		case e := <-entered:
			if d := time.Duration(e - left); d > soon {
				tb.Errorf("a party entered after %v", d)
			}
		case <-time.After(soon + 10*time.Second):
			tb.Fatalf("%d of %d entered", i, n)
		}
	}
}

// When a writer leaves, all readers of both sides enter together. When the last reader leaves,
// writers enter one by one.
func TestRWWakeUp(t *testing.T) {
	t.Parallel()
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		b := &rwLock{newFixture(t, release), release, name(t)} // the leases of 30 s do not expire in this test
		for i := range 2 {
			writer := b.either(t, i, "write")
			writer.Lock(t, 0)
			var readers []party
			for n := range 8 {
				readers = append(readers, b.either(t, n, "read"))
			}
			entered := begin(t, readers...)
			wantEntered(t, len(readers), entered, writer.Unlock(t), slack)

			writers := []party{b.either(t, i, "write"), b.either(t, i+1, "write")}
			ready := []<-chan int64{begin(t, writers[0]), begin(t, writers[1])}
			var left int64
			for n := range readers { // the last reader is of one side, then of the other
				left = readers[(n+i)%len(readers)].Unlock(t)
			}
			for range writers {
				select {
				case e := <-ready[0]:
					wantSoon(t, e, left)
					left, ready[0] = writers[0].Unlock(t), nil
				case e := <-ready[1]:
					wantSoon(t, e, left)
					left, ready[1] = writers[1].Unlock(t), nil
				case <-time.After(15 * time.Second):
					t.Fatal("a writer was not woken")
				}
			}
		}
		wantNothingLeft(t, b.server, b.name)
	})
}

func wantSoon(tb testing.TB, entered, left int64) {
	tb.Helper()
	if d := time.Duration(entered - left); d > slack {
		tb.Errorf("a party entered after %v", d)
	}
}

// A writer also acquires a read lock and then releases the write lock. Other readers can then
// enter. Redisson sends no message about it, so a goroutine notices it when it polls.
func TestRWDowngrade(t *testing.T) {
	t.Parallel()
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		const poll = time.Second
		b := &rwLock{newFixture(t, release), release, name(t)}
		b.golang = open(t, b.server.URL(), holdfast.Options{PollInterval: poll})

		thread := name(t)
		writing := newJava(t, b.java, kindOf("write"), b.name, thread)
		reading := newJava(t, b.java, kindOf("read"), b.name, thread)
		writing.Lock(t, 0)
		reading.Lock(t, 0)
		b.wantFields(t, "mode", "write", writing.Owner(t)+":write", "1", reading.Owner(t), "1")
		goroutine := b.either(t, 1, "read")
		entered := begin(t, goroutine)
		wantEntered(t, 1, entered, writing.Unlock(t), poll+slack)
		b.wantFields(t, "mode", "read", reading.Owner(t), "1", goroutine.Owner(t), "1")
		b.wantNoWriter(t)
		reading.Unlock(t)
		b.wantNoWriter(t)
		goroutine.Unlock(t)

		m := b.golang.RWMutex(b.name)
		write, err := m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		read, err := m.RLock(write.Context())
		if err != nil {
			t.Fatal(err)
		}
		b.wantFields(t, "mode", "write", write.Owner()+":write", "1", read.Owner(), "1")
		if b.hold(t, read.Owner(), 1) <= 0 {
			t.Error("the reader has no key of its own")
		}
		java := b.either(t, 0, "read")
		entered = begin(t, java)
		left := redistest.Now()
		if err := write.Release(t.Context()); err != nil {
			t.Error(err)
		}
		wantEntered(t, 1, entered, left, slack)
		b.wantFields(t, "mode", "read", read.Owner(), "1", java.Owner(t), "1")
		b.wantNoWriter(t)
		if err := read.Release(t.Context()); err != nil {
			t.Error(err)
		}
		b.wantNoWriter(t)
		java.Unlock(t)
		wantNothingLeft(t, b.server, b.name)
	})
}
