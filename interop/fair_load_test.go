package interop_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// Many parties wait for short times, so that the queue changes often. They hold the lock
// one at a time, and both sides make progress.
func TestFairChurn(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		const each, visits, limit = 5, 50, time.Minute
		var mu sync.Mutex
		var all []redistest.Interval
		entered, missed := [2]int{}, [2]int{} // by threads and by goroutines
		enough := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return min(entered[0], entered[1]) >= visits && min(missed[0], missed[1]) >= visits
		}
		var wg sync.WaitGroup
		begin := time.Now()
		for i := range 2 * each {
			p := l.either(t, i)
			wg.Go(func() {
				for !enough() && time.Since(begin) < limit {
					at, ok := tryTimed(t, p, rand.N(60*time.Millisecond)+time.Millisecond)
					var left int64
					if ok {
						left = p.Unlock(t)
					}
					mu.Lock()
					if ok {
						entered[i%2]++
						all = append(all, redistest.Interval{Name: l.name, Owner: fmt.Sprint(i), Enter: at, Leave: left})
					} else {
						missed[i%2]++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		t.Logf("threads and goroutines: %v visits, %v timeouts", entered, missed)
		if err := redistest.CheckExclusive(all); err != nil {
			t.Error(err)
		}
		if !enough() {
			t.Errorf("less than %d within %v", visits, limit)
		}
		l.wantNothingOfOurs(t)
	})
}

// tryTimed is TryLock that also returns when the lock was acquired.
func tryTimed(tb testing.TB, p party, wait time.Duration) (entered int64, ok bool) {
	if java, yes := p.(*javaParty); yes {
		a := java.lock.do(tb, java.thread, "tryLock", wait.Milliseconds(), -1, "MILLISECONDS")
		return a.Ended(), a.Bool()
	}
	ok = p.TryLock(tb, wait, 0)
	return redistest.Now(), ok
}

var calls = regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`)

// scripts returns the number of scripts that a server has run.
func scripts(tb testing.TB, s *redistest.Server) (n int) {
	tb.Helper()
	for _, m := range calls.FindAllStringSubmatch(s.Do(tb, "INFO", "commandstats").(string), -1) {
		i, err := strconv.Atoi(m[1])
		if err != nil {
			tb.Fatal(err)
		}
		n += i
	}
	return n
}

// Waiters poll at intervals and not in a tight loop, while the lock is held and after it
// has expired, with a thread or a goroutine at the head of the queue.
func TestFairQuietQueue(t *testing.T) {
	t.Parallel()
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		s := redistest.Start(t)
		l := &line{
			fixture: &fixture{s, join(t, peer(t, release), interop.Single(s.Addr())), open(t, s.URL(), holdfast.Options{})},
			release: release, name: name(t),
		}
		for i := range 2 { // the side at the head of the queue
			const waiters, howLong = 6, time.Second
			holder := l.either(t, i)
			holder.Lock(t, 6*time.Second)
			for n := range waiters {
				l.join(t, l.either(t, n+i))
			}
			const most = 6 * waiters * int(howLong/time.Second)
			before, began, held := scripts(t, s), time.Now(), 0
			if redistest.Poll(howLong, func() bool { held = scripts(t, s) - before; return held > most }) {
				t.Errorf("%d scripts in %v", held, time.Since(began))
			}
			locktest.Eventually(t, 20*time.Second, "the lock expires", func() bool { return s.Int(t, "EXISTS", l.name) == 0 || len(l.queue(t)) < waiters })
			over := time.Now()
			locktest.Eventually(t, 10*time.Second, "the next waiter has the lock", func() bool { return len(l.queue(t)) < waiters })
			expired, free := scripts(t, s)-before-held, time.Since(over)
			t.Logf("%d scripts in %v of waiting, %d until the next waiter had the expired lock", held, howLong, expired)
			// Redisson polls in a tight loop while the lock is free and another waiter is next.
			if float64(expired) > 10_000*max(1, free.Seconds()) {
				t.Errorf("%d scripts until the next waiter had the lock, after %v", expired, free)
			}
			l.serve(t, redistest.Now(), 5*time.Second)
		}
	})
}
