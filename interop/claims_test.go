package interop_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/interop"
)

// These tests check what docs/from-redisson.md claims about differences of Redisson. If a
// claim fails, Redisson has been fixed, and the page must say so.
func TestClaims(t *testing.T) {
	r := newFixture(t, interop.Current)
	for claim, check := range map[string]func(t *testing.T, r *fixture, n string){
		"a shorter nested lease shortens the outer one": func(t *testing.T, r *fixture, n string) {
			lock := r.java.get(t, "getLock", n)
			lock.do(t, n, "lock", 60, "SECONDS")
			lock.do(t, n, "lock", 5, "SECONDS")
			atMost(t, lock.remaining(t, n), 5*time.Second)
		},
		"unlock of a fair lock that is free does not throw": func(t *testing.T, r *fixture, n string) {
			for _, release := range []interop.Release{interop.Current, interop.Era} {
				java := join(t, peer(t, release), interop.Single(r.server.Addr()))
				for method, throws := range map[string]bool{"getLock": true, "getFairLock": false} {
					name := n + method
					lock := java.get(t, method, name)
					lock.do(t, n, "lock")
					lock.do(t, n+" 2", "forceUnlock")
					if a := lock.Do(n, "unlock"); strings.Contains(a.Error, "IllegalMonitorStateException") != throws {
						t.Errorf("%v: unlock after %s: %v", release, method, a)
					}
					lock.do(t, n+" 2", "lock")
					if a := lock.Do(n, "unlock"); !strings.Contains(a.Error, "IllegalMonitorStateException") {
						t.Errorf("%v: unlock after %s, held by another: %v", release, method, a)
					}
					lock.do(t, n+" 2", "unlock")
				}
			}
		},
		"writing again adds the leases": func(t *testing.T, r *fixture, n string) {
			lock := r.java.get(t, "getReadWriteLock", n).keep(t, "writeLock")
			lock.do(t, n, "lock", 30, "SECONDS")
			lock.do(t, n, "lock", 30, "SECONDS")
			moreThan(t, lock.remaining(t, n), 40*time.Second)
		},
		"a reader that locks for writing deadlocks": func(t *testing.T, r *fixture, n string) {
			rw := r.java.get(t, "getReadWriteLock", n)
			rw.keep(t, "readLock").do(t, n, "lock")
			if rw.keep(t, "writeLock").do(t, n, "tryLock", 500, "MILLISECONDS").Bool() {
				t.Error("the call acquired the lock")
			}
			rw.keep(t, "readLock").do(t, n, "unlock")
		},
		"unlocking a nested read lock ends the renewal of the write lock": func(t *testing.T, r *fixture, n string) {
			java := join(t, peer(t, interop.Current), interop.Single(r.server.Addr()).With("lockWatchdogTimeout", 6000))
			rw := java.get(t, "getReadWriteLock", n)
			write, read := rw.keep(t, "writeLock"), rw.keep(t, "readLock")
			write.do(t, n, "lock")
			read.do(t, n, "lock")
			read.do(t, n, "unlock")
			if !write.do(t, n, "isLocked").Bool() {
				t.Fatal("the lock is free at once")
			}
			locktest.Eventually(t, 20*time.Second, "the lock is still held but reported as free", func() bool {
				return !write.do(t, n, "isLocked").Bool()
			})
		},
		"lockAndGetToken ignores its lease": func(t *testing.T, r *fixture, n string) {
			lock := r.java.get(t, "getFencedLock", n)
			lock.do(t, n, "lockAndGetToken", 5, "SECONDS")
			moreThan(t, lock.remaining(t, n), 10*time.Second)
			lock.do(t, n, "unlock")
		},
		"tryLockAndGetToken waits": func(t *testing.T, r *fixture, n string) {
			lock := r.java.get(t, "getFencedLock", n)
			lock.do(t, n, "lock")
			waiting := lock.Go(n+" 2", "tryLockAndGetToken")
			awaitWaiting(t, func() bool { return r.listeners(t, n) > 0 }, waiting)
			lock.do(t, n, "unlock")
			if within(t, 10*time.Second, waiting).Int() != 2 {
				t.Error("not the next token")
			}
			lock.do(t, n+" 2", "unlock")
		},
		"a token rises when its lock is entered again": func(t *testing.T, r *fixture, n string) {
			lock := r.java.get(t, "getFencedLock", n)
			first, second := lock.do(t, n, "lockAndGetToken").Int(), lock.do(t, n, "lockAndGetToken").Int()
			if second != first+1 {
				t.Errorf("%d, then %d", first, second)
			}
			lock.do(t, n, "forceUnlock")
		},
		"a client that shuts down does not release its locks": func(t *testing.T, r *fixture, n string) {
			client := join(t, peer(t, interop.Current), interop.Single(r.server.Addr()))
			client.get(t, "getLock", n).do(t, n, "lock")
			if err := client.Close(); err != nil {
				t.Fatal(err)
			}
			if locked, err := r.golang.Mutex(n).IsLocked(t.Context()); err != nil || !locked {
				t.Error(locked, err)
			}
		},
		"addPermits and drainPermits remove the TTL": func(t *testing.T, r *fixture, n string) {
			for _, args := range [][]any{{"addPermits", 1}, {"drainPermits"}} {
				s := r.java.get(t, "getSemaphore", n+args[0].(string))
				s.do(t, n, "trySetPermits", 1, "PT60S")
				moreThan(t, s.remaining(t, n), 10*time.Second)
				s.do(t, n, args[0].(string), args[1:]...)
				atMost(t, s.remaining(t, n), 0)
			}
		},
		"drainPermits turns a negative count into permits": func(t *testing.T, r *fixture, n string) {
			s := r.java.get(t, "getSemaphore", n)
			s.do(t, n, "addPermits", -2)
			s.do(t, n, "drainPermits")
			if free := s.do(t, n, "availablePermits").Int(); free != 0 {
				t.Error(free)
			}
		},
		"a permit without a lease never expires": func(t *testing.T, r *fixture, n string) {
			s := r.java.get(t, "getPermitExpirableSemaphore", n)
			s.do(t, n, "trySetPermits", 1)
			id := s.do(t, n, "acquire").String()
			if left := s.do(t, n, "getLeaseTime", id).Int(); left != -1 {
				t.Error(left)
			}
		},
		"updateLeaseTime shortens": func(t *testing.T, r *fixture, n string) {
			s := r.java.get(t, "getPermitExpirableSemaphore", n)
			s.do(t, n, "trySetPermits", 1)
			id := s.do(t, n, "acquire", 60, "SECONDS").String()
			s.do(t, n, "updateLeaseTime", id, 20, "SECONDS")
			atMost(t, time.Duration(s.do(t, n, "getLeaseTime", id).Int())*time.Millisecond, 20*time.Second)
		},
		"deleting a latch does not wake its waiters": func(t *testing.T, r *fixture, n string) {
			java := join(t, peer(t, interop.Current), interop.Single(r.server.Addr()))
			latch := java.get(t, "getCountDownLatch", n)
			latch.do(t, n, "trySetCount", 1)
			waiting := awaits(t, latch, n+" 2")
			java.staysAsleep(t, n+" 2", waiting, func() { latch.do(t, n, "delete") })
			latch.do(t, n, "trySetCount", 1)
			latch.do(t, n, "countDown")
			within(t, 10*time.Second, waiting)
		},
		"permits released to a rate limiter are granted twice": func(t *testing.T, r *fixture, n string) {
			l := r.java.get(t, "getRateLimiter", n)
			l.do(t, n, "trySetRate", "OVERALL", 2, 60, "MINUTES")
			l.do(t, n, "acquire", 2)
			l.do(t, n, "release", 2)
			r.age(t, n, 30*time.Minute)
			l.do(t, n, "acquire", 2) // for an hour there should be no permit
			r.age(t, n, 31*time.Minute)
			if free := l.do(t, n, "availablePermits").Int(); free != 2 {
				t.Error(free)
			}
		},
		"a multi lock with a lease sets a TTL on the counter of a fenced part": func(t *testing.T, r *fixture, n string) {
			all := r.java.get(t, "getMultiLock", []any{r.java.get(t, "getFencedLock", n), r.java.get(t, "getLock", n+" 2")})
			if !all.do(t, n, "tryLock", 20, 60, "SECONDS").Bool() {
				t.Fatal("not locked")
			}
			counter := r.java.get(t, "getAtomicLong", "redisson_lock_token:{"+n+"}")
			moreThan(t, counter.remaining(t, n), time.Second)
			for _, method := range []string{"isLocked", "getHoldCount", "forceUnlock", "remainTimeToLive", "newCondition"} {
				if a := all.Do(n, method); !strings.Contains(a.Error, "UnsupportedOperationException") {
					t.Errorf("%s of a multi lock: %v", method, a)
				}
			}
			all.do(t, n, "unlock")
		},
	} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			check(t, r, name(t))
		})
	}
}

// remaining returns the remaining time of an object, according to Redisson.
func (o object) remaining(tb testing.TB, thread string) time.Duration {
	tb.Helper()
	return time.Duration(o.do(tb, thread, "remainTimeToLive").Int()) * time.Millisecond
}

func atMost(tb testing.TB, d, most time.Duration) {
	tb.Helper()
	if d > most {
		tb.Errorf("%v, more than %v", d, most)
	}
}

func moreThan(tb testing.TB, d, least time.Duration) {
	tb.Helper()
	if d <= least {
		tb.Errorf("%v, not more than %v", d, least)
	}
}
