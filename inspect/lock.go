package inspect

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

const (
	batch = 50    // locks per pipeline, at most
	full  = 1_000 // maximum number of holders and waiters in the result of Lock
)

// Lock returns the state of one lock, with up to 1,000 holders and waiters. A
// free lock has no holders, but may have a queue. The error matches
// [ErrNotLock] if the key is not a lock. This includes a semaphore without
// taken permits and without clients in the queue, because its key is a plain
// number.
func (i *Inspector) Lock(ctx context.Context, name string) (Lock, error) {
	if err := i.ready(ctx); err != nil {
		return Lock{}, explain("inspect a lock", err)
	}
	if name == "" {
		return Lock{}, explain("inspect a lock", fmt.Errorf("%w: the name is empty", engine.ErrInvalid))
	}
	for lock, err := range i.look(ctx, []string{name}, full, 1) {
		if err == nil && lock.Kind == "" {
			err = fmt.Errorf("%w: the key is something else, or a semaphore without taken permits and without clients in the queue", ErrNotLock)
		}
		if err != nil {
			return Lock{}, explain(fmt.Sprintf("inspect %.80q", name), err)
		}
		cs, one := clients{driver: i.driver}, []Lock{lock}
		cs.name(ctx, one)
		return one[0], nil
	}
	panic("unreachable: one name yields one lock")
}

// Break frees a lock if exactly the owners in seen still hold it. It reports
// whether it did. Holders that use Holdfast notice it at their next renewal, or
// verification if their lease is fixed; see holdfast.Options.RenewEvery. Waiters are
// woken. If the lock has more holders than seen lists, Break does nothing.
//
// Break does not notice if a Java thread has released the lock and acquired it
// again, because the owner is the same. The same is true for the goroutines of
// one client that hand a lock over to each other.
//
// For a semaphore, Break releases the permits in seen if all of them are still
// taken. Other permits are not affected.
func (i *Inspector) Break(ctx context.Context, seen Lock) (bool, error) {
	if err := i.ready(ctx); err != nil {
		return false, explain("break a lock", err)
	}
	var s script.Sight
	if seen.Kind == Semaphore {
		s.Kind = "semaphore"
	}
	for _, h := range seen.Holders {
		s.Holders = append(s.Holders, script.Holder{Owner: h.Owner, Mode: string(h.Mode)})
	}
	if len(s.Holders) == 0 {
		return false, nil
	}
	done, err := s.Break(ctx, i.driver, seen.Name, rand.Text()+":0:1")
	if err != nil {
		return false, explain(fmt.Sprintf("break %.80q", seen.Name), err)
	}
	return done, nil
}

// look reads the state of locks on one node. For a name that is not a lock, it returns a
// Lock without a kind. The caller adds the names to errors.
func (i *Inspector) look(ctx context.Context, names []string, most, batch int) iter.Seq2[Lock, error] {
	return func(yield func(Lock, error) bool) {
		for names := range slices.Chunk(names, batch) {
			calls := make([]driver.Call, len(names))
			for n, name := range names {
				calls[n] = script.Look(i.driver, name, most)
			}
			for n, r := range i.lookAgain(ctx, calls, i.driver.DoMany(ctx, calls)) {
				var s script.Sight
				if r.Err == nil {
					s, r.Err = script.DecodeSight(r.Reply)
				}
				if !yield(found(names[n], s), r.Err) {
					return
				}
			}
		}
	}
}

// lookAgain repeats the calls that failed because of a key that is not essential, without
// that key. It returns the results of all calls.
func (i *Inspector) lookAgain(ctx context.Context, calls []driver.Call, results []driver.Result) []driver.Result {
	var again []driver.Call
	var at []int
	for n, r := range results {
		if call, ok := script.LookAgain(calls[n], r.Err); ok {
			again, at = append(again, call), append(at, n)
		}
	}
	if len(again) > 0 {
		for n, r := range i.driver.DoMany(ctx, again) {
			results[at[n]] = r
		}
	}
	return results
}

// kinds are the kinds by the names that package script uses.
var kinds = map[string]Kind{
	"mutex": Mutex, "fair": Fair, "fenced": Fenced, "election": Election, "rw": RW, "semaphore": Semaphore,
}

func found(name string, s script.Sight) Lock {
	l := Lock{Name: name, Kind: kinds[s.Kind], Queued: s.Queued, Clients: s.Clients, Token: s.Token, Leader: s.Leader, More: s.More}
	for _, w := range s.Queue {
		l.Queue = append(l.Queue, Waiter{Owner: w.Owner, Place: w.Place, Kind: kinds[w.Kind], Permits: w.Permits, Waited: w.Waited})
	}
	for _, h := range s.Holders {
		l.Holders = append(l.Holders, Holder{Owner: h.Owner, Mode: Mode(h.Mode), Holds: h.Count, TTL: h.TTL})
	}
	return l
}

// explain wraps an error so that callers can match its class.
func explain(op string, err error) error {
	var failed *driver.Error
	switch {
	case errors.Is(err, driver.ErrClosed):
		err = engine.ErrClosed
	case !errors.As(err, &failed):
	case failed.Class == driver.Fatal:
		err = fmt.Errorf("%w: %w%s", engine.ErrRefused, err, advice[refusal(err)])
	default:
		err = fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
	}
	return fmt.Errorf("holdfast: %s: %w", op, err)
}

// advice says what to do about a refused request.
var advice = map[script.Refusal]string{
	script.CommandRefused: " (docs/operations.md lists the permissions that are needed to inspect and to break locks)",
	script.KeyRefused:     " (use a pattern that matches only names that the user has permission for; the user also needs ~holdfast:scan:*)",
}

func refusal(err error) script.Refusal {
	r, _ := script.Refused(err.Error())
	return r
}
