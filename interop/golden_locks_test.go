package interop_test

import (
	"time"

	"github.com/holdfast-go/holdfast"
)

var lockScripts = []*script{
	ofKind("mutex", script{name: "lock", era: true, deviates: []*deviation{latchKey}, steps: []step{
		{does: "a locks", op: lock("a", "lock", 0)},
		{does: "a locks again", op: lock("a", "lock", 0)},
		{does: "b tries and fails", op: try("b", "tryLock", 0)},
		{does: "b tries for a second and fails", op: try("b", "tryLock", time.Second)},
		{does: "b unlocks what it does not hold", op: unlock("b", "unlock")},
		{does: "a unlocks once", op: unlock("a", "unlock")},
		{does: "a unlocks", op: unlock("a", "unlock")},
		{does: "b locks for 60 s", op: lock("b", "lock", time.Minute)},
		{does: "b locks again, for 10 s", op: lock("b", "lock", 10*time.Second), deviates: []*deviation{shorterLease}},
		{does: "b unlocks once", op: unlock("b", "unlock"), deviates: []*deviation{shorterLease}},
		{does: "it is unlocked by force", op: freed("forceUnlock")},
		{does: "it is unlocked by force while it is free", op: freed("forceUnlock")},
	}}),
	ofKind("mutex", script{name: "lock-renewed", config: shortWatchdog, plain: true, era: true, deviates: []*deviation{latchKey}, steps: []step{
		{does: "a locks", op: lock("a", "lock", 0)},
		{does: "the watchdog renews", op: nothing, until: renewed},
		{does: "a unlocks", op: unlock("a", "unlock")},
	}}),
	ofKind("mutex", script{name: "lock-object", steps: []step{
		{does: "a locks", op: lock("a", "lock", 0)},
		{does: "it is to end in 60 s", op: expire(60), deviates: []*deviation{lockObject}},
		{does: "it is to end no more", op: persist, deviates: []*deviation{lockObject}},
		{does: "it is renamed", op: rename, deviates: []*deviation{lockObject}},
		{does: "it is deleted", op: remove, deviates: []*deviation{deletedTwice}},
	}}),
	ofKind("fair", script{name: "fair", era: true, deviates: []*deviation{latchKey, fairLimits}, steps: []step{
		{does: "a locks", op: lock("a", "lock", 0)},
		{does: "a locks again", op: lock("a", "lock", 0)},
		{does: "a unlocks once", op: unlock("a", "unlock")},
		{does: "b tries and fails", op: try("b", "tryLock", 0)},
		{does: "b waits", op: waiting("b"), until: queued(1)},
		{does: "c waits", op: waiting("c"), until: queued(2)},
		{does: "d waits for a moment, and gives up", op: try("d", "tryLock", time.Second), until: queued(2)},
		{does: "a unlocks, and b is next", op: unlock("a", "unlock"), until: queued(1)},
		{does: "it is unlocked by force, and c is next", op: freed("forceUnlock"), until: queued(0)},
		{does: "c unlocks", op: unlock("c", "unlock")},
		{does: "a locks for 60 s", op: lock("a", "lock", time.Minute)},
		{does: "a unlocks", op: unlock("a", "unlock")},
		{does: "a unlocks a free lock", op: unlock("a", "unlock"), deviates: []*deviation{noLease}},
	}}),
	ofKind("fair", script{name: "fair-left", plain: true, era: true, deviates: []*deviation{fairLimits}, steps: []step{
		{does: "a locks", op: lock("a", "lock", 0)},
		{does: "b waits", op: waiting("b"), until: queued(1)},
		{does: "c waits for 6 s", op: behind("c", try("c", "tryLock", 6*time.Second)), until: queued(2)},
		{does: "d waits", op: waiting("d"), until: queued(3)},
		{does: "c gives up", op: nothing, until: queued(2)},
	}}),
	ofKind("fair", script{name: "fair-object", deviates: []*deviation{fairLimits}, steps: []step{
		{does: "a locks", op: lock("a", "lock", 0)},
		{does: "b waits", op: waiting("b"), until: queued(1)},
		{does: "it is to end in 60 s", op: expire(60), deviates: []*deviation{lockObject}},
		{does: "it is to end no more", op: persist, deviates: []*deviation{lockObject}},
		{does: "it is deleted", op: remove, deviates: []*deviation{deletedQueue}, until: queuedNone},
	}}),
	readWrite(script{name: "rw", era: true, deviates: []*deviation{latchKey}, steps: []step{
		{does: "a reads", op: lock("a", "readLock.lock", 0)},
		{does: "a reads again", op: lock("a", "readLock.lock", 0)},
		{does: "b reads for 60 s", op: lock("b", "readLock.lock", time.Minute)},
		{does: "c tries to write and fails", op: try("c", "writeLock.tryLock", 0)},
		{does: "b stops", op: unlock("b", "readLock.unlock")},
		{does: "a stops once", op: unlock("a", "readLock.unlock")},
		{does: "a stops", op: unlock("a", "readLock.unlock")},
		{does: "c writes", op: lock("c", "writeLock.lock", 0)},
		{does: "a tries to read and fails", op: try("a", "readLock.tryLock", 0)},
		{does: "a stops reading, which it does not", op: unlock("a", "readLock.unlock")},
		{does: "c writes again", op: lock("c", "writeLock.lock", 0), deviates: []*deviation{addedLease}},
		{does: "c stops once", op: unlock("c", "writeLock.unlock")},
		{does: "c stops", op: unlock("c", "writeLock.unlock"), deviates: []*deviation{writerLeft}},
		{does: "a stops reading without a reader", op: unlock("a", "readLock.unlock"), deviates: []*deviation{noLease}},
		{does: "c stops writing without a writer", op: unlock("c", "writeLock.unlock"), deviates: []*deviation{noLease}},
	}}),
	readWrite(script{name: "rw-downgraded", era: true, deviates: []*deviation{latchKey, ownReader}, steps: []step{
		{does: "a writes", op: lock("a", "writeLock.lock", 0)},
		{does: "a also reads", op: lock("a", "readLock.lock", 0)},
		{does: "a stops writing", op: unlockNth("a", "writeLock.unlock", 0), deviates: []*deviation{downgrade}},
		{does: "b reads beside it", op: lock("b", "readLock.lock", 0)},
		{does: "a stops reading", op: unlock("a", "readLock.unlock")},
		{does: "b stops", op: unlock("b", "readLock.unlock")},
	}}),
	readWrite(script{name: "rw-renewed", config: slowWatchdog, plain: true, era: true, steps: []step{
		{does: "a reads", op: lock("a", "readLock.lock", 0)},
		{does: "b reads for 118 s", op: lock("b", "readLock.lock", 118*time.Second)},
		{does: "the watchdog renews", op: nothing, until: renewed, deviates: []*deviation{raised}},
	}}),
	readWrite(script{name: "rw-lease", era: true, steps: []step{
		{does: "a reads for 60 s", op: lock("a", "readLock.lock", time.Minute)},
		{does: "b reads", op: lock("b", "readLock.lock", 0), deviates: []*deviation{lastLease}},
	}}),
	readWrite(script{name: "rw-forced", era: true, steps: []step{
		{does: "a writes for 60 s", op: lock("a", "writeLock.lock", time.Minute)},
		{does: "the read lock is unlocked by force without readers", op: freed("readLock.forceUnlock")},
		{does: "the writer is unlocked by force", op: freed("writeLock.forceUnlock"), deviates: []*deviation{writerLeft}},
		{does: "b reads", op: lock("b", "readLock.lock", 0)},
		{does: "c reads", op: lock("c", "readLock.lock", 0)},
		{does: "the write lock is unlocked by force without a writer", op: freed("writeLock.forceUnlock")},
		{does: "the readers are unlocked by force", op: freed("readLock.forceUnlock"), deviates: []*deviation{readersKeys}},
	}}),
	ofKind("fenced", script{name: "fenced", deviates: []*deviation{latchKey}, steps: []step{
		{does: "a locks", op: lock("a", "lock", 0)},
		{does: "b tries and fails", op: try("b", "tryLock", 0)},
		{does: "a unlocks", op: unlock("a", "unlock")},
		{does: "b locks for 60 s", op: lock("b", "lock", time.Minute)},
		{does: "it is unlocked by force", op: freed("forceUnlock")},
	}}),
	ofKind("fenced", script{name: "fenced-again", deviates: []*deviation{latchKey}, steps: []step{
		{does: "a locks", op: lock("a", "lock", 0)},
		{does: "a unlocks", op: unlock("a", "unlock")},
		{does: "a locks", op: lock("a", "lock", 0)},
		{does: "a locks again", op: lock("a", "lock", 0), deviates: []*deviation{sameToken}},
		{does: "a unlocks once", op: unlock("a", "unlock"), deviates: []*deviation{sameToken}},
		{does: "a unlocks", op: unlock("a", "unlock"), deviates: []*deviation{sameToken}},
	}}),
	ofKind("fenced", script{name: "fenced-object", steps: []step{
		{does: "a locks", op: lock("a", "lock", 0)},
		{does: "it is deleted", op: remove, deviates: []*deviation{keptToken}},
	}}),
	ofKind("spin", script{name: "spin", deviates: []*deviation{latchKey}, steps: []step{
		{does: "a locks", op: lock("a", "lock", 0)},
		{does: "a locks again", op: lock("a", "lock", 0)},
		{does: "b tries for a second and fails", op: try("b", "tryLock", time.Second)},
		{does: "a unlocks once", op: unlock("a", "unlock")},
		{does: "a unlocks", op: unlock("a", "unlock"), deviates: []*deviation{spinTells}},
		{does: "b locks for 60 s", op: lock("b", "lock", time.Minute)},
		{does: "it is unlocked by force", op: freed("forceUnlock"), deviates: []*deviation{spinTells}},
	}}),
	ofKind("non-reentrant", script{name: "non-reentrant", deviates: []*deviation{latchKey}, steps: []step{
		{does: "a locks", op: lock("a", "lock", 0)},
		{does: "a locks again and fails", op: lock("a", "lock", 0)},
		{does: "b tries and fails", op: try("b", "tryLock", 0)},
		{does: "a unlocks", op: unlock("a", "unlock")},
		{does: "b locks for 60 s", op: lock("b", "lock", time.Minute)},
		{does: "it is unlocked by force", op: freed("forceUnlock")},
	}}),
	ofKind("multi", script{name: "multi", deviates: []*deviation{latchKey, ownParts}, steps: []step{
		{does: "a locks", op: lock("a", "lock", 0)},
		{does: "b tries and fails", op: try("b", "tryLock", 0)},
		{does: "a unlocks", op: unlock("a", "unlock")},
		{does: "b locks for 60 s", op: lock("b", "lock", time.Minute)},
		{does: "b unlocks", op: unlock("b", "unlock")},
	}}),
}

