package repo_test

import (
	"slices"
	"strings"
	"testing"
)

// An option compiles where it applies, and nowhere else.
func TestOptionsWhereTheyApply(t *testing.T) {
	const locks, rwmutex, permits, semaphore, rate, waits = "locks", "RWMutex", "LeasedSemaphore", "Semaphore", "RateLimiter", "waits"
	uses := map[string][]string{
		locks: {
			`client.Mutex(name, %)`, `client.FairMutex(name, %)`, `client.FencedMutex(name, %)`, `client.Election(name, %)`, `redlock.Mutex(name, %)`,
			`client.Mutex(name).Lock(ctx, %)`, `client.FencedMutex(name).TryLock(ctx, %)`, `client.FairMutex(name).Do(ctx, fn, %)`,
			`client.RWMutex(name).Lock(ctx, %)`, `client.RWMutex(name).RLock(ctx, %)`, `client.RWMutex(name).TryRLock(ctx, %)`, `client.RWMutex(name).RDo(ctx, fn, %)`,
			`locker.Lock(ctx, %)`, `locker.TryLock(ctx, %)`, `holdfast.DoValue(ctx, locker, compute, %)`, `holdfast.SyncLocker(ctx, locker, %)`,
			`client.Election(name).Campaign(ctx, name, %)`, `client.Election(name).TryCampaign(ctx, name, %)`, `client.Election(name).Lead(ctx, name, fn, %)`,
			`client.LeasedSemaphore(name).Acquire(ctx, 1, %)`, `client.LeasedSemaphore(name).TryAcquire(ctx, 1, %)`, `client.LeasedSemaphore(name).Do(ctx, 1, fn, %)`,
		},
		rwmutex:   {`client.RWMutex(name, %)`},
		permits:   {`client.LeasedSemaphore(name, %)`},
		semaphore: {`client.Semaphore(name, %)`},
		rate:      {`client.RateLimiter(name, %)`},
		waits: {
			`client.Latch(name, %)`, `client.Latch(name).Wait(ctx, %)`, `client.Election(name).Observe(ctx, %)`,
			`client.Semaphore(name).Acquire(ctx, 1, %)`, `client.Semaphore(name).TryAcquire(ctx, 1, %)`,
			`client.RateLimiter(name).Wait(ctx, %)`, `client.RateLimiter(name).WaitN(ctx, 1, %)`, `client.RateLimiter(name).Reserve(ctx, %)`, `client.RateLimiter(name).ReserveN(ctx, 1, %)`,
		},
	}
	lock, all := []string{locks, rwmutex, permits}, []string{locks, rwmutex, permits, semaphore, rate, waits}
	load := exported(t)
	s, err := newScope(load, "var (\n\tredlock *holdfast.Redlock\n\tlocker holdfast.Locker\n)\n")
	if err != nil {
		t.Fatal(err)
	}
	for option, where := range map[string][]string{
		`holdfast.LeaseTime(d)`:              lock,
		`holdfast.WatchdogTimeout(d)`:        lock,
		`holdfast.AtLeast(d)`:                lock,
		`holdfast.NonReentrant()`:            lock,
		`holdfast.OnAcquire(acquired)`:       lock,
		`holdfast.OnRelease(released)`:       lock,
		`holdfast.Wait(d)`:                   all,
		`holdfast.Poll(holdfast.Backoff{})`:  all,
		`holdfast.WriterFirst()`:             {rwmutex},
		`holdfast.WithPermits(n)`:            {permits, semaphore},
		`holdfast.WithRate(holdfast.Rate{})`: {rate},
		`func(*holdfast.Lease) {}`:           nil, // an option cannot be made elsewhere
		`interface{}(holdfast.LeaseTime(d))`: nil,
	} {
		for use, calls := range uses {
			for _, call := range calls {
				code := strings.Replace(call, "%", option, 1)
				err := s.eval(code)
				if want := slices.Contains(where, use); (err == nil) != want {
					t.Errorf("%s: compiles: %v, want %v: %v", code, err == nil, want, err)
				}
			}
		}
	}
}
