package holdfast

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// An Object is a named thing of any kind, seen as something that the server
// keeps: it can be looked at, deleted, renamed, copied, saved, and given an end.
// The method Object of each kind returns it. It does what Redisson's RObject and
// RExpirable do.
//
// What an object has at the server may be several keys. They stay together:
// every method treats all of them, at one moment. A key of another type is
// somebody else's, and is not touched: [ErrRefused].
//
// The keys of a lock are what leases stand on. They can be looked at, and
// Delete and Unlink are its ForceUnlock; what would take the lock from its
// holder unnoticed, or change how long the lease lasts, is refused with
// [ErrUnsupported].
//
// In a cluster, a new name must be in the slot of the old one: give both the
// same hash tag, as in "{orders}:a" and "{orders}:b".
type Object struct {
	named
	wire *script.Object
	free func(context.Context) (bool, error) // of a lock: takes it from whoever holds it
	deep string                              // of a lock: why its keys cannot be looked at; "": they can
}

// asObject returns the object with all that it has at the server.
func (o *named) asObject() *Object {
	if o.client.usable() != nil { // every call fails
		return &Object{named: *o}
	}
	return &Object{named: *o, wire: script.NewObject(o.kind, o.name, o.client.ID())}
}

// Exists reports whether the object exists; a lock does while it is held.
func (o *Object) Exists(ctx context.Context) (bool, error) {
	var yes bool
	err := o.ask(ctx, "inspect", true, func(ctx context.Context) (err error) {
		yes, err = o.wire.Exists(ctx, o.client.driver)
		return err
	})
	return yes, err
}

// Delete deletes the object, and reports whether it existed. Those who wait for
// a [Latch] are told. Of a lock it is ForceUnlock; of an [RWMutex], for the
// writer and all readers. What a lock keeps between leases stays: the queue of a
// [FairMutex], the counter of a [FencedMutex] or an [Election]. To delete these
// as well, use [Object.Retire].
func (o *Object) Delete(ctx context.Context) (bool, error) { return o.delete(ctx, "delete", false) }

// Retire deletes the object and everything that the server keeps for its name,
// and reports whether there was anything. Use it for a name that will not be used
// again.
//
// For a [FencedMutex] and an [Election] that includes the counter of fencing
// tokens. If the name is used again, tokens and terms begin at 1. A guard that
// has seen a higher token of the old counter then refuses every new holder, and
// a guard that has seen none accepts an old holder that is still running. So
// retire such a name only when no process uses it any more, and delete what its
// guards remember (package fence) before the name is used again.
//
// For a [FairMutex] it includes the queue: processes that still wait enter the
// queue again, in another order. For every other kind, Retire is Delete.
//
// A lock is taken from its holder first. If another owner takes it before the
// rest is deleted, Retire keeps the rest and returns [ErrNotAcquired].
func (o *Object) Retire(ctx context.Context) (bool, error) {
	freed, err := o.delete(ctx, "retire", true)
	if err != nil || o.free == nil || !o.wire.Keeps() {
		return freed, err
	}
	r, err := o.order(ctx, "retire", o.wire.Forget, nil)
	if err != nil {
		return freed, err
	}
	free, gone, err := script.DecodeMoved(r)
	if err == nil && !free {
		err = fmt.Errorf("%w: another owner acquired the lock after it was freed: stop the processes that use it", ErrNotAcquired)
	}
	if err != nil {
		return freed, o.fail("retire", err)
	}
	return freed || gone, nil
}

// Unlink is Delete, but the server frees the memory of a large object later, and
// does not keep others waiting for that.
func (o *Object) Unlink(ctx context.Context) (bool, error) { return o.delete(ctx, "unlink", true) }

func (o *Object) delete(ctx context.Context, op string, later bool) (bool, error) {
	if o.free != nil {
		return o.free(ctx)
	}
	return o.decide(ctx, op, func(request string) driver.Call { return o.wire.Delete(request, later) })
}

// Touch has the server note that the object is in use, which matters where it
// evicts what was not used for long. It reports whether the object exists.
func (o *Object) Touch(ctx context.Context) (bool, error) {
	if err := o.shallow("touch"); err != nil {
		return false, err
	}
	var yes bool
	err := o.ask(ctx, "touch", true, func(ctx context.Context) (err error) {
		yes, err = o.wire.Touch(ctx, o.client.driver)
		return err
	})
	return yes, err
}