// ofKind returns a script for one of the kinds.
func ofKind(name string, s script) *script {
	k := kindOf(name)
	s.java, s.lockers = k.java, map[string]func(*holdfast.Client, string) holdfast.Locker{"": k.golang}
	return &s
}

// readWrite returns a script for both modes of a read/write lock.
func readWrite(s script) *script {
	s.java, s.lockers = getter("getReadWriteLock"), make(map[string]func(*holdfast.Client, string) holdfast.Locker)
	for _, side := range []string{"read", "write"} {
		s.lockers[side+"Lock"] = ofKind(side, script{}).lockers[""]
	}
	return &s
}

// shortWatchdog renews about every 1.5 s.
func shortWatchdog(c *sides) {
	c.java.With("lockWatchdogTimeout", 5000)
	c.golang.WatchdogTimeout = 5 * time.Second
}

// slowWatchdog renews every five seconds, so that the steps before the renewal are recorded
// before it.
func slowWatchdog(c *sides) {
	c.java.With("lockWatchdogTimeout", 15000)
	c.golang.WatchdogTimeout = 15 * time.Second
}

// renewed reports whether a key expires later than before the step.
func renewed(s *stage) bool {
	for k, at := range s.ends() {
		if at > s.before[k] {
			return true
		}
	}
	return false
}

// queued reports whether so many owners wait for a held lock.
func queued(n int64) func(*stage) bool {
	return func(s *stage) bool {
		return s.count("LLEN "+s.derived("redisson_lock_queue")) == n && s.count("EXISTS %s") == 1
	}
}

// queuedNone reports whether the queue is empty.
func queuedNone(s *stage) bool { return s.count("EXISTS "+s.derived("redisson_lock_queue")) == 0 }

// nothing is an operation that does nothing while the step waits for others.
var nothing = op{golang: func(*goSide) (any, error) { return nil, nil }}
