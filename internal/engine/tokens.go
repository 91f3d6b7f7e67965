package engine

import (
	"hash/maphash"
	"sync"
)

// tokens remembers the highest fencing token of each name that this client has
// locked lately. The server takes tokens from its clock. If that clock is set
// back, the client still gives its own grants of a name rising tokens.
//
// A floor belongs to one name. Masters of a cluster have clocks of their own: a
// floor that two names share would raise the tokens of one master by the clock
// of another, and the next client would then get a lower token for the name.
type tokens struct {
	mu            sync.Mutex
	recent, older map[uint64]int64 // by the hash of the key
}

// maxFloors bounds each of the two maps. When the recent one is full, it
// replaces the older one: the names that were not locked since are forgotten.
const maxFloors = 4096

var floorSeed = maphash.MakeSeed()

// floor returns the highest token known for a key, or zero.
func (t *tokens) floor(key string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.get(maphash.String(floorSeed, key))
}

func (t *tokens) get(id uint64) int64 { return max(t.recent[id], t.older[id]) }

// raise notes a token of a key.
func (t *tokens) raise(key string, token int64) {
	id := maphash.String(floorSeed, key)
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.recent[id]; !ok && len(t.recent) >= maxFloors {
		t.recent, t.older = make(map[uint64]int64), t.recent
	}
	if t.recent == nil {
		t.recent = make(map[uint64]int64)
	}
	t.recent[id] = max(t.get(id), token)
}

// fence returns the token of a grant, given the highest token of that key that
// was known before the request was sent.
func (t *tokens) fence(key string, token, floor int64) int64 {
	token = max(token, floor+1)
	t.raise(key, token)
	return token
}

// Tokens from a clock are microseconds since 1970. These bounds are the years
// 1987 and 2255. A server cannot have meant a number outside of them: the reply
// comes from something else than its clock.
const (
	minClockToken = 1 << 49
	maxClockToken = 1 << 53
)

func isClockToken(token int64) bool { return token > minClockToken && token < maxClockToken }
