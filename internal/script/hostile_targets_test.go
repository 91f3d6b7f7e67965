package script_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// The keys of the object N, by what they hold.
var (
	lockKeys    = map[string]string{"N": "lock"}
	queuedKeys  = map[string]string{"N": "lock", "holdfast:queue:{N}": "times"}
	fencedQueue = map[string]string{"N": "lock", "redisson_lock_token:{N}": "token", "holdfast:queue:{N}": "times"}
	rwQueue     = map[string]string{"N": "rw", "{N}:a:1:rwlock_timeout:1": "hold", "holdfast:writers:{N}": "times", "holdfast:queue:{N}": "times"}
	fencedKeys  = map[string]string{"N": "lock", "redisson_lock_token:{N}": "token"}
	fairKeys    = map[string]string{"N": "lock", "redisson_lock_queue:{N}": "queue", "redisson_lock_timeout:{N}": "times", "holdfast:waiting:{N}": "times"}
	rwKeys      = map[string]string{"N": "rw", "{N}:a:1:rwlock_timeout:1": "hold", "holdfast:writers:{N}": "times"}
	groupKeys   = map[string]string{"N": "lock", "N3": "rw", "N4": "rw", "N5": "lock", "holdfast:writers:{N3}": "times", "holdfast:writers:{N4}": "times", "redisson_lock_token:{N5}": "token"}
	mutexesKeys = map[string]string{"N": "lock", "N3": "lock", "N4": "lock"}
	permitKeys  = map[string]string{"N": "count", "{N}:timeout": "leases"}
	permitQueue = map[string]string{"N": "count", "{N}:timeout": "leases", "holdfast:queue:{N}": "times"}
	returnKeys  = map[string]string{"N": "count", "{N}:timeout": "leases", "holdfast:once:{N}:a:1": "mark"}
	countedKeys = map[string]string{"N": "count", "holdfast:once:{N}:a:1": "mark"}
	longKeys    = map[string]string{"N": "long", "holdfast:once:{N}:c:0": "mark"}
	valueKeys   = map[string]string{"N": "value"}
	bucketKeys  = map[string]string{"N": "value", "holdfast:once:{N}:c:0": "mark", "holdfast:once:{N}:c:0:old": "value"}
	idKeys      = map[string]string{"N": "long", "{N}:allocation": "size"}
	idInitKeys  = map[string]string{"N": "long", "{N}:allocation": "size", "holdfast:once:{N}:c:0": "mark"}
	rateKeys    = map[string]string{"N": "rate", "{N}:value": "free", "{N}:value:c": "free", "{N}:permits": "log", "{N}:permits:c": "log", "{N}:value:c:rate": "basis"}
	rateOnce    = map[string]string{"N": "rate", "{N}:value": "free", "{N}:value:c": "free", "{N}:permits": "log", "{N}:permits:c": "log", "{N}:value:c:rate": "basis", "holdfast:once:{N}:a:1": "mark"}
	objectKeys  = map[string]string{"N": "value", "{N}:allocation": "value"}
	objectOnce  = map[string]string{"N": "value", "{N}:allocation": "value", "holdfast:once:{N}:c:0": "mark"}
	objectTwice = map[string]string{"N": "value", "{N}:allocation": "value", "new{N}": "value", "new{N}:allocation": "value", "holdfast:once:{N}:c:0": "mark"}
	rateObject  = map[string]string{"N": "rate", "{N}:value": "free", "{N}:value:c": "free", "{N}:permits": "log", "{N}:permits:c": "log", "{N}:value:c:rate": "basis", "holdfast:once:{N}:c:0": "mark"}
	lookKeys    = map[string]string{"N": "rw", "redisson_lock_queue:{N}": "queue", "redisson_lock_token:{N}": "token", "{N}:timeout": "leases", "{N}:a:1:rwlock_timeout:1": "hold", "holdfast:queue:{N}": "times"}
	lookPermits = map[string]string{"N": "count", "redisson_lock_queue:{N}": "queue", "redisson_lock_token:{N}": "token", "{N}:timeout": "leases", "holdfast:queue:{N}": "times"}
	breakKeys   = map[string]string{"N": "rw", "redisson_lock_queue:{N}": "queue", "redisson_lock_timeout:{N}": "times", "holdfast:waiting:{N}": "times", "{N}:a:1:rwlock_timeout:1": "hold"}
)

