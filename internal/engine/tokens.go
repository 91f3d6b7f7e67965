package engine

import "sync"

// tokens stores the highest fencing token of each name that this client has locked
// lately, its floor. The server takes tokens from its clock. If that clock is set back,
// the tokens of this client for a name still rise.
//
// A floor belongs to one name. Each master of a cluster has its own clock. A floor for two
// names would raise the tokens of one master by the clock of another, and the next client
// would get a lower token for the name.
type tokens struct {
	mu            sync.Mutex
	recent, older map[uint64]int64 // by the hash of the key
}

// maxFloors bounds each of the two maps. When the recent map is full, it replaces the older
// one. The floors of names that were not locked since then are lost.
const maxFloors = 4096

// floor returns the highest token known for a key, or zero.
func (t *tokens) floor(key string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.get(hash(key))
}

func (t *tokens) get(id uint64) int64 {
	if token, ok := t.recent[id]; ok { // it is not below the older one
		return token
	}
	return t.older[id]
}

// fence returns the token of a grant, given the highest token of that key that was known
// before the request was sent. A token of the server that is not above that one shows that
// the clock was set back. Then the token is also above those that other calls of this client
// have got since.
func (t *tokens) fence(key string, token, floor int64) int64 {
	id := hash(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	highest := t.get(id)
	if token <= floor {
		token = max(floor, highest) + 1
	}
	if _, ok := t.recent[id]; t.recent == nil || !ok && len(t.recent) >= maxFloors {
		t.recent, t.older = make(map[uint64]int64), t.recent
	}
	t.recent[id] = max(highest, token)
	return token
}

// Tokens from a clock are microseconds since 1970. These bounds are the years 1987 and
// 2255. A number outside of them is not the time of a server.
const (
	minClockToken = 1 << 49
	maxClockToken = 1 << 53
)

func isClockToken(token int64) bool { return token > minClockToken && token < maxClockToken }
