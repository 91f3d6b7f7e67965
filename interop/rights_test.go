package interop_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// The permissions in docs/operations.md and docs/from-redisson.md are also enough for Java.
func TestRightsOfJava(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	single, _, _ := strings.Cut(read(t, "../docs/operations.md"), "**A master and replicas")
	for line := range strings.Lines(single + read(t, fromRedisson)) {
		if strings.HasPrefix(line, "ACL SETUSER app ") {
			s.Do(t, strings.Fields(line)...)
		}
	}
	releases(t, func(t *testing.T, release interop.Release) {
		config := interop.Single(s.Addr()).With("singleServerConfig.username", "app").With("singleServerConfig.password", "secret")
		r := join(t, peer(t, release), config)
		take := func(t *testing.T, k kind) {
			n := "app:" + name(t)
			lock := k.java(t, r, n)
			lock.do(t, n, "lock")
			var waiting []<-chan interop.Answer
			for _, thread := range []string{n + " 2", n + " 3"} { // so that the queue has more than one waiter
				waits := threadWaits(t, peer(t, release), thread, inQueue)
				waiting = append(waiting, peer(t, release).Send(interop.Call{Thread: thread, Times: 1, Calls: []interop.Call{
					lock.Call("", "tryLock", 60, "SECONDS"), lock.Call("", "unlock"),
				}}))
				if k.name != "read" && k.name != "spin" { // a reader enters, and a spin lock polls
					awaitWaiting(t, waits, waiting[len(waiting)-1])
				}
			}
			lock.do(t, n, "unlock")
			for _, w := range waiting {
				within(t, time.Minute, w)
			}
		}
		exclusive(t, release, take)
		t.Run("read", func(t *testing.T) {
			t.Parallel()
			take(t, kindOf("read"))
		})
		for _, calls := range [][][]any{
			{{"getLock"}, {"lock"}, {"isLocked"}, {"getHoldCount"}, {"remainTimeToLive"}, {"forceUnlock"}},
			{{"getSemaphore"}, {"trySetPermits", 3}, {"acquire"}, {"release"}, {"addPermits", 1}, {"drainPermits"}, {"tryAcquire", 1, 50, "MILLISECONDS"}, {"availablePermits"}},
			{{"getPermitExpirableSemaphore"}, {"trySetPermits", 2}, {"acquire", 5, "MILLISECONDS"}, {"acquire"}, {"addPermits", 1}, {"availablePermits"}},
			{{"getCountDownLatch"}, {"trySetCount", 1}, {"await", 50, "MILLISECONDS"}, {"getCount"}, {"countDown"}, {"delete"}},
			{{"getRateLimiter"}, {"trySetRate", "OVERALL", 2, 1, "SECONDS"}, {"acquire", 2}, {"acquire", 1}, {"availablePermits"}, {"getConfig"}, {"setRate", "PER_CLIENT", 2, 1, "SECONDS"}, {"tryAcquire"}},
			{{"getAtomicLong"}, {"set", 3}, {"get"}, {"addAndGet", 3}, {"incrementAndGet"}, {"decrementAndGet"}, {"compareAndSet", 6, 7}, {"getAndSet", 3}, {"getAndDelete"}},
			{{"getBucket"}, {"trySet", "a"}, {"set", "b"}, {"set", "c", 10, "SECONDS"}, {"get"}, {"compareAndSet", "c", "d"}, {"getAndSet", "e"}, {"getAndDelete"}},
		} {
			getter := calls[0][0].(string)
			t.Run(getter, func(t *testing.T) {
				t.Parallel()
				n := "app:" + name(t)
				o := r.get(t, getter, n)
				for _, c := range calls[1:] {
					o.do(t, n, c[0].(string), c[1:]...)
				}
			})
		}
	})
}
