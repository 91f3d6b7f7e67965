package interop_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A waiting Go process dies, and Redisson removes it from the queue. Later Go waiters
// must not treat it as alive: they would take a thread for one of their own, and would
// be treated as dead when that thread is done.
func TestFairSweptByJava(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		w := l.worker(t)
		holder := l.thread(t)
		holder.Lock(t, 0)
		dead := l.await(t, nil, func(chan<- int64) { w.Send("lock") })
		w.Kill()
		l.drop(dead)
		locktest.Eventually(t, 30*time.Second, "its limit is over", func() bool {
			return l.left(t, limitsKey(l.name), dead.owner) < 0
		})
		l.thread(t).TryLock(t, 0, 0) // removes dead waiters
		l.wantQueue(t)
		l.join(t, l.thread(t))
		l.join(t, l.goroutine())
		l.join(t, l.thread(t))
		l.wantQueue(t)
		t.Logf("remaining limit of the goroutine: %v", l.left(t, limitsKey(l.name), l.places[1].owner))
		// The first thread holds the lock for a while, during which Redisson removes dead
		// waiters.
		holder.Unlock(t)
		first := l.places[0]
		<-first.entered
		l.drop(first)
		l.thread(t).TryLock(t, 0, 0)
		l.wantQueue(t)
		l.serve(t, first.Unlock(t), slack)
		l.wantOnlySignsLeft(t)
	})
}

// A holder dies after a thread has waited for longer than the lock's remaining time at
// its arrival. No message announces that a lock has expired.
func TestFairHolderDies(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		w := l.worker(t)
		w.Send("lock")
		locktest.Eventually(t, 30*time.Second, "it has the lock", func() bool { return l.server.Int(t, "EXISTS", l.name) == 1 })
		l.join(t, l.thread(t))
		l.join(t, l.goroutine())
		awaitLeases(t, l.server, l.name)
		w.Kill()
		locktest.Eventually(t, 2*watchdogTime, "its lock expires", func() bool { return l.server.Int(t, "EXISTS", l.name) == 0 || len(l.queue(t)) < 2 })
		l.serve(t, redistest.Now(), 5*time.Second)
	})
}

// A thread waits for longer than Redisson's default. When it is done, it subtracts its
// wait time from the limits of all waiters.
func TestFairLongWait(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		holder := l.goroutine()
		holder.Lock(t, 0)
		p := l.thread(t)
		first := l.await(t, p, func(entered chan<- int64) {
			at, _ := tryTimed(silentTB{t}, p, 10*time.Minute)
			entered <- at
		})
		for i := range 3 {
			l.join(t, l.either(t, i+1))
		}
		holder.Unlock(t)
		<-first.entered
		l.drop(first)
		l.thread(t).TryLock(t, 0, 0) // removes dead waiters
		l.wantQueue(t)
		l.serve(t, first.Unlock(t), slack)
	})
}

// Redisson deletes a lock and its queue, or lets both expire. Goroutines queue again.
// Threads notice it at the original end of the lock, or never.
func TestFairQueueGone(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		end := map[string][]any{"delete": nil, "expire": {1, "SECONDS"}}
		for method, args := range end {
			holder := l.either(t, 0)
			holder.Lock(t, 5*time.Second)
			for i := range 4 {
				l.join(t, l.either(t, i))
			}
			fair.java(t, l.java, l.name).do(t, "", method, args...)
			entered := make(chan bool, len(l.places))
			for i, p := range l.places {
				go func() {
					<-p.entered
					p.Unlock(silentTB{t})
					entered <- i%2 == 1
				}()
			}
			l.places = nil
			for n := 0; n < 2; {
				select {
				case goroutine := <-entered:
					if goroutine {
						n++
					}
				case <-time.After(10 * time.Second):
					t.Fatalf("%s: %d of 2 goroutines entered", method, n)
				}
			}
			l.server.Do(t, "DEL", l.name, queueKey(l.name), limitsKey(l.name), signsKey(l.name)) // threads may still hold it or wait for it
		}
	})
}
