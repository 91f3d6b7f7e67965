package interop_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	goobject "github.com/holdfast-go/holdfast/object"
)

var recordings = append(lockScripts, valueScripts...)

type (
	semaphore = *holdfast.Semaphore
	leased    = *holdfast.LeasedSemaphore
	latch     = *holdfast.Latch
	rates     = *holdfast.RateLimiter
	generator = *goobject.IDGenerator
	long      = *goobject.AtomicLong
	text      = *goobject.Bucket[string]
)

func newSemaphore(c *holdfast.Client, n string) any { return c.Semaphore(n) }
func newPermits(c *holdfast.Client, n string) any   { return c.LeasedSemaphore(n) }
func newIDs(c *holdfast.Client, n string) any       { return goobject.NewIDGenerator(c, n) }

var valueScripts = []*script{
	{name: "semaphore", java: getter("getSemaphore"), golang: newSemaphore, era: true, deviates: []*deviation{markKey}, steps: []step{
		{does: "it is set to 3 permits", op: same(java("trySetPermits", 3), func(s semaphore) (any, error) { return s.TrySet(bg, 3, 0) })},
		{does: "it is set to 5 without effect", op: same(java("trySetPermits", 5), func(s semaphore) (any, error) { return s.TrySet(bg, 5, 0) })},
		{does: "2 are taken", op: same(java("acquire", 2), func(s semaphore) (any, error) { return nil, s.Acquire(bg, 2) })},
		{does: "2 are not taken", op: same(java("tryAcquire", 2), func(s semaphore) (any, error) { return granted(s.TryAcquire(bg, 2)) })},
		{does: "1 is released", op: same(java("release", 1), func(s semaphore) (any, error) { return nil, s.Release(bg, 1) })},
		{does: "4 are added", op: addPermits(4)},
		{does: "10 are removed", op: addPermits(-10)},
		{does: "12 are released", op: same(java("release", 12), func(s semaphore) (any, error) { return nil, s.Release(bg, 12) })},
		{does: "it is drained", op: drain},
		{does: "it is deleted", op: remove},
		{does: "1 is released although none is acquired", op: same(java("release", 1), func(s semaphore) (any, error) { return nil, s.Release(bg, 1) })},
	}},
	{name: "semaphore-ends", java: getter("getSemaphore"), golang: newSemaphore, deviates: []*deviation{markKey}, steps: []step{
		{does: "1 is released if it exists", op: releaseIfExists},
		{does: "it is set to 3 permits for 60 s", op: same(java("trySetPermits", 3, "PT60S"), func(s semaphore) (any, error) { return s.TrySet(bg, 3, time.Minute) })},
		{does: "1 is released if it exists", op: releaseIfExists},
		{does: "8 are removed", op: addPermits(-8), deviates: []*deviation{keptTTL}},
		{does: "it is drained", op: drain, deviates: []*deviation{nothingOutOfNothing}},
	}},
	{name: "permits", java: getter("getPermitExpirableSemaphore"), golang: newPermits, deviates: []*deviation{markKey}, steps: []step{
		{does: "it is set to 3 permits", op: same(java("trySetPermits", 3), func(s leased) (any, error) { return s.TrySet(bg, 3, 0) })},
		{does: "p is taken for 60 s", op: take("p", 60)},
		{does: "q is taken for 90 s", op: take("q", 90)},
		{does: "the lease of q is set to 300 s", op: op{java: java("updateLeaseTime", kept("q"), 300, "SECONDS"), golang: func(g *goSide) (any, error) {
			return true, g.object.(leased).ExtendID(bg, g.owner("q").leases[0].PermitIDs()[0], 300*time.Second)
		}}},
		{does: "p is released", op: releasePermits("p")},
		{does: "p is released again", op: releasePermits("p")},
		{does: "there are to be 5 permits", op: same(java("setPermits", 5), func(s leased) (any, error) { return nil, s.Set(bg, 5) })},
		{does: "2 are added", op: same(java("addPermits", 2), func(s leased) (any, error) { return nil, s.Add(bg, 2) }), deviates: []*deviation{addedTotal}},
		{does: "2 are taken for 60 s", op: takeTwo("r", 60)},
		{does: "2 are released", op: releasePermits("r"), deviates: []*deviation{addedTotal}},
		{does: "it is to end in 600 s", op: expire(600)},
		{does: "s is taken for 60 s", op: take("s", 60)},
		{does: "t is taken without an end", op: take("t", 0), deviates: []*deviation{noEnd}},
		{does: "it is deleted", op: remove},
	}},
	{name: "permits-over", java: getter("getPermitExpirableSemaphore"), golang: newPermits, deviates: []*deviation{markKey}, steps: []step{
		{does: "it is set to 2 permits", op: same(java("trySetPermits", 2), func(s leased) (any, error) { return s.TrySet(bg, 2, 0) })},
		{does: "p is taken for 60 s", op: take("p", 60)},
		{does: "q is taken for 3 s", op: take("q", 3)},
		{does: "r is taken for 60 s, when q is over", op: take("r", 60)},
	}},
	{name: "latch", java: getter("getCountDownLatch"), golang: func(c *holdfast.Client, n string) any { return c.Latch(n) }, era: true, deviates: []*deviation{markKey}, steps: []step{
		{does: "it is set to 2", op: setLatch(2)},
		{does: "it is set to 5 without effect", op: setLatch(5)},
		{does: "it is counted down", op: countDown},
		{does: "it is counted down to zero", op: countDown},
		{does: "it is counted down below zero", op: countDown},
		{does: "it is set to 1", op: setLatch(1)},
		{does: "it is deleted", op: remove},
	}},
	limiterScript("limiter", false, markKey),
	limiterScript("limiter-per-client", true, markKey, clientRate),
	{name: "ids", java: getter("getIdGenerator"), golang: newIDs, deviates: []*deviation{markKey}, steps: []step{
		{does: "it begins at 100, with blocks of 2", op: same(java("tryInit", 100, 2), func(g generator) (any, error) { return g.TryInit(bg, 100, 2) })},
		{does: "the first id", op: nextID},
		{does: "the second", op: nextID},
		{does: "the third", op: nextID},
		{does: "it is initialized again without effect", op: same(java("tryInit", 7, 7), func(g generator) (any, error) { return g.TryInit(bg, 7, 7) })},
	}},
	{name: "ids-unset", java: getter("getIdGenerator"), golang: newIDs, deviates: []*deviation{markKey}, steps: []step{
		{does: "the first id", op: nextID},
		{does: "it is deleted", op: remove},
	}},
	{name: "long", java: getter("getAtomicLong"), golang: func(c *holdfast.Client, n string) any { return goobject.NewAtomicLong(c, n) }, deviates: []*deviation{markKey}, steps: []step{
		{does: "7 is stored", op: same(java("set", 7), func(a long) (any, error) { return nil, a.Store(bg, 7) })},
		{does: "it is to end in 60 s", op: expire(60)},
		{does: "−10 is added", op: same(java("addAndGet", -10), func(a long) (any, error) { return a.Add(bg, -10) })},
		{does: "−3 becomes 5", op: same(java("compareAndSet", -3, 5), func(a long) (any, error) { return a.CompareAndSwap(bg, -3, 5) })},
		{does: "4 does not become 6", op: same(java("compareAndSet", 4, 6), func(a long) (any, error) { return a.CompareAndSwap(bg, 4, 6) })},
		{does: "it is swapped for 9", op: same(java("getAndSet", 9), func(a long) (any, error) { return a.Swap(bg, 9) })},
		{does: "it is taken away", op: same(java("getAndDelete"), func(a long) (any, error) { return a.LoadAndDelete(bg) })},
		{does: "0 becomes 1", op: same(java("compareAndSet", 0, 1), func(a long) (any, error) { return a.CompareAndSwap(bg, 0, 1) })},
	}},
	{name: "bucket", java: stringBucket, golang: func(c *holdfast.Client, n string) any { return goobject.NewBucket(c, n, goobject.StringCodec{}) }, deviates: []*deviation{markKey, valueTold}, steps: []step{
		{does: "it is not set, because it does not exist", op: same(java("setIfExists", "zero"), func(b text) (any, error) { return b.SetIfExists(bg, "zero", 0) })},
		{does: "it is set", op: same(java("set", "größer"), func(b text) (any, error) { return nil, b.Set(bg, "größer", 0) })},
		{does: "it is set for 60 s", op: same(java("set", "two", 60, "SECONDS"), func(b text) (any, error) { return nil, b.Set(bg, "two", time.Minute) })},
		{does: "it is set, and keeps its end", op: same(java("setAndKeepTTL", "three"), func(b text) (any, error) { return nil, b.SetKeepTTL(bg, "three") })},
		{does: "it is to end no more", op: persist},
		{does: "three becomes four", op: same(java("compareAndSet", "three", "four"), func(b text) (any, error) { return b.CompareAndSwap(bg, "three", "four") })},
		{does: "three does not become five", op: same(java("compareAndSet", "three", "five"), func(b text) (any, error) { return b.CompareAndSwap(bg, "three", "five") })},
		{does: "it is swapped", op: same(java("getAndSet", "six"), func(b text) (any, error) { return found(b.Swap(bg, "six", 0)) }), deviates: []*deviation{oldValue}},
		{does: "it is set, since it exists", op: same(java("setIfExists", "seven"), func(b text) (any, error) { return b.SetIfExists(bg, "seven", 0) }), deviates: []*deviation{oldValue}},
		{does: "it is renamed", op: rename, deviates: []*deviation{oldValue}},
	}},
}

