package script

import (
	"strconv"

	"github.com/holdfast-go/holdfast/driver"
)

// A Kind describes what the server keeps for one kind of object. A new kind needs
// an entry in [Kinds].
type Kind struct {
	Name  string // as errors, events and package inspect call it
	Shape Shape
	Uses  func(name string) Uses // keys and channels beside the keys of the shape; nil: none

	// The scripts that take and release a lock as part of a group; nil if the lock
	// cannot be part of one.
	Acquire, Release *driver.Script
}

// Kinds are all kinds of objects.
var Kinds = []Kind{
	{
		Name: "mutex", Shape: hash, Acquire: mutexAcquire, Release: mutexRelease,
		Uses: func(name string) Uses {
			m := NewMutex(name)
			return Uses{By: "any mutex", Keys: m.keys[1:2], Channels: m.Channels("*")}
		},
	},
	{
		Name: "fair mutex", Shape: fairShape,
		Uses: func(name string) Uses {
			f := NewFair(name)
			return Uses{By: "FairMutex", Keys: f.keys[1:], Channels: f.Channels("*")}
		},
	},
	{Name: "read/write mutex", Shape: hash},
	{Name: "read lock", Shape: hash, Acquire: readAcquire, Release: readRelease},
	{
		Name: "write lock", Shape: hash, Acquire: writeAcquire, Release: writeRelease,
		Uses: func(name string) Uses {
			rw := newRW(name)
			return Uses{By: "RWMutex", Keys: []string{rw.root, rw.own("*") + ":*", rw.writers, rw.channel}, Channels: rw.Channels("*")}
		},
	},
	{
		Name: "fenced mutex", Shape: fencedShape, Acquire: fencedAcquire, Release: mutexRelease,
		Uses: func(name string) Uses {
			return Uses{By: "FencedMutex and Election", Keys: NewFenced(name).keys[1:]}
		},
	},
	{
		Name: "election", Shape: fencedShape, Acquire: fencedAcquire, Release: mutexRelease,
		Uses: func(name string) Uses {
			e := NewElection(name)
			return Uses{By: "Election", Keys: []string{e.news}, Channels: []string{e.news}}
		},
	},
	{
		Name: "semaphore", Shape: oneString,
		Uses: func(name string) Uses {
			s := NewSemaphore(name, 1)
			return Uses{By: "Semaphore", Keys: []string{s.channel, anyMark(name)}, Channels: s.Channels("*")}
		},
	},
	{
		Name: "leased semaphore", Shape: leasedShape,
		Uses: func(name string) Uses {
			p := NewLeased(name, 1)
			return Uses{By: "LeasedSemaphore", Keys: []string{p.leases, p.channel, anyMark(name)}, Channels: p.Channels("*")}
		},
	},
	{
		Name: "latch", Shape: latchShape,
		Uses: func(name string) Uses {
			return Uses{By: "Latch", Keys: []string{anyMark(name)}, Channels: NewLatch(name).Channels("*")}
		},
	},
	{
		Name: "rate limiter", Shape: rateLimiterShape,
		Uses: func(name string) Uses {
			return Uses{By: "RateLimiter", Keys: append(NewRateLimiter(name, "*", 1).keys[1:], anyMark(name))}
		},
	},
	{
		Name: "id generator", Shape: idGeneratorShape,
		Uses: func(name string) Uses {
			return Uses{By: "IDGenerator", Keys: append(names(idGeneratorShape(name, "").Keys[1:]), anyMark(name))}
		},
	},
	{Name: "time id", Shape: hash},
	{
		Name: "atomic long", Shape: oneString,
		Uses: func(name string) Uses {
			return Uses{By: "AtomicLong, Bucket and Object", Keys: []string{anyMark(name)}}
		},
	},
	{Name: "bucket", Shape: oneString},
}

// KindOf returns the kind with that name.
func KindOf(name string) Kind {
	for _, k := range Kinds {
		if k.Name == name {
			return k
		}
	}
	panic("script: no kind " + strconv.Quote(name))
}

// A Key is a key and the type that it has, or would have if it existed.
type Key struct{ Name, Type string }

// Parts are the keys of an object.
type Parts struct {
	Keys   []Key // without them the object does not exist; the one by its name comes first
	Beside []Key // these may exist without the object

	Channel string // where a deletion of the object is published; "": nowhere
	Message string
}

// A Shape returns the parts of an object with that name, as the client with that
// id sees it.
type Shape func(name, client string) Parts

func names(keys []Key) []string {
	list := make([]string, len(keys))
	for i, k := range keys {
		list[i] = k.Name
	}
	return list
}

func oneString(name, _ string) Parts { return Parts{Keys: []Key{{name, "string"}}} }

func hash(name, _ string) Parts { return Parts{Keys: []Key{{name, "hash"}}} }

// latchShape publishes a deletion, so that waiters look again.
func latchShape(name, client string) Parts {
	p := oneString(name, client)
	p.Channel, p.Message = NewLatch(name).channel, "1"
	return p
}

func leasedShape(name, _ string) Parts {
	return Parts{Keys: []Key{{name, "string"}, {NewLeased(name, 0).leases, "zset"}}}
}

func idGeneratorShape(name, _ string) Parts {
	return Parts{Keys: []Key{{name, "string"}, {suffixed(name, "allocation"), "string"}}}
}

// rateLimiterShape leaves out the keys of other clients.
func rateLimiterShape(name, client string) Parts {
	k := NewRateLimiter(name, client, 0).keys
	return Parts{Keys: []Key{
		{k[0], "hash"}, {k[1], "string"}, {k[2], "string"}, {k[3], "zset"}, {k[4], "zset"}, {k[5], "string"},
	}}
}

// fencedShape has a counter that outlives each lease.
func fencedShape(name, client string) Parts {
	p := hash(name, client)
	p.Beside = []Key{{NewFenced(name).keys[1], "string"}}
	return p
}

// fairShape has a queue that may outlive a lease.
func fairShape(name, client string) Parts {
	p, f := hash(name, client), NewFair(name)
	p.Beside = []Key{{f.keys[1], "list"}, {f.keys[2], "zset"}, {f.keys[3], "zset"}}
	return p
}
