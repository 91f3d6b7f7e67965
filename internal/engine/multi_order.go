package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
)

// While some locks of a set are kept, others are not waited for without an end.
// The order of all sets is the same, so they cannot wait for each other in a
// circle; but Redisson takes its locks in the order in which they are given, so
// may whoever locks by hand, and two processes may disagree after a server was
// restarted. So a set that has waited a moment with something in hand gives that
// back and begins again with what it could not get, which it waits for with
// nothing in hand. Each time the moment is twice as long, up to holdAndWait, so
// that it gets its locks also where all of them are in use.
//
// A set that does not begin as all the others do is in their way as soon as it
// has something. So it does not wait for the rest, but for a outOfOrderWait, and then
// returns to the order of all. If it waited, there would be no end to that where
// many want the same: whoever is in order holds what the others lack, and so do
// they, and each gives up just before its turn. The glances grow, though, for
// those who only ever get what they need for long in the wrong order. And where
// strangers are in the way, who have another order, it waits in theirs as long
// as in its own.
const (
	moment         = time.Second
	holdAndWait    = 2 * time.Second
	outOfOrderWait = 100 * time.Millisecond
)

// A multiOrder is with which lock a set begins, and how long it waits for the rest.
type multiOrder struct {
	start     *Want // nil: as it is the usual
	usual     int
	first     int           // the unit of start, as planned; zero: in order
	patience  time.Duration // in order, and in that of strangers
	strangers bool          // are about, so that another order may be the right one
	astray    int           // how often it was out of order without them
}

// lay returns the planned units as they are to be taken, and how long to wait
// for each of them with something in hand.
func (c *multiOrder) lay(planned []unit) (units []unit, keep time.Duration) {
	if c.start == nil {
		c.usual = recall(planned)
		c.start, c.strangers = planned[c.usual].wants[0], c.usual != 0
	}
	units, c.first = startWith(c.start, planned)
	if c.first == 0 || c.strangers {
		return units, c.patience
	}
	keep = min(outOfOrderWait<<(2*c.astray), c.patience)
	c.astray = min(c.astray+1, 3)
	return units, keep
}

// learn notes that the set has got its locks, for the next one.
func (c *multiOrder) learn(planned []unit) {
	if c.first != c.usual && (c.first == 0 || c.strangers) {
		remember(planned, c.first)
	}
}

// giveWay decides what to begin with now that the set could not get a lock.
func (c *multiOrder) giveWay(planned []unit, missing *Want) {
	if c.first == 0 || c.strangers {
		c.start, c.patience = missing, min(2*c.patience, holdAndWait)
	} else {
		c.start = planned[0].wants[0]
	}
}

// startWith puts the unit of a want before all others, and returns where it
// was.
func startWith(w *Want, planned []unit) ([]unit, int) {
	i := slices.IndexFunc(planned, func(u unit) bool { return slices.Contains(u.wants, w) })
	return slices.Concat(planned[i:i+1], planned[:i], planned[i+1:]), i
}

// Whoever meets somebody with another order, such as Redisson, has to give way,
// and would have to again the next time. So a set that has given way remembers
// with what it began when it succeeded, and the next one of its shape begins
// with that. If that is wrong, because others keep to the order of all sets, it
// costs a moment and is forgotten.

// maxFirsts bounds what is remembered. There are as many shapes as mixtures of
// clients and kinds, so it is for those who open clients again and again.
const maxFirsts = 100

// shape is what sets have in common for which the same order is likely to be
// right, whatever the names: the clients, and where there is a queue.
func shape(planned []unit) string {
	var b strings.Builder
	for _, u := range planned {
		b.WriteString(u.e.id)
		if u.wants[0].Kind.Traits().Queue == script.AtServer {
			b.WriteByte('q')
		}
	}
	return b.String()
}

// recall returns with which unit to begin.
func recall(planned []unit) int {
	if len(planned) == 1 {
		return 0
	}
	e, key := planned[0].e, shape(planned)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.firsts[key]
}

// remember keeps with which unit a set has succeeded.
func remember(planned []unit, first int) {
	e, key := planned[0].e, shape(planned)
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.firsts, key)
	if first == 0 {
		return
	}
	if len(e.firsts) >= maxFirsts {
		clear(e.firsts)
	}
	e.firsts[key] = first
}
