package main

import (
	"encoding/base64"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/inspect"
)

// lsSchema describes lsLock in the help of the commands that print it.
const lsSchema = `With --json, a lock is a LOCK:

  name     name of the lock
  kind     mutex, fair, fenced, election, rw or semaphore
  holders  list of the holders, each with
             owner        owner id; for a semaphore, the id of the permit
             mode         exclusive, read, write or permit
             holds        how often the owner has entered the lock
             expiresInMs  time until the hold expires unless it is renewed;
                          null: it never expires
  queue    list of the waiters in the queues at the server, the next one first,
           each with
             owner     owner id
             place     place in its queue; 1 is the first
             kind      kind that it waits for: fair, mutex, fenced (also an
                       election), rw (to write) or semaphore; empty: not valid
             permits   number of permits that it waits for; absent for other
                       kinds
             waitedMs  time since its first request; null: unknown
           Of a process, only the first waiter is there
  queued   number of waiters in the queues, listed or not; null: unknown
  clients  number of clients that wait for the release; null: unknown
  token    last fencing token; absent if there is no counter
  leader   what the leader of an election has proclaimed; absent if nothing
  more     number of holders and waiters that are not listed

If a name, owner or leader is not valid UTF-8, U+FFFD replaces its invalid bytes
and the field nameBase64, ownerBase64 or leaderBase64 has the exact bytes.`

// An lsLock is the JSON form of a lock.
type lsLock struct {
	Name         string     `json:"name"`
	NameBase64   string     `json:"nameBase64,omitempty"`
	Kind         string     `json:"kind"`
	Holders      []lsHolder `json:"holders"`
	Queue        []lsWaiter `json:"queue"`
	Queued       *int       `json:"queued"`
	Clients      *int       `json:"clients"`
	Token        int64      `json:"token,omitempty"`
	Leader       string     `json:"leader,omitempty"`
	LeaderBase64 string     `json:"leaderBase64,omitempty"`
	More         int        `json:"more"`
}

type lsOwner struct {
	Owner       string `json:"owner"`
	OwnerBase64 string `json:"ownerBase64,omitempty"`
}

type lsHolder struct {
	lsOwner
	Mode        string `json:"mode"`
	Holds       int    `json:"holds"`
	ExpiresInMs *int64 `json:"expiresInMs"`
}

type lsWaiter struct {
	lsOwner
	Place    int    `json:"place"`
	Kind     string `json:"kind"`
	Permits  int    `json:"permits,omitempty"`
	WaitedMs *int64 `json:"waitedMs"`
}

func lsLocks(locks []inspect.Lock) []lsLock {
	list := make([]lsLock, len(locks)) // not nil: JSON would show null
	for i, lock := range locks {
		list[i] = lsLockOf(lock)
	}
	return list
}

func lsLockOf(lock inspect.Lock) lsLock {
	l := lsLock{
		Name: lock.Name, NameBase64: lsBase64(lock.Name), Kind: string(lock.Kind), Holders: []lsHolder{}, Queue: []lsWaiter{},
		Token: lock.Token, Leader: lock.Leader, LeaderBase64: lsBase64(lock.Leader), More: lock.More,
	}
	for _, h := range lock.Holders {
		holder := lsHolder{lsOwner: lsOwner{h.Owner, lsBase64(h.Owner)}, Mode: string(h.Mode), Holds: h.Holds}
		if h.TTL >= 0 {
			ms := h.TTL.Milliseconds()
			holder.ExpiresInMs = &ms
		}
		l.Holders = append(l.Holders, holder)
	}
	for _, w := range lock.Queue {
		waiter := lsWaiter{lsOwner: lsOwner{w.Owner, lsBase64(w.Owner)}, Place: w.Place, Kind: string(w.Kind), Permits: w.Permits}
		if w.Waited >= 0 {
			ms := w.Waited.Milliseconds()
			waiter.WaitedMs = &ms
		}
		l.Queue = append(l.Queue, waiter)
	}
	if lock.Queued >= 0 {
		l.Queued = &lock.Queued
	}
	if lock.Clients >= 0 {
		l.Clients = &lock.Clients
	}
	return l
}

// lsBase64 encodes text in base64 if it is not valid UTF-8. Otherwise it returns
// "".
func lsBase64(text string) string {
	if utf8.ValidString(text) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(text))
}