// targets are all scripts. A script may have several.
var targets = []target{
	{script: "mutex_acquire", keys: lockKeys, do: grabs(mutex, try(newcomer), newcomer)},
	{script: "mutex_acquire", keys: lockKeys, do: grabs(mutex, again("a:1", 2, 60), "a:1")},
	{script: "mutex_release", keys: lockKeys, do: plain(release(mutex, "a:1", 0))},
	{script: "mutex_release", keys: lockKeys, do: plain(release(mutex, "a:1", 1))},
	{script: "mutex_queue", keys: queuedKeys, do: grabs(queued, line(newcomer), newcomer)},
	{script: "mutex_queue", keys: queuedKeys, do: grabs(queued, line("a:1"), "a:1")},
	{script: "mutex_grant", keys: queuedKeys, do: plain(release(queued, "a:1", 0))},
	{script: "mutex_grant", keys: queuedKeys, do: plain(release(queued, newcomer, 0))},
	{script: "queue_prune", keys: map[string]string{"holdfast:queue:{N}": "times"}, do: plain(prune)},
	{script: "mutex_force", keys: lockKeys, do: plain(forceMutex(""))},
	{script: "mutex_force", keys: lockKeys, do: plain(forceMutex("a:1"))},
	{script: "mutex_inspect", keys: lockKeys, do: plain(inspectMutex)},
	{script: "mutex_inspect", keys: lockKeys, do: plain(func(ctx context.Context, d driver.Driver, name string) error {
		_, _, err := script.Holders(ctx, d, name)
		return err
	})},
	{script: "renew", keys: lockKeys, do: renewal(script.NewMutex("N").Ref("a:1"))},
	{script: "keep", keys: lockKeys, do: decoded(func(string) driver.Call {
		m := script.NewMutex("N")
		return script.Keep(m.Ref("a:1"), time.Minute, m.Channels("a:1")[0])
	}, func(r driver.Reply) (bool, error) { return script.Kept(r, nil) })},
	{script: "fenced_acquire", keys: fencedKeys, do: grabFenced(fenced, try(newcomer))},
	{script: "fenced_inspect", keys: fencedKeys, do: plain(inspectFenced)},
	{script: "fenced_queue", keys: fencedQueue, do: grabFenced(queuedFenced, line(newcomer))},
	{script: "fenced_queue", keys: fencedQueue, do: plain(acquire(queuedFenced, line("a:1")))},
	{script: "fenced_grant", keys: fencedQueue, do: plain(release(queuedFenced, "a:1", 0))},
	{script: "fenced_grant", keys: fencedQueue, do: plain(release(queuedFenced, newcomer, 0))},
	{script: "fair_acquire", keys: fairKeys, do: grabs(fair, try(newcomer), newcomer)},
	{script: "fair_acquire", keys: fairKeys, do: grabs(fair, wait(newcomer), newcomer)},
	{script: "fair_acquire", keys: fairKeys, do: grabs(fair, wait("a:1"), "a:1")},
	{script: "fair_acquire", keys: fairKeys, do: grabs(queuedFair, line(newcomer), newcomer)},
	{script: "fair_acquire", keys: fairKeys, do: grabs(queuedFair, line("a:1"), "a:1")},
	{script: "fair_release", keys: fairKeys, do: plain(passOf(queuedFair, 1))},
	{script: "fair_release", keys: fairKeys, do: plain(release(fair, "a:1", 0))},
	{script: "fair_release", keys: fairKeys, do: plain(release(fair, "a:1", 1))},
	{script: "fair_force", keys: fairKeys, do: plain(forceFair(""))},
	{script: "fair_inspect", keys: fairKeys, do: plain(inspectFair)},
	{script: "rwmutex_read_acquire", keys: rwKeys, do: grabRead},
	{script: "rwmutex_read_acquire", keys: rwKeys, do: plain(acquire(read, again("a:1", 2, 60)))},
	{script: "rwmutex_read_release", keys: rwKeys, do: plain(release(read, "a:1", 0))},
	{script: "rwmutex_read_release", keys: rwKeys, do: plain(release(read, "a:1", 1))},
	{script: "rwmutex_read_release", keys: rwKeys, do: plain(release(read, newcomer, 0))},
	{script: "rwmutex_read_renew", keys: rwKeys, do: renewal(script.NewRead("N").Ref("a:1"), script.NewRead("N").Ref(newcomer))},
	{script: "rwmutex_read_force", keys: rwKeys, do: plain(forceRead)},
	{script: "rwmutex_write_acquire", keys: rwKeys, do: grabs(write, try(newcomer), newcomer+":write")},
	{script: "rwmutex_write_acquire", keys: rwKeys, do: grabs(writeFirst, wait(newcomer), newcomer+":write")},
	{script: "rwmutex_write_release", keys: rwKeys, do: plain(release(write, "a:1", 0))},
	{script: "rwmutex_write_release", keys: rwKeys, do: plain(release(write, "a:1", 1))},
	{script: "rwmutex_write_queue", keys: rwQueue, do: grabs(queuedWrite, line(newcomer), newcomer+":write")},
	{script: "rwmutex_write_queue", keys: rwQueue, do: grabs(queuedWriteFirst, line(newcomer), newcomer+":write")},
	{script: "rwmutex_write_grant", keys: rwQueue, do: plain(release(queuedWrite, "a:1", 0))},
	{script: "rwmutex_write_grant", keys: rwQueue, do: plain(release(queuedWrite, newcomer, 0))},
	{script: "rwmutex_read_grant", keys: rwQueue, do: plain(release(queuedRead, "a:1", 0))},
	{script: "rwmutex_read_grant", keys: rwQueue, do: plain(release(queuedRead, newcomer, 0))},
	{script: "rwmutex_write_force", keys: rwKeys, do: plain(forceWrite)},
	{script: "rwmutex_inspect", keys: rwKeys, do: plain(inspectRW)},
	{script: "group_acquire", keys: groupKeys, do: plain(acquireGroup(parts))},
	{script: "mutexes_acquire", keys: mutexesKeys, do: plain(acquireGroup(mutexes))},
	{script: "group_release", keys: groupKeys, do: plain(freeGroup())},
	{script: "election_proclaim", keys: fencedKeys, do: plain(proclaim("a:1", "A"))},
	{script: "election_inspect", keys: fencedKeys, do: plain(inspectElection)},

	{script: "leased_acquire", keys: permitKeys, do: grabPermits(1, newcomer)},
	{script: "leased_acquire", keys: permitKeys, do: grabPermits(1, "a:1")},
	{script: "leased_acquire", keys: permitKeys, do: grabPermits(3, newcomer)},
	{script: "leased_queue", keys: permitQueue, do: grabQueuedPermits(1, newcomer)},
	{script: "leased_queue", keys: permitQueue, do: grabQueuedPermits(3, "a:1")},
	{script: "leased_grant", keys: permitQueue, do: plain(passOf(queuedLeased(1), 1))},
	{script: "leased_grant", keys: permitQueue, do: plain(passOf(queuedLeased(3), 0))},
	{script: "leased_release", keys: permitKeys, do: plain(release(leased(1), "a:1", 0))},
	{script: "leased_return", keys: returnKeys, do: decoded(func(name string) driver.Call {
		return script.NewLeased(name, 0).Return("a:1:7", inRow([]string{"a:1.0"}))
	}, decodeFlag)},
	{script: "leased_resize", keys: permitKeys, do: plain(resize(3))},
	{script: "leased_inspect", keys: permitKeys, do: plain(inspectLeased("a:1.0"))},
	{script: "leased_renew", keys: permitKeys, do: renewal(script.NewLeased("N", 1).Ref("a:1"))},

	{script: "semaphore_acquire", keys: countedKeys, do: grabSemaphore},
	{script: "semaphore_undo", keys: countedKeys, do: plain(undoPermits(1, "a:1:7"))},
	{script: "semaphore_release", keys: countedKeys, do: plain(givePermits(1, "a:1:7"))},
	{script: "semaphore_release", keys: countedKeys, do: plain(giveIfExists(1, "a:1:7"))},
	{script: "semaphore_set", keys: countedKeys, do: plain(setPermits(3, "a:1:7", 0))},
	{script: "semaphore_drain", keys: countedKeys, do: decoded(func(name string) driver.Call { return script.NewSemaphore(name, 0).Drain("a:1:7") }, script.DecodeInt)},
	{script: "number", keys: map[string]string{"N": "count"}, do: plain(available)},
	{script: "number", keys: map[string]string{"N": "count"}, do: grabLatch},
	{script: "latch_set", keys: countedKeys, do: plain(setCount(3, "a:1:7"))},
	{script: "latch_set", keys: countedKeys, do: plain(resetCount)},
	{script: "latch_countdown", keys: countedKeys, do: plain(countDown("a:1:7"))},

	{script: "ratelimiter_take", keys: rateKeys, do: grabRate(asLong)},
	{script: "ratelimiter_take", keys: rateKeys, do: grabRate(0)},
	{script: "ratelimiter_cancel", keys: rateKeys, do: decoded(func(name string) driver.Call { return limiter(name, 1).Free("a:1") }, decodeFlag)},
	{script: "ratelimiter_cancel", keys: rateKeys, do: decoded(func(name string) driver.Call { return limiter(name, 1).Cancel("a:1") }, decodeFlag)},
	{script: "ratelimiter_release", keys: rateOnce, do: plain(releaseRate("a:1:7", 5))},
	{script: "ratelimiter_set", keys: rateOnce, do: decoded(func(name string) driver.Call { return limiter(name, 0).Set("a:1:7", ten, script.WhenNew) }, decodeFlag)},
	{script: "ratelimiter_set", keys: rateOnce, do: decoded(func(name string) driver.Call { return limiter(name, 0).Set("a:1:7", ten, script.Always) }, decodeFlag)},
	{script: "ratelimiter_set", keys: rateOnce, do: decoded(func(name string) driver.Call { return limiter(name, 0).Set("a:1:7", tenOfEach, script.WhenOld) }, decodeFlag)},
	{script: "ratelimiter_inspect", keys: rateKeys, do: plain(inspectRate)},

	{script: "value_get", keys: map[string]string{"N": "long"}, do: plain(loadLong)},
	{script: "value_set", keys: valueKeys, do: plain(storeLong(5))},
	{script: "atomiclong_add", keys: longKeys, do: decoded(func(name string) driver.Call { return script.NewAtomicLong(name).Add(request, 1) }, script.DecodeInt64)},
	{script: "atomiclong_swap", keys: longKeys, do: decoded(func(name string) driver.Call { return script.NewAtomicLong(name).Swap(request, 1) }, script.DecodeInt64)},
	{script: "atomiclong_compare", keys: longKeys, do: decoded(func(name string) driver.Call { return script.NewAtomicLong(name).Compare(request, 1, 2) }, decodeFlag)},
	{script: "bucket_set", keys: valueKeys, do: plain(setBucket("v", 60))},
	{script: "bucket_try", keys: bucketKeys, do: decoded(func(name string) driver.Call { return script.NewBucket(name).Try(request, "v", 0, true) }, decodeFlag)},
	{script: "bucket_swap", keys: bucketKeys, do: plain(calling(func(name string) driver.Call { return script.NewBucket(name).Swap(request, "w", 0) }))},
	{script: "bucket_compare", keys: bucketKeys, do: decoded(func(name string) driver.Call { return script.NewBucket(name).CompareSet(request, "v", "w") }, decodeFlag)},
	{script: "bucket_expire", keys: valueKeys, do: plain(func(ctx context.Context, d driver.Driver, name string) error {
		_, _, err := script.NewBucket(name).Expire(ctx, d, time.Minute)
		return err
	})},
	{script: "bucket_size", keys: valueKeys, do: plain(func(ctx context.Context, d driver.Driver, name string) error {
		_, err := script.NewBucket(name).Size(ctx, d)
		return err
	})},
	{script: "idgenerator_init", keys: idInitKeys, do: decoded(func(name string) driver.Call { return script.NewIDGenerator(name).Init(request, 1, 10) }, decodeFlag)},
	{script: "idgenerator_next", keys: idKeys, do: plain(fetchIDs(none))},
	{script: "idgenerator_next", keys: idKeys, do: plain(fetchIDs(script.Block{First: 100, Size: 100}))},
	{script: "timeid_next", keys: map[string]string{"N": "stamp"}, do: plain(nextTimeIDs(script.Stamp{}, 5))},

	{script: "object_exists", keys: objectKeys, typed: true, do: plain(looked(two, (*script.Object).Exists))},
	{script: "object_touch", keys: objectKeys, typed: true, do: plain(looked(two, (*script.Object).Touch))},
	{script: "object_ttl", keys: objectKeys, typed: true, do: plain(looked(two, (*script.Object).TTL))},
	{script: "object_memory", keys: objectKeys, typed: true, do: plain(looked(two, (*script.Object).Memory))},
	{script: "object_idle", keys: objectKeys, typed: true, do: plain(looked(two, (*script.Object).Idle))},
	{script: "object_delete", keys: objectOnce, typed: true, do: object(two, func(o *script.Object) driver.Call { return o.Delete(request, false) })},
	{script: "object_delete", keys: rateObject, typed: true, do: object("rate limiter", func(o *script.Object) driver.Call { return o.Delete(request, true) })},
	{script: "object_rename", keys: objectTwice, typed: true, do: object(two, func(o *script.Object) driver.Call { return o.Rename(request, "new{N}", true) })},
	{script: "object_copy", keys: objectTwice, typed: true, do: object(two, func(o *script.Object) driver.Call { return o.Copy(request, "new{N}", true) })},
	{script: "object_move", keys: objectOnce, typed: true, do: object(two, func(o *script.Object) driver.Call { return o.Move(request, 0, 1) })},
	{script: "object_expire", keys: objectOnce, typed: true, do: object(two, func(o *script.Object) driver.Call { return o.Expire(request, time.Minute, nil) })},
	{script: "object_expire", keys: rateObject, typed: true, do: object("rate limiter", func(o *script.Object) driver.Call { return o.Expire(request, time.Minute, nil) })},
	{script: "object_persist", keys: objectOnce, typed: true, do: object(two, func(o *script.Object) driver.Call { return o.Persist(request) })},
	{script: "object_dump", keys: objectKeys, typed: true, do: plain(dumped(two))},
	{script: "object_restore", keys: objectOnce, typed: true, do: object(two, func(o *script.Object) driver.Call { return o.Restore(request, []string{dumpA, ""}, 0, true) })},

	{script: "inspect_look", keys: lookKeys, do: plain(lookAt(1000))},
	{script: "inspect_look", keys: lookKeys, do: plain(look)},
	{script: "inspect_look", keys: lookPermits, do: plain(lookAt(1000))},
	{script: "inspect_scan", keys: map[string]string{"N": "rw"}, do: plain(walk("*", 0))},
	{script: "inspect_scan", keys: map[string]string{"{N}:timeout": "leases"}, do: plain(walk("*", 1))},
	{script: "inspect_scan", keys: map[string]string{"holdfast:queue:{N}": "times"}, do: plain(walk("*", 2))},
	{script: "inspect_scan", keys: map[string]string{"N": "rate"}, do: plain(walkLimiters)},
	{script: "inspect_limiter", keys: map[string]string{"N": "rate", "{N}:value": "free", "{N}:permits": "log"}, do: plain(lookAtLimiter)},
	{script: "plain_look", keys: lockKeys, do: plain(lookAtPlain)},
	{script: "client_get", keys: map[string]string{"holdfast:client:N": "value"}, do: plain(lookAtClient)},
	{script: "inspect_break", keys: breakKeys, do: plain(breaks("rw", [2]string{"a:1", "read"}))},
	{script: "inspect_break", keys: breakKeys, do: plain(breaks("rw", [2]string{"a:1", "write"}, [2]string{"a:1", "read"}))},
	{script: "inspect_break", keys: breakKeys, do: plain(breaks("mutex", [2]string{"a:1", "exclusive"}))},
}

