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
  queue    list of the queued waiters, the next one first, each with an owner
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
	Queue        []lsOwner  `json:"queue"`
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

func lsLocks(locks []inspect.Lock) []lsLock {
	list := make([]lsLock, len(locks)) // not nil: JSON would show null
	for i, lock := range locks {
		list[i] = lsLockOf(lock)
	}
	return list
}

func lsLockOf(lock inspect.Lock) lsLock {
	l := lsLock{
		Name: lock.Name, NameBase64: lsBase64(lock.Name), Kind: string(lock.Kind), Holders: []lsHolder{}, Queue: []lsOwner{},
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
	for _, owner := range lock.Queue {
		l.Queue = append(l.Queue, lsOwner{owner, lsBase64(owner)})
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