// MemoryUse returns how many bytes the object takes at the server.
func (o *Object) MemoryUse(ctx context.Context) (int64, error) {
	var n int64
	err := o.measure(ctx, "measure", &n, func(ctx context.Context) (int64, error) { return o.wire.Memory(ctx, o.client.driver) })
	return n, err
}

// IdleTime returns how long ago the object was used, in whole seconds. A server
// that evicts what is used least often does not know: [ErrRefused].
func (o *Object) IdleTime(ctx context.Context) (time.Duration, error) {
	var n int64
	err := o.measure(ctx, "inspect", &n, func(ctx context.Context) (int64, error) {
		d, err := o.wire.Idle(ctx, o.client.driver)
		return int64(d), err
	})
	return time.Duration(n), err
}

// measure asks for a number that is negative if there is no such object.
func (o *Object) measure(ctx context.Context, op string, n *int64, ask func(context.Context) (int64, error)) error {
	if err := o.shallow(op); err != nil {
		return err
	}
	err := o.ask(ctx, op, true, func(ctx context.Context) (err error) {
		*n, err = ask(ctx)
		return err
	})
	if err == nil && *n < 0 {
		*n, err = 0, o.fail(op, missing("it does not exist"))
	}
	return err
}

// shallow refuses to look at what is not known to be all of a lock.
func (o *Object) shallow(op string) error {
	if o.deep != "" {
		return o.fail(op, fmt.Errorf("%w: %s", ErrUnsupported, o.deep))
	}
	return nil
}

// TTL returns how long the object lasts; negative: it has no end.
func (o *Object) TTL(ctx context.Context) (time.Duration, error) {
	var ttl time.Duration
	err := o.ask(ctx, "inspect", true, func(ctx context.Context) (err error) {
		ttl, err = o.wire.TTL(ctx, o.client.driver)
		return err
	})
	if err == nil && ttl == -2*time.Millisecond {
		return 0, o.fail("inspect", missing("it does not exist"))
	}
	return ttl, err
}

// An ExpireCondition is what must be the case for [Object.Expire] to change
// anything.
type ExpireCondition string

// The conditions, and what Redis calls them. An object without an end lasts
// longer than any other.
const (
	IfNoTTL  ExpireCondition = "NX" // it has no end
	IfTTL    ExpireCondition = "XX" // it has one
	IfLater  ExpireCondition = "GT" // the new end is later than the one it has
	IfSooner ExpireCondition = "LT" // the new end is sooner than the one it has
)

const useExtend = "use Lease.Extend to change how long it is held"

// Expire lets the object end after d, if all conditions hold. It reports whether
// it did; it did not if there is no such object.
func (o *Object) Expire(ctx context.Context, d time.Duration, conditions ...ExpireCondition) (bool, error) {
	if d == 0 {
		return false, o.fail("expire", invalid("the TTL is 0: use Delete to delete the object now, or Persist to remove its TTL"))
	}
	if d < time.Millisecond || d > maxLease {
		return false, o.fail("expire", invalid("the TTL is %v: choose between 1ms and %v", d, maxLease))
	}
	return o.expire(ctx, conditions, func(request string, conditions []string) driver.Call {
		return o.wire.Expire(request, d, conditions)
	})
}

// ExpireAt is Expire with a moment, by the clock of the server. One that is over
// ends the object at once.
func (o *Object) ExpireAt(ctx context.Context, t time.Time, conditions ...ExpireCondition) (bool, error) {
	if t.Before(time.Unix(1, 0)) || time.Until(t) > maxLease {
		return false, o.fail("expire", invalid("the time is %v: choose a time after 1970 and at most %v from now", t, maxLease))
	}
	return o.expire(ctx, conditions, func(request string, conditions []string) driver.Call {
		return o.wire.ExpireAt(request, t, conditions)
	})
}

func (o *Object) expire(ctx context.Context, conditions []ExpireCondition, call func(string, []string) driver.Call) (bool, error) {
	if err := o.lockless("expire", useExtend); err != nil {
		return false, err
	}
	var words []string
	for _, c := range conditions {
		switch c {
		case IfNoTTL, IfTTL, IfLater, IfSooner:
			words = append(words, string(c))
		default:
			return false, o.fail("expire", invalid("the condition is %.20q: choose IfNoTTL, IfTTL, IfLater or IfSooner", c))
		}
	}
	return o.decide(ctx, "expire", func(request string) driver.Call { return call(request, words) })
}

