package inspect

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

const (
	stride  = 250 // default of Query.Step
	maxStep = 10_000
	brief   = 100 // maximum number of holders and waiters per lock in a list

	// The maximum size of a list, in bytes: itemRoom for each item of Query.Limit on average,
	// at least minRoom and at most maxRoom.
	itemRoom = 16 << 10
	minRoom  = 1 << 20
	maxRoom  = 64 << 20
)

// Locks lists the locks that are held now, and locks without holders that have
// clients in the queue of Holdfast, see [Waiter], in no particular order. It
// scans the keys of all masters with SCAN, a few hundred at a time, which is
// safe on a busy server. A lock that is held during the whole scan is listed
// once, unless its slot moves to another master. Other locks may be missed.
// Each lock has up to 100 holders, and up to 100 waiters of each queue.
//
// Names of more than 1024 bytes are not listed. A list has about 16 KiB per lock of
// Query.Limit at most, and 64 MiB at most.
//
// An error ends the list. The error matches [ErrMore] if a limit was reached, and says
// which one.
func (i *Inspector) Locks(ctx context.Context, q Query) iter.Seq2[Lock, error] {
	return func(yield func(Lock, error) bool) {
		l := &listing{Inspector: i, ctx: ctx, yield: yield, seen: make(map[string]bool), listed: make(map[string]bool)}
		err := l.limits(q)
		if err == nil {
			l.clients.driver = i.driver
			err = l.run(cmp.Or(q.Match, "*"))
		}
		if err = l.incomplete(err); err != nil && !l.ended {
			yield(Lock{}, explain("list locks", err))
		}
	}
}

// limits sets the limits of a query.
func (l *listing) limits(q Query) error {
	l.room = max(min(cmp.Or(q.Limit, 1_000), maxRoom/itemRoom)*itemRoom, minRoom)
	l.limit, l.keys, l.pause, l.step = cmp.Or(q.Limit, 1_000), cmp.Or(q.Keys, 1_000_000), q.Pause, min(cmp.Or(q.Step, stride), maxStep)
	if err := l.ready(l.ctx); err != nil {
		return err
	}
	if min(q.Limit, q.Keys, q.Step) < 0 || q.Pause < 0 {
		return fmt.Errorf("%w: the limits of a query must not be negative", engine.ErrInvalid)
	}
	return nil
}

// incomplete returns err, or [ErrMore] if a limit was reached.
func (l *listing) incomplete(err error) error {
	switch {
	case err != nil:
		return err
	case l.more && l.room < 0:
		return fmt.Errorf("%w: the holders, waiters and names are too long for one list: use a pattern that matches fewer names", ErrMore)
	case l.more:
		return fmt.Errorf("%w: raise the limits of the query, or use a pattern that matches fewer names", ErrMore)
	}
	return nil
}

// A listing is one run of Locks, Clients or Limiters.
type listing struct {
	*Inspector
	clients clients
	ctx     context.Context
	yield   func(Lock, error) bool
	seen    map[string]bool // names that were already read: SCAN may return a name twice
	listed  map[string]bool // names of the locks in the list
	free    []string        // names of locks without holders that clients wait for; they are listed last
	last    bool            // the free locks are being listed
	limit   int             // remaining number of locks
	room    int             // remaining number of bytes
	keys    int             // number of keys to scan per walk
	pause   time.Duration
	step    int
	more    bool // a limit was reached
	ended   bool // the caller has left the loop
}

func (l *listing) run(pattern string) error {
	if err := l.walkAll(script.Walks(pattern), l.list); err != nil || l.over() {
		return err
	}
	return l.listFree()
}

// walkAll scans the keys of all servers, once per walk.
func (l *listing) walkAll(walks []script.Walk, list func(names []string) error) error {
	for _, w := range walks {
		keys := l.keys
		for _, route := range script.Routes(l.driver) {
			if err := l.walk(w, route, &keys, list); err != nil || l.over() {
				return err
			}
		}
	}
	return nil
}

// listFree lists the free locks. Two names may share one queue, so these are listed when all
// held locks are known. See [script.Twin].
func (l *listing) listFree() error {
	l.last = true
	clear(l.seen)
	for names := range slices.Chunk(l.free, l.step) {
		if err := l.rest(); err != nil {
			return err
		}
		if err := l.list(names); err != nil || l.over() {
			return err
		}
	}
	return nil
}

// over reports whether the listing has to stop.
func (l *listing) over() bool { return l.ended || l.limit < 0 || l.room < 0 }

// walk scans the keys of one server, as many as are left.
func (l *listing) walk(w script.Walk, route string, keys *int, list func(names []string) error) error {
	place := l.driver.Place(route)
	for cursor := ""; cursor != "0"; *keys -= l.step {
		if *keys <= 0 {
			l.more = true
			return nil
		}
		var names []string
		var err error
		if cursor, names, err = w.Step(l.ctx, l.driver, route, cmp.Or(cursor, "0"), min(l.step, *keys)); err != nil {
			return err
		}
		// A cursor is valid only on the server that returned it.
		if now := l.driver.Place(route); now.Node != place.Node || now.Term != place.Term {
			return driver.Unsent(fmt.Errorf("another server took over from %s during the listing: list again", place.Node))
		}
		if err := list(names); err != nil || l.over() {
			return err
		}
		if cursor == "0" {
			return nil // the scan is complete
		}
		if err := l.rest(); err != nil {
			return err
		}
	}
	return nil
}

// list reads the state of possible locks, and yields those that are held or waited for. It
// leaves free locks to listFree.
func (l *listing) list(names []string) error {
	var locks []Lock
	room := l.room
	for _, names := range l.unseen(names) {
		for lock, err := range l.look(l.ctx, names, brief, min(batch, l.step)) {
			switch {
			case err != nil:
				return err
			case room < 0: // the lock before does not fit
			case len(lock.Holders) == 0 && len(lock.Queue) == 0 && lock.More == 0:
			case len(lock.Holders) == 0 && !l.last:
				l.free = append(l.free, lock.Name)
			case len(lock.Holders) == 0 && l.listed[script.Twin(lock.Name)]: // the queue is that of the other lock
			default:
				l.listed[lock.Name] = true
				locks = append(locks, lock)
				room -= lock.size()
			}
		}
	}
	l.clients.name(l.ctx, locks[:min(len(locks), max(l.limit, 0))])
	for _, lock := range locks {
		if !give(l, lock, lock.size(), l.yield) {
			return nil
		}
	}
	return nil
}

// unseen returns the names that were not read before, by the nodes of their keys. It leaves
// out names that are too long.
func (l *listing) unseen(names []string) map[string][]string {
	byNode := make(map[string][]string)
	for _, n := range names {
		if len(n) <= script.MaxListed && !l.seen[n] {
			l.seen[n] = true
			node := l.driver.Place(n).Node
			byNode[node] = append(byNode[node], n)
		}
	}
	return byNode
}

// give yields an item of that size unless a limit is reached. It reports whether the listing
// goes on.
func give[T any](l *listing, item T, size int, yield func(T, error) bool) bool {
	l.limit--
	l.room -= size
	if l.over() {
		l.more = true
		return false
	}
	l.ended = !yield(item, nil)
	return !l.ended
}

// rest pauses, so that other clients can use the server.
func (l *listing) rest() error {
	if l.pause == 0 {
		return l.ctx.Err()
	}
	select {
	case <-l.ctx.Done():
		return l.ctx.Err()
	case <-time.After(l.pause):
		return nil
	}
}