// stringBucket returns a bucket with a codec that any program can read.
func stringBucket(tb testing.TB, r *redisson, name string) object {
	tb.Helper()
	class := object{r.Object}.keep(tb, "getClass")
	codec := class.keep(tb, "forName", "org.redisson.client.codec.StringCodec").keep(tb, "newInstance")
	return r.get(tb, "getBucket", name, codec)
}

// found returns the answer for an existing value.
func found(v string, ok bool, err error) (any, error) {
	if !ok {
		return nil, err
	}
	return v, err
}

func addPermits(n int) op {
	return same(java("addPermits", n), func(s semaphore) (any, error) { return nil, s.Add(bg, n) })
}

var (
	drain           = same(java("drainPermits"), func(s semaphore) (any, error) { return s.Drain(bg) })
	releaseIfExists = same(java("releaseIfExists", 1), func(s semaphore) (any, error) { return s.ReleaseIfExists(bg, 1) })
	nextID          = same(java("nextId"), func(g generator) (any, error) { return g.Next(bg) })
	countDown       = same(java("countDown"), func(l latch) (any, error) { _, err := l.CountDown(bg); return nil, err })
)

// take acquires a permit and keeps its id. 0 seconds mean no lease time.
func take(id string, seconds int) op {
	c := java("acquire")
	if seconds > 0 {
		c.args = []any{seconds, "SECONDS"}
	}
	return acquire(c, id, 1, seconds)
}

