package behaviour_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
)

// A log of events, in short.
type eventLog struct {
	mu    sync.Mutex
	lines []string
}

// Observe keeps the events of calls and leases.
func (l *eventLog) Observe(e observe.Event) {
	if e.ID == 0 && e.Type != observe.Released {
		return // renewals, for example
	}
	line := fmt.Sprintf("%v %s %s", e.Type, e.Kind, e.Name)
	for _, s := range []string{e.Outcome(), string(e.Via)} {
		if s != "" && s != "acquired" && e.Type < observe.Released {
			line += " " + s
		}
	}
	if e.Permits > 0 {
		line += fmt.Sprintf(" %d", e.Permits)
	}
	if e.Reason != "" {
		line += " " + e.Reason
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *eventLog) seen() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// Every kind reports the calls that acquire, fail and release, and a loss.
func TestObserver(t *testing.T) {
	s := redistest.Shared(t)
	ctx := t.Context()
	const n = "x" // in what is wanted
	lock := func(kind string) []string {
		return []string{
			"started " + kind + " x", "acquired " + kind + " x server",
			"started " + kind + " x", "acquired " + kind + " x reentry", "released " + kind + " x",
			"released " + kind + " x",
		}
	}
	locker := func(m holdfast.Locker) {
		l := locktest.Lock(t, ctx, m)
		locktest.Release(t, locktest.Lock(t, l.Context(), m))
		locktest.Release(t, l)
	}
	tests := []struct {
		name string
		do   func(c *holdfast.Client, name string)
		want []string
	}{
		{"mutex", func(c *holdfast.Client, name string) { locker(c.Mutex(name)) }, lock("mutex")},
		{"fair", func(c *holdfast.Client, name string) { locker(c.FairMutex(name)) }, lock("fair mutex")},
		{"fenced", func(c *holdfast.Client, name string) { locker(c.FencedMutex(name)) }, lock("fenced mutex")},
		{"read", func(c *holdfast.Client, name string) { locker(c.RWMutex(name).RLocker()) }, lock("read lock")},
		{"write", func(c *holdfast.Client, name string) { locker(c.RWMutex(name)) }, lock("write lock")},
		{"multi", func(c *holdfast.Client, name string) {
			locker(holdfast.MultiLocker(c.Mutex(name), c.FencedMutex(name+"2")))
		}, lock("multi")},
		{"busy", func(c *holdfast.Client, name string) {
			l := locktest.Lock(t, ctx, c.Mutex(name))
			_, _ = c.Mutex(name).TryLock(ctx)
			_, _ = holdfast.MultiLocker(c.Mutex(name)).TryLock(ctx)
			locktest.Release(t, l)
		}, []string{
			"started mutex x", "acquired mutex x server",
			"started mutex x", "failed mutex x busy",
			"started multi x", "failed multi x busy",
			"released mutex x",
		}},
		{"lost", func(c *holdfast.Client, name string) {
			locktest.Lock(t, ctx, holdfast.MultiLocker(c.Mutex(name), c.Mutex(name+"2")))
			_, _ = c.Mutex(name).ForceUnlock(ctx)
		}, []string{"started multi x", "acquired multi x server", "lost multi x forced"}},
		{"election", func(c *holdfast.Client, name string) {
			l := locktest.Campaign(t, ctx, c.Election(name), "a")
			_, _ = c.Election(name).TryCampaign(ctx, "b")
			locktest.Release(t, l)
		}, []string{"started election x", "acquired election x server", "started election x", "failed election x busy", "released election x"}},
		{"leased semaphore", func(c *holdfast.Client, name string) {
			sem := c.LeasedSemaphore(name)
			_, _ = sem.TrySet(ctx, 3, 0)
			l := locktest.Obtain(t, sem, 2)
			_, _ = sem.TryAcquire(ctx, 2)
			locktest.Release(t, l)
		}, []string{
			"started leased semaphore x 2", "acquired leased semaphore x server 2",
			"started leased semaphore x 2", "failed leased semaphore x busy 2", "released leased semaphore x 2",
		}},
		{"semaphore", func(c *holdfast.Client, name string) {
			sem := c.Semaphore(name)
			_, _ = sem.TrySet(ctx, 3, 0)
			_ = sem.Acquire(ctx, 2)
			_ = sem.TryAcquire(ctx, 2)
			_ = sem.Release(ctx, 2)
		}, []string{
			"started semaphore x 2", "acquired semaphore x server 2",
			"started semaphore x 2", "failed semaphore x busy 2", "released semaphore x 2",
		}},
		{"limiter", func(c *holdfast.Client, name string) {
			l := c.RateLimiter(name)
			locktest.SetRate(t, l, holdfast.Rate{Permits: 2, Per: time.Hour})
			_, _ = l.AllowN(ctx, 2)
			_, _ = l.Allow(ctx)
			_ = l.Release(ctx, 2)
		}, []string{
			"started rate limiter x 2", "acquired rate limiter x server 2",
			"started rate limiter x 1", "failed rate limiter x busy 1", "released rate limiter x 2",
		}},
		{"no rate", func(c *holdfast.Client, name string) {
			_, _ = c.RateLimiter(name).Allow(ctx)
		}, []string{"started rate limiter x 1", "failed rate limiter x invalid 1"}},
		{"latch", func(c *holdfast.Client, name string) {
			l := locktest.NewLatch(t, c, name, 1)
			_ = l.Wait(ctx, holdfast.Wait(time.Millisecond))
			locktest.CountDown(t, l, 0)
			_ = l.Wait(ctx)
		}, []string{"started latch x", "failed latch x busy", "started latch x", "acquired latch x server"}},
		{"full", func(c *holdfast.Client, name string) {
			l := locktest.Lock(t, ctx, c.Mutex(name))
			waiting, cancel := context.WithCancel(ctx)
			waiter := locktest.Background(waiting, c.Mutex(name))
			locktest.WantWaiting(t, c, waiter)
			_, _ = c.Mutex(name).TryLock(ctx, holdfast.Wait(time.Minute))
			cancel()
			<-waiter
			locktest.Release(t, l)
		}, []string{
			"started mutex x", "acquired mutex x server", "started mutex x", "started mutex x", "failed mutex x full",
			"failed mutex x canceled", "released mutex x",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			log := new(eventLog)
			o := holdfast.Options{Observers: []observe.Observer{log}}
			if test.name == "full" {
				o.MaxQueue = 1
			}
			c := locktest.Open(t, s.URL(), o)
			name := "{" + locktest.Name(t) + "}"
			test.do(c, name)
			_ = c.Close()
			redistest.Poll(10*time.Second, func() bool { return len(log.seen()) >= len(test.want) }) // Close waits only for a moment
			var got []string
			for _, line := range log.seen() {
				line = strings.ReplaceAll(line, name+"+"+name+"2", n)
				got = append(got, strings.ReplaceAll(line, name, n))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(test.want, "\n\t"))
			}
		})
	}
}
