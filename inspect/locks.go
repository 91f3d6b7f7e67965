package inspect

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

const (
	stride = 250 // keys to go through in one call, about
	brief  = 100 // holders and waiters that Locks shows of each lock
)

// Locks lists the locks that are held now, in no order. It goes through the keys
// of all masters with SCAN, a few hundred at a time, which is safe on a server at
// work. A lock that is held all the while is listed once, unless its slot moves
// from one master to another; others may be missed. Of each lock the first 100
// holders and waiters are shown.
//
// An error ends the list: [ErrMore] if it is not complete.
func (i *Inspector) Locks(ctx context.Context, q Query) iter.Seq2[Lock, error] {
	return func(yield func(Lock, error) bool) {
		l := &listing{
			Inspector: i, ctx: ctx, yield: yield, seen: make(map[string]bool),
			limit: cmp.Or(q.Limit, 1_000), keys: cmp.Or(q.Keys, 1_000_000), pause: q.Pause,
		}
		err := i.ready(ctx)
		if err != nil {
			yield(Lock{}, explain("list locks", err))
			return
		}
		if min(q.Limit, q.Keys) < 0 || q.Pause < 0 {
			err = fmt.Errorf("%w: the limits of a query must not be negative", engine.ErrInvalid)
		} else if err = l.run(cmp.Or(q.Match, "*")); err == nil && l.more {
			err = fmt.Errorf("%w: raise the limits of the query, or use a pattern that matches fewer names", ErrMore)
		}
		if err != nil && !l.ended {
			yield(Lock{}, explain("list locks", err))
		}
	}
}

// A listing is one run of Locks.
type listing struct {
	*Inspector
	ctx   context.Context
	yield func(Lock, error) bool
	seen  map[string]bool // names that have been looked at: SCAN may return one twice
	limit int             // locks that may yet be listed
	keys  int             // keys to go through on each walk
	pause time.Duration
	more  bool // than may be looked at, or listed
	ended bool // the caller wants no more
}

func (l *listing) run(pattern string) error {
	for _, w := range script.Walks(pattern) {
		keys := l.keys
		for _, route := range script.Routes(l.driver) {
			if err := l.walk(w, route, &keys); err != nil || l.over() {
				return err
			}
		}
	}
	return nil
}

// over reports whether nothing else can be listed.
func (l *listing) over() bool { return l.ended || l.limit < 0 }

// walk goes through the keys of one server, as many as are left.
func (l *listing) walk(w script.Walk, route string, keys *int) error {
	place := l.driver.Place(route)
	for cursor := ""; cursor != "0"; *keys -= stride {
		if *keys <= 0 {
			l.more = true
			return nil
		}
		var names []string
		var err error
		if cursor, names, err = w.Step(l.ctx, l.driver, route, cmp.Or(cursor, "0"), min(stride, *keys)); err != nil {
			return err
		}
		// What a cursor says is known to the server that gave it, and to no other.
		if now := l.driver.Place(route); now.Node != place.Node || now.Term != place.Term {
			return driver.Unsent(fmt.Errorf("another server took over from %s during the listing: list again", place.Node))
		}
		if err := l.list(names); err != nil || l.over() {
			return err
		}
		if cursor == "0" {
			return nil // there was not as much as asked for
		}
		if err := l.rest(); err != nil {
			return err
		}
	}
	return nil
}

// list looks at what may be locks, and yields those that are held.
func (l *listing) list(names []string) error {
	byNode := make(map[string][]string)
	for _, n := range names {
		if !l.seen[n] {
			l.seen[n] = true
			node := l.driver.Place(n).Node
			byNode[node] = append(byNode[node], n)
		}
	}
	for _, names := range byNode {
		for lock, err := range l.look(l.ctx, names, brief) {
			switch {
			case err != nil:
				return err
			case len(lock.Holders) == 0 && lock.More == 0:
				continue
			}
			if l.limit--; l.limit < 0 {
				l.more = true
				return nil
			}
			if l.ended = !l.yield(lock, nil); l.ended {
				return nil
			}
		}
	}
	return nil
}

// rest lets others use the server for a while.
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
