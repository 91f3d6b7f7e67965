package inspect

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

// list lists what a walk finds, except locks. The function look reads the items with some
// names, and leaves out what is not such an item.
func list[T any, P interface {
	*T
	size() int
}](ctx context.Context, i *Inspector, q Query, what string, w script.Walk, look func(names []string) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		l := &listing{Inspector: i, ctx: ctx, seen: make(map[string]bool)}
		err := l.limits(q)
		if err == nil {
			err = l.walkAll([]script.Walk{w}, func(names []string) error {
				for _, names := range l.unseen(names) {
					found, err := look(names)
					if err != nil {
						return err
					}
					for _, item := range found {
						if !give(l, item, P(&item).size(), yield) {
							return nil
						}
					}
				}
				return nil
			})
		}
		if err = l.incomplete(err); err != nil && !l.ended {
			var none T
			yield(none, explain("list "+what, err))
		}
	}
}

// one returns the item with a name, or the error missing.
func one[T any](ctx context.Context, i *Inspector, name, what string, missing error, look func(names []string) ([]T, error)) (none T, _ error) {
	if err := i.ready(ctx); err != nil {
		return none, explain("inspect "+what, err)
	}
	if name == "" {
		return none, explain("inspect "+what, fmt.Errorf("%w: the name is empty", engine.ErrInvalid))
	}
	found, err := look([]string{name})
	if err == nil && len(found) == 0 {
		err = missing
	}
	if err != nil {
		return none, explain(fmt.Sprintf("inspect %.80q", name), err)
	}
	return found[0], nil
}

// looker returns a function that reads items, each by a call. The function decode returns
// false if there is no such item.
func looker[T any](ctx context.Context, d driver.Driver, call func(name string) driver.Call, decode func(name string, r driver.Reply) (T, bool, error)) func(names []string) ([]T, error) {
	return func(names []string) (found []T, err error) {
		byNode := make(map[string][]string) // of the keys, which need not be the names
		for _, name := range names {
			node := d.Place(call(name).Keys[0]).Node
			byNode[node] = append(byNode[node], name)
		}
		for _, names := range byNode {
			for names := range slices.Chunk(names, batch) {
				calls := make([]driver.Call, len(names))
				for n, name := range names {
					calls[n] = call(name)
				}
				for n, r := range d.DoMany(ctx, calls) {
					if r.Err != nil {
						return nil, r.Err
					}
					item, ok, err := decode(names[n], r.Reply)
					if err != nil {
						return nil, err
					}
					if ok {
						found = append(found, item)
					}
				}
			}
		}
		return found, nil
	}
}
