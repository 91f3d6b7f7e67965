package main

import "github.com/holdfast-go/holdfast/inspect"

// plainKind is the kind of locks of other libraries, see [inspect.PlainLock].
const plainKind inspect.Kind = "plain"

// plainLock returns a plain lock in the form of other locks. Its holder has no owner: the
// value of the string may be a secret and is not read. Its waiters are unknown: they poll.
func plainLock(p inspect.PlainLock) inspect.Lock {
	return inspect.Lock{
		Name: p.Name, Kind: plainKind, Queued: -1, Clients: -1,
		Holders: []inspect.Holder{{Mode: inspect.Exclusive, Holds: 1, TTL: p.TTL}},
	}
}