// Persist takes the end from the object, and reports whether it had one.
func (o *Object) Persist(ctx context.Context) (bool, error) {
	if err := o.lockless("clear the expiry of", useExtend); err != nil {
		return false, err
	}
	return o.decide(ctx, "clear the expiry of", o.wire.Persist)
}

// lockless refuses what would make a lock lie.
func (o *Object) lockless(op, instead string) error {
	if o.free != nil {
		return o.fail(op, fmt.Errorf("%w for a lock, because it would break the lease of the holder: %s", ErrUnsupported, instead))
	}
	return nil
}

// Rename gives the object a new name. An object of the same kind that has it is
// replaced.
func (o *Object) Rename(ctx context.Context, name string) error {
	_, err := o.transfer(ctx, "rename", name, func(request string) driver.Call { return o.wire.Rename(request, name, true) })
	return err
}

// RenameIfAbsent is Rename, unless anything of an object by the new name exists.
// It reports whether it did.
func (o *Object) RenameIfAbsent(ctx context.Context, name string) (bool, error) {
	return o.transfer(ctx, "rename", name, func(request string) driver.Call { return o.wire.Rename(request, name, false) })
}

// Copy copies the object, and how long it lasts, unless anything of an object by
// the new name exists. It reports whether it did.
func (o *Object) Copy(ctx context.Context, name string) (bool, error) {
	return o.transfer(ctx, "copy", name, func(request string) driver.Call { return o.wire.Copy(request, name, false) })
}

// CopyReplace is Copy, and replaces an object of the same kind that has the new
// name.
func (o *Object) CopyReplace(ctx context.Context, name string) error {
	_, err := o.transfer(ctx, "copy", name, func(request string) driver.Call { return o.wire.Copy(request, name, true) })
	return err
}

const useOther = "use a lock with the other name, or free this one with Delete, which is ForceUnlock for a lock"

// transfer does what leads to another name.
func (o *Object) transfer(ctx context.Context, op, name string, call func(request string) driver.Call) (bool, error) {
	if err := o.lockless(op, useOther); err != nil {
		return false, err
	}
	if err := o.ready(ctx); err != nil {
		return false, o.fail(op, err)
	}
	d := o.client.driver
	switch err := script.CheckName(name); {
	case err != nil:
		return false, o.fail(op, invalid("the new name: %w", err))
	case o.wire.Shares(name):
		return false, o.fail(op, invalid("the new name %.80q has the same keys as the old name: choose another one", name))
	case d.Place(o.name) != d.Place(name):
		return false, o.fail(op, invalid("the new name %.80q is in another slot of the cluster: use the same hash tag in both names, as in {a}:1 and {a}:2", name))
	}
	r, err := o.order(ctx, op, call, nil)
	if err != nil {
		return false, err
	}
	existed, done, err := script.DecodeMoved(r)
	if err == nil && !existed {
		err = missing("it does not exist")
	}
	if err != nil {
		return false, o.fail(op, err)
	}
	return done, nil
}

// Move moves the object to another database of the server, unless anything of an
// object by its name exists there. It reports whether it did; it did not if
// there is no such object. This client's objects are those of its own database.
func (o *Object) Move(ctx context.Context, database int) (bool, error) {
	if err := o.lockless("move", useOther); err != nil {
		return false, err
	}
	if database < 0 || database > math.MaxInt32 {
		return false, o.fail("move", invalid("the database is %d: choose 0 or higher", database))
	}
	var own int
	var cluster bool
	err := o.ask(ctx, "move", true, func(ctx context.Context) error {
		facts, err := driver.FactsAt(ctx, o.client.driver, o.name)
		own, cluster = facts.Database, facts.Cluster
		return err
	})
	switch {
	case err != nil:
		return false, err
	case cluster:
		return false, o.fail("move", fmt.Errorf("%w: a cluster has only one database: use Rename or Copy instead", ErrUnsupported))
	case own == database:
		return false, o.fail("move", invalid("the object is already in database %d: choose another one", database))
	}
	return o.decide(ctx, "move", func(request string) driver.Call { return o.wire.Move(request, own, database) })
}