// lookAt lists that many of each.
func lookAt(most int) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		r, err := d.Do(ctx, script.Look(d, name, most))
		if err == nil {
			_, err = script.DecodeSight(r)
		}
		return err
	}
}

const newcomer = "n:9"

func grabs(k func(string) kind, c script.Claim, field string) func(*hostile, string) error {
	return func(h *hostile, name string) error {
		v, err := script.Acquire(h.Context(), h.driver(), k(name), c)
		if h.verdict(v, err) {
			h.exclusive(name, field)
			h.clockToken(v.Token)
		}
		return err
	}
}

func grabFenced(k func(string) kind, c script.Claim) func(*hostile, string) error {
	return func(h *hostile, name string) error {
		v, err := script.Acquire(h.Context(), h.driver(), k(name), c)
		if !h.verdict(v, err) {
			return err
		}
		h.exclusive(name, c.Owner)
		key := "redisson_lock_token:{" + name + "}"
		if was, ok := h.before(key); ok && v.Token <= was {
			h.wrong("the token is %d, and it was %d before", v.Token, was)
		}
		if now := h.got("GET", key); now != strconv.FormatInt(v.Token, 10) {
			h.wrong("the token is %d, and the counter %s", v.Token, now)
		}
		return nil
	}
}

func grabRead(h *hostile, name string) error {
	v, err := script.Acquire(h.Context(), h.driver(), script.NewRead(name), try(newcomer))
	if !h.verdict(v, err) {
		return err
	}
	h.clockToken(v.Token)
	fields := h.list("HKEYS", name)
	if !slices.Contains(fields, newcomer) || h.got("HGET", name, "mode") != "read" || slices.ContainsFunc(fields, func(f string) bool { return strings.HasSuffix(f, ":write") }) {
		h.wrong("granted to a reader: %.200q", fields)
	}
	return nil
}

