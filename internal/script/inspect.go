package script

import (
	"context"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var (
	inspectScan    = load("inspect_scan")
	inspectLook    = load("inspect_look")
	inspectLimiter = load("inspect_limiter")
	inspectBreak   = load("inspect_break")
)

// routes returns an unused key for each slot of a cluster.
var routes = sync.OnceValue(func() []string {
	keys := make([]string, driver.Slots)
	for i, left := 0, driver.Slots; left > 0; i++ {
		key := "holdfast:scan:{" + strconv.Itoa(i) + "}"
		if slot := driver.Slot(key); keys[slot] == "" {
			keys[slot] = key
			left--
		}
	}
	return keys
})

// Routes returns one key on each master, which routes calls to it. The key is in
// the master's last slot, because resharding moves the first slots first.
func Routes(d driver.Driver) []string {
	const one, another = "holdfast:scan:{0}", "holdfast:scan:{1}"
	if d.Place(one).Slot == d.Place(another).Slot {
		return []string{one} // not a cluster
	}
	var found []string
	nodes := make(map[string]bool)
	for _, key := range slices.Backward(routes()) {
		if node := d.Place(key).Node; !nodes[node] {
			nodes[node] = true
			found = append(found, key)
		}
	}
	return found
}

// A Walk scans the keys of a server for locks of some kinds.
type Walk struct {
	kind    string // the type of the keys
	pattern string
	names   func(key string) []string
	fields  []string // of hashes, those that they have; none: the fields of a lock
}

// Walks returns the walks that find all locks whose names match a pattern.
func Walks(pattern string) []Walk {
	hashes := Walk{kind: "hash", pattern: pattern, names: itself}
	if pattern == "*" {
		return []Walk{hashes, leases("*", tagged, braced), queues("*", tagged, braced)}
	}
	return []Walk{hashes, leases("{"+pattern+"}", tagged), leases(pattern, braced), queues("{"+pattern+"}", tagged), queues(pattern, braced)}
}

// LimiterWalk is the walk that finds rate limiters whose names match a pattern.
func LimiterWalk(pattern string) Walk {
	return Walk{kind: "hash", pattern: pattern, names: itself, fields: []string{"rate", "interval", "type"}}
}

func itself(key string) []string { return []string{key} }

// leases is the walk that finds semaphores by the keys of their leases. Such a
// key begins with a name in braces, or with a name that contains braces.
func leases(roots string, forms ...func(root string) string) Walk {
	const suffix = ":timeout"
	return Walk{kind: "zset", pattern: roots + suffix, names: func(key string) (names []string) {
		for _, name := range forms {
			if n := name(strings.TrimSuffix(key, suffix)); suffixed(n, suffix[1:]) == key {
				names = append(names, n)
			}
		}
		return names
	}}
}

// queues is the walk that finds locks by the keys of their queues. A lock that is free may
// have one. Only Holdfast writes these keys, so the names are those that it accepts. If a key
// can belong to two names, the first form decides.
func queues(roots string, forms ...func(root string) string) Walk {
	prefix := queueKey("{}")[:len(queueKey("{}"))-len("{}")]
	return Walk{kind: "zset", pattern: prefix + roots, names: func(key string) []string {
		for _, name := range forms {
			if n := name(strings.TrimPrefix(key, prefix)); CheckName(n) == nil && queueKey(n) == key {
				return []string{n}
			}
		}
		return nil
	}}
}

// Twin returns the other name with the same derived keys: "{a}" for "a", and "a" for "{a}".
// It returns "" if there is none.
func Twin(name string) string {
	if !strings.Contains(name, "{") {
		return root(name)
	}
	if n := tagged(name); root(n) == name {
		return n
	}
	return ""
}

func tagged(root string) string { return strings.TrimSuffix(strings.TrimPrefix(root, "{"), "}") }
func braced(root string) string { return root }

// Step scans about n keys on the server of a route. The cursor is "0" at the
// start and at the end. Step returns the names of possible locks.
func (w Walk) Step(ctx context.Context, d driver.Driver, route, cursor string, n int) (next string, names []string, err error) {
	r, err := d.Do(ctx, driver.Call{
		Script: inspectScan,
		Keys:   []string{route},
		Args:   append([]string{cursor, w.pattern, strconv.Itoa(n), w.kind}, w.fields...),
	})
	if err != nil {
		return "", nil, err
	}
	if r.Type != driver.List || len(r.List) != 2 || r.List[0].Type != driver.Str || r.List[1].Type != driver.List {
		return "", nil, unexpected(inspectScan, r)
	}
	for _, key := range r.List[1].List {
		if key.Type != driver.Str {
			return "", nil, unexpected(inspectScan, r)
		}
		names = append(names, w.names(key.Str)...)
	}
	return r.List[0].Str, names, nil
}

// Sight is the state of a lock of any kind.
type Sight struct {
	Kind    string // "" if it is not a lock
	Token   int64
	Leader  string
	Clients int // waiting clients; negative: unknown
	More    int // holders and waiters that are not listed
	Holders []Holder
	Queue   []Waiter
	Queued  int // waiters in queues, listed or not; negative: unknown
}

// A Holder is a holder of a lock of any kind.
type Holder struct {
	Owner string // or the id of a permit
	Mode  string
	Count int
	TTL   time.Duration // negative: without end
}

// A Waiter is an owner in a queue of a lock.
type Waiter struct {
	Owner   string
	Place   int           // in its queue
	Kind    string        // of the lock that it wants; "" if the entry is not that of a client
	Waited  time.Duration // negative: unknown
	Permits int           // how many it wants; 0 if the lock is not a semaphore
}

// Look returns the call that reads the state of the lock with that name. It lists
// a limited number of holders and waiters. DecodeSight decodes the reply.
func Look(d driver.Driver, name string, most int) driver.Call {
	fair, rw, permits := NewFair(name), newRW(name), NewLeased(name, 0)
	return driver.Call{
		Script: inspectLook,
		Keys:   together(d, name, fair.keys[1], NewFenced(name).keys[1], rw.root, permits.leases, queueKey(name)),
		Args:   []string{strconv.Itoa(most), fair.keys[4], rw.channel, permits.channel},
	}
}

// LookAgain returns the call of Look with fewer keys, if the server has refused it because
// of its keys: while a slot moves, the node may have the lock but not its queue, and the user
// may lack permission for the keys of queues.
func LookAgain(look driver.Call, err error) (driver.Call, bool) {
	if err == nil {
		return driver.Call{}, false
	}
	r, _ := Refused(err.Error())
	switch n := len(look.Keys); {
	case n > 1 && driver.CodeOf(err) == "TRYAGAIN":
		look.Keys = look.Keys[:1]
	case n > 1 && r == KeyRefused:
		look.Keys = look.Keys[:n-1]
	default:
		return driver.Call{}, false
	}
	return look, true
}

// together returns a name and the keys derived from it. If these are in other
// slots, it returns only the name: Redisson's rule does not work for such a name
// in a cluster.
func together(d driver.Driver, name string, derived ...string) []string {
	keys := append([]string{name}, derived...)
	place := d.Place(name)
	for _, key := range derived {
		if p := d.Place(key); p.Node != place.Node || p.Slot != place.Slot {
			return keys[:1]
		}
	}
	return keys
}

// DecodeSight decodes the reply to Look.
func DecodeSight(r driver.Reply) (Sight, error) {
	bad := func() (Sight, error) { return Sight{}, unexpected(inspectLook, r) }
	if r.Type != driver.List || len(r.List) != 1 && len(r.List) != 8 || r.List[0].Type != driver.Str {
		return bad()
	}
	if len(r.List) == 1 {
		return Sight{}, nil
	}
	token, leader, clients, more, holders, queue, queued := r.List[1], r.List[2], r.List[3], r.List[4], r.List[5], r.List[6], r.List[7]
	if leader.Type != driver.Str || clients.Type != driver.Int || more.Type != driver.Int || queued.Type != driver.Int || len(holders.List)%4 != 0 || len(queue.List)%4 != 0 {
		return bad()
	}
	s := Sight{Kind: r.List[0].Str, Leader: leader.Str, Clients: int(clients.Int), More: int(more.Int), Queued: int(queued.Int)}
	s.Token, _ = strconv.ParseInt(token.Str, 10, 64) // a text that is not a number is not a token
	for h := holders.List; len(h) > 0; h = h[4:] {
		if h[0].Type != driver.Str || h[1].Type != driver.Str || h[2].Type != driver.Int || h[3].Type != driver.Int {
			return bad()
		}
		holder := Holder{h[0].Str, h[1].Str, int(h[2].Int), remaining(h[3].Int)}
		if holder.Mode == "permit" {
			holder.Owner = hex.EncodeToString([]byte(holder.Owner))
		}
		s.Holders = append(s.Holders, holder)
	}
	fair := 0
	for w := queue.List; len(w) > 0; w = w[4:] {
		if w[0].Type != driver.Str || w[1].Type != driver.Str || w[2].Type != driver.Int || w[3].Type != driver.Int {
			return bad()
		}
		waiter := Waiter{Owner: w[0].Str, Place: len(s.Queue) + 1 - fair, Kind: w[1].Str, Waited: remaining(w[2].Int), Permits: int(w[3].Int)}
		if waiter.Kind == "fair" {
			fair, waiter.Place = fair+1, fair+1
		}
		s.Queue = append(s.Queue, waiter)
	}
	return s, nil
}

// LookAtLimiter returns the call that reads the state of the rate limiter with that name,
// without changing it. DecodeLimiter decodes the reply.
func LookAtLimiter(d driver.Driver, name string) driver.Call {
	k := NewRateLimiter(name, "", 0).keys
	return driver.Call{Script: inspectLimiter, Keys: together(d, name, k[1], k[3])}
}

// DecodeLimiter decodes the reply to LookAtLimiter: the rate, and how many permits were
// taken in the last interval, negative if that is unknown. It returns false if the key is not
// a rate limiter.
func DecodeLimiter(r driver.Reply) (rate Rate, used int, ok bool, err error) {
	if r.Type != driver.List || len(r.List) != 0 && len(r.List) != 5 {
		return Rate{}, 0, false, unexpected(inspectLimiter, r)
	}
	if len(r.List) == 0 {
		return Rate{}, 0, false, nil
	}
	for _, e := range r.List {
		if e.Type != driver.Int {
			return Rate{}, 0, false, unexpected(inspectLimiter, r)
		}
	}
	n := r.List
	return Rate{Permits: int(n[0].Int), Interval: remaining(n[1].Int), PerClient: n[2].Int == 1, Keep: remaining(n[3].Int)}, int(n[4].Int), true, nil
}

// Break frees a lock if all its holders are in s. It reports whether it did. For
// permits, it is a numbered request.
func (s Sight) Break(ctx context.Context, d driver.Driver, name, request string) (bool, error) {
	if s.Kind == "semaphore" {
		var ids []string
		for _, h := range s.Holders {
			ids = append(ids, h.Owner)
		}
		row, ok := ParseIDs(ids)
		if !ok || len(ids) == 0 {
			return false, nil
		}
		return force(ctx, d, NewLeased(name, 0).Return(request, row))
	}
	mode, fields := "", []string(nil)
	for _, h := range s.Holders {
		switch field := h.Owner; h.Mode {
		case "write":
			mode, fields = "write", append(fields, writer(field))
		case "read":
			mode, fields = max(mode, "read"), append(fields, field) // a writer may also read
		default:
			fields = append(fields, field)
		}
	}
	rw := newRW(name)
	return force(ctx, d, driver.Call{
		Script: inspectBreak,
		Keys:   together(d, name, append(NewFair(name).keys[1:], rw.channel, rw.root)...),
		Args:   append([]string{publish, mode}, fields...),
	})
}
