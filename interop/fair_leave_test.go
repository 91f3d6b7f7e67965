package interop_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// Some waiters in the middle of the queue give up. The others keep their order and do not
// wait for those that left.
func TestFairGivesUp(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		const wait = 4 * time.Second
		for i := range 2 {
			holder := l.either(t, i)
			holder.Lock(t, 0)
			l.join(t, l.either(t, i))
			l.join(t, l.either(t, i+1))

			var quitters []*place
			gone := make(chan bool, 3)
			for _, p := range []party{l.goroutine(), l.thread(t)} {
				quitters = append(quitters, l.await(t, p, func(chan<- int64) { gone <- !p.TryLock(silentTB{t}, wait, 0) }))
				l.join(t, l.either(t, i))
			}
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			quitters = append(quitters, l.await(t, nil, func(chan<- int64) {
				_, err := l.golang.FairMutex(l.name).Lock(ctx)
				gone <- errors.Is(err, context.DeadlineExceeded)
			}))
			l.join(t, l.either(t, i+1))
			l.join(t, l.either(t, i))
			for _, at := range quitters {
				if !<-gone {
					t.Error("a waiter has not given up")
				}
				l.drop(at)
			}
			// A waiter that gives up removes its queue entry before it returns.
			locktest.Eventually(t, 10*time.Second, "they have left the queue", func() bool { return len(l.queue(t)) <= len(l.places) })
			l.wantQueue(t)
			l.serve(t, holder.Unlock(t), slack)
		}
		wantNothingLeft(t, l.server, l.name)
	})
}

// An interrupted thread stays in Redisson's queue until it is treated as dead: after the
// remaining time of the lock at its arrival plus its wait time. Then the others continue.
func TestFairInterrupted(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		const lease, wait = 7 * time.Second, 7 * time.Second
		holder := l.goroutine()
		p, java := l.thread(t), peer(t, l.release)
		good(t, java.Do(interop.Call{Thread: p.thread, On: "java.lang.Thread", Method: "currentThread", As: p.thread}))
		holder.Lock(t, lease)
		interrupted := make(chan error, 1)
		came := redistest.Now()
		at := l.await(t, p, func(chan<- int64) {
			interrupted <- p.lock.Do(p.thread, "tryLock", wait.Milliseconds(), -1, "MILLISECONDS").Err()
		})
		l.join(t, l.goroutine())
		l.join(t, l.thread(t))
		// During a command the interrupt would cause another exception.
		locktest.Eventually(t, wait, "it sleeps", func() bool { return p.asleep(t) })
		good(t, java.Do(interop.Call{On: p.thread, Method: "interrupt"}))
		if err := <-interrupted; err == nil || !strings.Contains(err.Error(), "InterruptedException") {
			t.Error("the thread was not interrupted: ", err)
		}
		l.wantQueue(t) // the thread is still in the queue
		holder.Unlock(t)
		l.drop(at)
		l.serve(t, came+int64(lease+wait), slack)
		l.wantNothingOfOurs(t)
	})
}

func init() { workers["queue"] = queueWorker }

// queueWorker locks a fair mutex with several goroutines and does not exit.
func queueWorker() {
	c, err := holdfast.Open(context.Background(), os.Getenv("TEST_URL"), &holdfast.Options{WatchdogTimeout: watchdogTime, Anonymous: true})
	if err != nil {
		panic(err)
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		go func() {
			if _, err := c.FairMutex(os.Getenv("TEST_NAME")).Lock(context.Background()); err != nil {
				panic(err)
			}
		}()
	}
}

// worker starts a process whose goroutines wait for the lock.
func (l *line) worker(tb testing.TB) *redistest.Process {
	return redistest.Worker(tb, "queue", "TEST_URL="+l.server.URL(), "TEST_NAME="+l.name)
}

// A Go process dies with entries in the queue. The other waiters continue after 4 to 5 s
// for each series of dead entries.
func TestFairKilledGo(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		w := l.worker(t)
		holder := l.thread(t)
		holder.Lock(t, 0)
		var dead []*place
		for i := range 2 {
			dead = append(dead, l.await(t, nil, func(chan<- int64) { w.Send("lock") }))
			l.join(t, l.either(t, i))
			l.join(t, l.either(t, i+1))
		}
		w.Kill()
		for _, at := range dead {
			l.drop(at)
		}
		l.serve(t, holder.Unlock(t), 8500*time.Millisecond) // by Redisson's rule they would continue after more than 9 s
		l.wantOnlySignsLeft(t)
	})
}

// Only threads wait behind a Go process that died.
func TestFairKilledGoBeforeThreads(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		if l.release == interop.Era {
			t.Skip("this release sleeps until a message arrives, and no client is left to send it")
		}
		w := l.worker(t)
		holder := l.goroutine()
		holder.Lock(t, 9*time.Second) // threads check again at that time
		dead := l.await(t, nil, func(chan<- int64) { w.Send("lock") })
		l.join(t, l.thread(t))
		l.join(t, l.thread(t))
		locktest.AwaitHeartbeats(t, l.server, l.name, locktest.Place{Owner: dead.owner}) // it has refreshed its queue entries
		w.Kill()
		t.Logf("remaining limit of the dead waiter: %v", l.left(t, limitsKey(l.name), dead.owner))
		l.drop(dead)
		l.serve(t, holder.Unlock(t), 10*time.Second+slack)
		l.wantOnlySignsLeft(t)
	})
}

// A Redisson process dies with entries in the queue. The other waiters continue when its
// limits are over.
func TestFairKilledJava(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		const lease, wait = 8 * time.Second, 6 * time.Second
		doomed := ownPeer(t, l.release)
		r, err := doomed.Open(interop.Single(l.server.Addr()))
		if err != nil {
			t.Fatal(err)
		}
		lock := fair.java(t, &redisson{r}, l.name)
		for i := range 2 { // the first calls of a new process are slow
			lock.do(t, fmt.Sprint(i), "lock")
			lock.do(t, fmt.Sprint(i), "unlock")
		}
		holder := l.goroutine()
		holder.Lock(t, lease)
		l.join(t, l.thread(t))
		var dead []*place
		for i := range 2 {
			dead = append(dead, l.await(t, nil, func(chan<- int64) {
				lock.Go(fmt.Sprint(i), "tryLock", wait.Milliseconds(), -1, "MILLISECONDS")
			}))
		}
		l.join(t, l.goroutine())
		l.join(t, l.thread(t))
		doomed.Kill()
		l.wantQueue(t)
		l.drop(dead[0])
		l.drop(dead[1])
		l.serve(t, holder.Unlock(t), lease+2*wait+slack)
		l.wantOnlySignsLeft(t)
	})
}