func grabPermits(n int, owner string) func(*hostile, string) error {
	return grabPermitsBy(leased(n), try(owner), n, owner)
}

func grabQueuedPermits(n int, owner string) func(*hostile, string) error {
	return grabPermitsBy(queuedLeased(n), line(owner), n, owner)
}

func grabPermitsBy(k func(string) kind, c script.Claim, n int, owner string) func(*hostile, string) error {
	return func(h *hostile, name string) error {
		p := script.NewLeased(name, n)
		v, err := script.Acquire(h.Context(), h.driver(), k(name), c)
		if !h.verdict(v, err) {
			return err
		}
		h.clockToken(v.Token)
		free, err := strconv.ParseInt(h.got("GET", name), 10, 64)
		if owner != newcomer {
			return nil // it has been granted before, whatever has become of the rest
		}
		if err != nil || free < 0 {
			h.wrong("granted, and %d are free (%v)", free, err)
		}
		for _, id := range p.Ref(owner).IDs() {
			raw, _ := hex.DecodeString(id)
			if ends, err := strconv.ParseFloat(h.got("ZSCORE", "{"+name+"}:timeout", string(raw)), 64); err != nil || ends < float64(time.Now().UnixMilli()) {
				h.wrong("granted, and the permit ends at %v (%v)", ends, err)
			}
		}
		if over := h.s.Int(h, "ZCOUNT", "{"+name+"}:timeout", "-inf", strconv.FormatInt(now(h, h.s)+1000, 10)); over == 0 && free < 1000 {
			if v, err := script.Acquire(h.Context(), h.d, script.NewLeased(name, int(free)+1), try("z:9")); err == nil && v.Granted() {
				h.wrong("granted %d of %d free permits", free+1, free)
			}
		}
		return nil
	}
}

