package main

import (
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/lockjson"
)

// lsSchema describes lockjson.Lock in the help of the commands that print it.
const lsSchema = `With --json, a lock is a LOCK:

  name     name of the lock
  kind     mutex, fair mutex, fenced mutex, read/write mutex, election, leased
           semaphore, or plain: a string with a TTL, as other libraries write a
           lock
  holders  list of the holders, each with
             owner        owner id; for a permit, its id;
                          empty if the kind is plain
             mode         exclusive, read, write or permit
             holds        how often the owner has entered the lock
             expiresInMs  time until the hold expires unless it is renewed;
                          null: it never expires
             client       CLIENT of the owner; absent for permits
  queue    list of the waiters in the queues at the server, the next one first,
           each with
             owner     owner id
             place     place in its queue; 1 is the first
             kind      kind that it waits for: mutex, fair mutex, fenced mutex
                       (also an election), read/write mutex (to write) or leased
                       semaphore; empty: not valid
             permits   number of permits that it waits for; absent for other
                       kinds
             waitedMs  time since its first request; null: unknown
             client    CLIENT of the owner
           Of a process, only the first waiter is there
  queued   number of waiters in the queues, listed or not; null: unknown
  clients  number of clients that wait for the release; null: unknown
  token    last fencing token; absent if there is no counter
  leader   what the leader of an election has proclaimed; absent if nothing
  more     number of holders and waiters that are not listed

A CLIENT has the id of a process, and java: true if it uses Redisson. A client
of Holdfast that has said who it is also has host, pid, program, version, pod,
label, library and since (RFC 3339), as far as they are known.

If a name, owner or leader is not valid UTF-8, U+FFFD replaces its invalid bytes
and the field nameBase64, ownerBase64 or leaderBase64 has the exact bytes.`

// lsLocks returns the JSON form of locks.
func lsLocks(locks []inspect.Lock) []lockjson.Lock {
	list := make([]lockjson.Lock, len(locks)) // not nil: JSON would show null
	for i, lock := range locks {
		list[i] = lockjson.Of(lock)
	}
	return list
}