// takeTwo acquires two permits and keeps their ids.
func takeTwo(id string, seconds int) op {
	return acquire(java("acquire", 2, seconds, "SECONDS"), id, 2, seconds)
}

func acquire(c call, id string, n, seconds int) op {
	c.as = id
	return op{java: c, golang: func(g *goSide) (any, error) {
		o := g.owner(id)
		if err := o.take(g.object.(leased).Acquire(bg, n, options(time.Duration(seconds)*time.Second)...)); err != nil {
			return nil, err
		}
		ids := o.leases[0].PermitIDs()
		if n == 1 {
			return ids[0], nil
		}
		return fmt.Sprintf("[%s]", strings.Join(ids, ", ")), nil // in the format of Java
	}}
}

// releasePermits releases permits by their ids.
func releasePermits(id string) op {
	return op{java: java("release", kept(id)), golang: func(g *goSide) (any, error) {
		return nil, g.object.(leased).ReleaseIDs(bg, g.owner(id).leases[0].PermitIDs()...)
	}}
}

func setLatch(n int) op {
	return same(java("trySetCount", n), func(l latch) (any, error) { return l.TrySet(bg, n) })
}

func limiterScript(name string, perClient bool, d ...*deviation) *script {
	kind := map[bool]string{false: "OVERALL", true: "PER_CLIENT"}[perClient]
	first := holdfast.Rate{Permits: 5, Per: time.Minute, PerClient: perClient}
	second := holdfast.Rate{Permits: 10, Per: 90 * time.Second, PerClient: perClient, KeepAlive: 300 * time.Second}
	allow := func(n int) op {
		return same(java("tryAcquire", n), func(l rates) (any, error) { return l.AllowN(bg, n) })
	}
	return &script{name: name, java: getter("getRateLimiter"), golang: func(c *holdfast.Client, n string) any { return c.RateLimiter(n) }, deviates: d, steps: []step{
		{does: "its rate is 5 in 60 s", op: same(java("trySetRate", kind, 5, "PT60S"), func(l rates) (any, error) { return l.TrySetRate(bg, first) })},
		{does: "another rate is set without effect", op: same(java("trySetRate", kind, 7, "PT10S"), func(l rates) (any, error) { return l.TrySetRate(bg, second) })},
		{does: "2 are taken", op: allow(2)},
		{does: "1 is taken", op: allow(1)},
		{does: "3 are not", op: allow(3)},
		{does: "1 is released", op: same(java("release", 1), func(l rates) (any, error) { return nil, l.Release(bg, 1) }), deviates: []*deviation{logForgets}},
		{does: "the rate is 10 in 90 s, kept for 300 s", op: same(java("setRate", kind, 10, "PT90S", "PT300S"), func(l rates) (any, error) { return nil, l.SetRate(bg, second) })},
		{does: "4 are taken", op: allow(4)},
		{does: "it is deleted", op: remove},
	}}
}