func grabSemaphore(h *hostile, name string) error {
	v, err := script.Acquire(h.Context(), h.driver(), script.NewSemaphore(name, 1), script.Claim{Owner: "a:1:7", Count: 1})
	if mark, ok := h.held["holdfast:once:{"+name+"}:a:1"]; h.verdict(v, err) && (!ok || !strings.HasPrefix(mark.value, "7 ")) {
		was, ok := h.before(name)
		if now := h.got("GET", name); !ok || was < 1 || now != strconv.FormatInt(was-1, 10) {
			h.wrong("granted: %s free permits, %d before (%v)", now, was, ok)
		}
	}
	return err
}

func grabLatch(h *hostile, name string) error {
	v, err := script.Acquire(h.Context(), h.driver(), script.NewLatch(name), script.Claim{})
	if h.verdict(v, err) {
		if n, ok := h.before(name); !ok || n > 0 {
			h.wrong("open")
		}
	}
	return err
}

func grabRate(longest time.Duration) func(*hostile, string) error {
	return func(h *hostile, name string) error {
		v, err := script.Acquire(h.Context(), h.driver(), limiter(name, 3), script.Claim{Owner: newcomer, Longest: longest})
		if v.Err != nil {
			return nil // without a rate, or less than that
		}
		if err == nil && (v.After < 0 || v.After > math.MaxInt64/2) {
			h.wrong("granted in %v", v.After)
		}
		if !h.verdict(v, err) || v.After > 0 {
			return err
		}
		// The permits of the last interval are no more than the rate.
		rate, _ := strconv.ParseFloat(h.got("HGET", name, "rate"), 64)
		interval, _ := strconv.ParseFloat(h.got("HGET", name, "interval"), 64)
		log := "{" + name + "}:permits"
		if h.got("HGET", name, "type") == "1" {
			log += ":c"
		}
		if _, counted := h.held[strings.Replace(log, "permits", "value", 1)]; counted || h.s.Int(h, "ZCARD", log) > 1000 {
			return nil // the count is believed
		}
		sum, past := 0.0, float64(now(h, h.s))-interval
		for i, entries := 0, h.list("ZRANGE", log, "0", "-1", "WITHSCORES"); i < len(entries); i += 2 {
			e := entries[i]
			if at, _ := strconv.ParseFloat(entries[i+1], 64); at > past && len(e) == 21 {
				sum += float64(uint32(e[17]) | uint32(e[18])<<8 | uint32(e[19])<<16 | uint32(e[20])<<24)
			}
		}
		if sum > rate {
			h.wrong("granted: %v permits in an interval, the rate is %v", sum, rate)
		}
		return nil
	}
}

