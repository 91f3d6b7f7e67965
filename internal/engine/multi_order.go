package engine

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
)

// In which order a set of locks is acquired, and how long it waits for one while it holds others.
//
// All sets use the same order, so sets cannot deadlock with each other. But other clients may use
// another order: Redisson acquires locks in the order of its arguments, programs may lock one by
// one, and two processes may disagree after a server was restarted. So a set that holds some locks
// waits for the next one only for its patience. Then it releases all and starts with the missing
// lock, for which it waits while it holds none. The patience doubles each time, from firstPatience
// to maxPatience, so that a set gets its locks even if all are in use. A set that queues keeps its
// place, and its patience has no maximum unless a foreign client holds the lock.
//
// A set that starts out of order blocks the sets that are in order. So it waits for the other locks
// only for outOfOrderWait, and then returns to the common order. Otherwise sets that compete for
// the same locks would block each other, and each would give up shortly before its turn. The wait
// grows with each attempt, for sets that get a busy lock only out of order. If a foreign client,
// with another order, holds the missing lock, the set waits with its full patience.
const (
	firstPatience  = time.Second
	maxPatience    = 2 * time.Second
	outOfOrderWait = 100 * time.Millisecond
)

// A multiOrder decides with which lock a set starts, and how long it waits for the others.
type multiOrder struct {
	start      *Want         // the lock to start with; nil: that of savedFirst
	recalled   int           // the group that savedFirst has returned
	firstGroup int           // the group of start, as planned; zero: the common order
	patience   time.Duration // in the common order, and in that of foreign clients
	foreign    bool          // a foreign client holds a lock, so another order may be right
	outOfOrder int           // how often the set started out of order without foreign clients
	divided    bool          // a group was divided
	gates      []*group      // the groups that were divided, whose turns in this process the call keeps
}

// arrange returns the groups in the order to acquire them, and the patience after the first.
func (o *multiOrder) arrange(planned []group) (groups []group, patience time.Duration) {
	if o.start == nil {
		o.recalled = savedFirst(planned)
		o.start, o.foreign = planned[o.recalled].wants[0], o.recalled != 0
	}
	i := slices.IndexFunc(planned, func(g group) bool { return slices.Contains(g.wants, o.start) })
	groups, o.firstGroup = slices.Concat(planned[i:i+1], planned[:i], planned[i+1:]), i
	if o.isCommon() {
		return groups, o.patience
	}
	patience = min(outOfOrderWait<<(2*o.outOfOrder), o.patience, maxPatience)
	o.outOfOrder = min(o.outOfOrder+1, 3)
	return groups, patience
}

// isCommon reports whether the groups are in the common order, or in that of foreign clients.
func (o *multiOrder) isCommon() bool { return o.firstGroup == 0 || o.foreign }

// learn saves the start of a set that has got its locks, for later sets.
func (o *multiOrder) learn(planned []group) {
	if !o.divided && o.firstGroup != o.recalled && o.isCommon() {
		saveFirst(planned, o.firstGroup)
	}
}

// chooseStart chooses what to start with after the set could not get a lock.
func (o *multiOrder) chooseStart(planned []group, r *errRestart) {
	if !o.isCommon() {
		o.start = planned[0].wants[0]
	} else {
		o.start, o.patience = r.want, 2*o.patience
		if !r.granted || o.foreign {
			o.patience = min(o.patience, maxPatience)
		}
	}
	if o.divided {
		separate(planned)
	}
}

// A set that competes with a client of another order, such as Redisson, has to restart, and so
// would the next set. So a set that has restarted saves the group with which it succeeded, and the
// next set of the same shape starts with it. If the other clients use the common order, one set
// waits for its patience without success, and the saved group is removed.

// shape returns what sets that need the same order share: clients, and queues at the server.
func shape(planned []group) string {
	var b strings.Builder
	for _, g := range planned {
		b.WriteString(g.e.owners.id)
		if g.wants[0].Kind.Traits().Queue == script.AtServer {
			b.WriteByte('q')
		}
	}
	return b.String()
}

// firsts are the saved groups.
type firsts struct {
	mu      sync.Mutex
	byShape map[string]int
}

// savedFirst returns the group to start with.
func savedFirst(planned []group) int {
	if len(planned) == 1 {
		return 0
	}
	f := &planned[0].e.firsts
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byShape[shape(planned)]
}

// saveFirst saves the group with which a set has started and succeeded.
func saveFirst(planned []group, first int) {
	f, key := &planned[0].e.firsts, shape(planned)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byShape, key)
	if first == 0 {
		return
	}
	if len(f.byShape) >= maxFirsts {
		clear(f.byShape)
	}
	f.byShape[key] = first
}
