package script

// A Key is a key and the type that it has, or would have if it existed.
type Key struct{ Name, Type string }

// Parts are what an object consists of at the server.
type Parts struct {
	Keys   []Key // without which it does not exist; the one by its name comes first
	Beside []Key // that may be there without it

	Channel string // where it is told that the object was deleted; "": nobody is
	Message string
}

// A Shape derives the parts of an object from its name.
type Shape func(name string) Parts

func names(keys []Key) []string {
	list := make([]string, len(keys))
	for i, k := range keys {
		list[i] = k.Name
	}
	return list
}

// One is the shape of a semaphore, and of whatever else is one string.
func One(name string) Parts { return Parts{Keys: []Key{{name, "string"}}} }

// LatchShape is that of a latch: those who wait look again when it is deleted.
func LatchShape(name string) Parts {
	p := One(name)
	p.Channel, p.Message = NewLatch(name).channel, "1"
	return p
}

// LeasedShape is that of a semaphore whose permits have an end.
func LeasedShape(name string) Parts {
	return Parts{Keys: []Key{{name, "string"}, {NewLeased(name, 0).leases, "zset"}}}
}

// GeneratorShape is that of a generator of ids.
func GeneratorShape(name string) Parts {
	return Parts{Keys: []Key{{name, "string"}, {suffixed(name, "allocation"), "string"}}}
}

// RateLimiterShape returns that of a rate limiter as the client with that id sees
// it. What other clients have there is theirs.
func RateLimiterShape(client string) Shape {
	return func(name string) Parts {
		k := NewRateLimiter(name, client, 0).keys
		return Parts{Keys: []Key{
			{k[0], "hash"}, {k[1], "string"}, {k[2], "string"}, {k[3], "zset"}, {k[4], "zset"}, {k[5], "string"},
		}}
	}
}

// MutexShape is that of a mutex, and of whatever else is one hash.
func MutexShape(name string) Parts { return Parts{Keys: []Key{{name, "hash"}}} }

// FencedShape is that of a fenced mutex. Its counter outlives each lease.
func FencedShape(name string) Parts {
	p := MutexShape(name)
	p.Beside = []Key{{NewFenced(name).keys[1], "string"}}
	return p
}

// FairShape is that of a fair mutex. Its queue may outlive a lease.
func FairShape(name string) Parts {
	p, f := MutexShape(name), NewFair(name)
	p.Beside = []Key{{f.keys[1], "list"}, {f.keys[2], "zset"}, {f.keys[3], "zset"}}
	return p
}