// decoded runs a call whose reply is decoded.
func decoded[T any](call func(name string) driver.Call, decode func(driver.Reply) (T, error)) func(*hostile, string) error {
	return func(h *hostile, name string) error {
		r, err := h.Do(h.Context(), call(name))
		if err == nil {
			_, err = decode(r)
		}
		return err
	}
}

// plain runs an op whose reply nothing contradicts.
func plain(do op) func(*hostile, string) error {
	return func(h *hostile, name string) error { return do(h.Context(), h.driver(), name) }
}

func decodeFlag(r driver.Reply) (int, error) {
	n, err := script.DecodeInt(r)
	if err == nil && (n < 0 || n > 1) {
		err = fmt.Errorf("%d is neither yes nor no", n)
	}
	return n, err
}

func decodeMoved(r driver.Reply) (bool, error) {
	_, done, err := script.DecodeMoved(r)
	return done, err
}

func renewal(hs ...script.LockRef) func(*hostile, string) error {
	return decoded(func(string) driver.Call {
		return script.Renew(slices.Repeat([]time.Duration{time.Minute}, len(hs)), hs)
	}, func(r driver.Reply) ([]bool, error) { return script.Renewed(r, len(hs)) })
}

func object(kind string, call func(o *script.Object) driver.Call) func(*hostile, string) error {
	return decoded(func(name string) driver.Call { return call(script.NewObject(kind, name, "c")) }, decodeMoved)
}

func prune(ctx context.Context, d driver.Driver, name string) error {
	_, err := d.Do(ctx, script.NewMutex(name).Queued().Prune())
	return err
}
