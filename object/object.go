package object

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/script"
)

// An Object represents a named object of any kind as data on the server. [Of] returns
// it, or the method Object of the types of this package. It corresponds to RObject and
// RExpirable in Redisson.
//
// An object may have several keys on the server. A method handles all of them
// atomically, unless it frees a lock. A key of another type does not belong to the
// object: it is not changed, and the method returns [holdfast.ErrRefused]. If the
// object does not exist, Copy, Dump, IdleTime, MemoryUse, Rename, their variants, and
// TTL return [holdfast.ErrNotFound].
//
// The keys of a lock or an election belong to its holder. Delete, Unlink and Retire
// free it. Exists, TTL and Listen inspect it, and, except for a [holdfast.RWMutex], so
// do IdleTime, MemoryUse and Touch. All other methods return [holdfast.ErrUnsupported].
//
// In a cluster, a new name must be in the same slot as the old name: use the same hash
// tag in both, as in "{orders}:a" and "{orders}:b".
type Object struct {
	named
	wire *script.Object                      // nil: every call fails
	free func(context.Context) (bool, error) // for a lock: frees it from its holder
	deep string                              // for a lock: why its keys cannot be inspected; "" if they can
}

// A Kind is a kind of object that a [holdfast.Client] makes.
type Kind interface {
	*holdfast.Mutex | *holdfast.RWMutex |
		*holdfast.Semaphore | *holdfast.LeasedSemaphore | *holdfast.Latch | *holdfast.RateLimiter | *holdfast.Election
}

// Of returns a lock or another synchronizer as an object.
//
// Deleting a [holdfast.Election] deposes the leader. A [holdfast.Latch] is open when it
// is deleted or has expired. If a [holdfast.LeasedSemaphore] is deleted or renamed, or
// if it expires, the holders lose their permits, and notice it at their next renewal.
// The object of a [holdfast.RateLimiter] has the data that all clients share and the
// data of this client.
func Of[K Kind](x K) *Object { return newObject(access.Of(x)) }

func newObject(m access.Managed) *Object { return &Object{named{m.Named}, m.Wire, m.Free, m.Deep} }

// Exists reports whether the object exists. A lock exists while it is held.
func (o *Object) Exists(ctx context.Context) (bool, error) {
	var yes bool
	err := o.inner().Ask(ctx, "inspect", true, func(ctx context.Context) (err error) {
		yes, err = o.wire.Exists(ctx, o.inner().Driver())
		return err
	})
	return yes, err
}

// Delete deletes the object, and reports whether it existed. Waiters of a
// [holdfast.Latch] are notified. For a lock, Delete is ForceUnlock. It frees a
// [holdfast.RWMutex] from the writer, then from all readers. It keeps the queue of a
// fair mutex, and the counter of a fenced mutex or a [holdfast.Election]: to delete
// these too, use [Object.Retire].
func (o *Object) Delete(ctx context.Context) (bool, error) { return o.delete(ctx, "delete", false) }

// Retire deletes the object and all data that the server keeps for its name, and
// reports whether there was any. Use it for a name that will not be used again.
//
// For a fenced mutex and a [holdfast.Election] this includes the counter of fencing
// tokens. If the name is used again, tokens and terms begin at 1: a guard that has seen
// a higher token of the old counter refuses every new holder, and a guard that has seen
// none accepts an old holder that is still running. So retire such a name only when no
// process uses it any more, and delete the memory of its guards (package fence) before
// the name is used again.
//
// For a fair mutex it includes the queue. Processes that still wait enter the queue
// again, in another order. For every other kind, Retire is Unlink.
//
// Retire first frees the lock from its holder. If another owner acquires it before the
// rest is deleted, Retire keeps the data and returns [holdfast.ErrNotAcquired].
func (o *Object) Retire(ctx context.Context) (bool, error) {
	freed, err := o.delete(ctx, "retire", true)
	if err != nil || o.free == nil || !o.wire.Keeps() {
		return freed, err
	}
	r, err := o.inner().Order(ctx, "retire", o.wire.Forget)
	if err != nil {
		return freed, err
	}
	free, gone, err := script.DecodeMoved(r)
	if err == nil && !free {
		err = fmt.Errorf("%w: another owner acquired the lock after it was freed: stop the processes that use it", holdfast.ErrNotAcquired)
	}
	if err != nil {
		return freed, o.inner().Fail("retire", err)
	}
	return freed || gone, nil
}

// Unlink is like Delete, but the server frees the memory of a large object in
// the background and does not block other requests.
func (o *Object) Unlink(ctx context.Context) (bool, error) { return o.delete(ctx, "unlink", true) }

func (o *Object) delete(ctx context.Context, op string, later bool) (bool, error) {
	if o.free != nil {
		return o.free(ctx)
	}
	return o.inner().Decide(ctx, op, func(request string) driver.Call { return o.wire.Delete(request, later) })
}

// Touch updates the time of the last access, which matters if the server evicts the
// least recently used keys. It reports whether the object exists.
func (o *Object) Touch(ctx context.Context) (bool, error) {
	if err := o.shallow("touch"); err != nil {
		return false, err
	}
	var yes bool
	err := o.inner().Ask(ctx, "touch", true, func(ctx context.Context) (err error) {
		yes, err = o.wire.Touch(ctx, o.inner().Driver())
		return err
	})
	return yes, err
}

// MemoryUse returns the size of the object in the memory of the server, in bytes.
func (o *Object) MemoryUse(ctx context.Context) (int64, error) {
	var n int64
	err := o.measure(ctx, "measure", &n, func(ctx context.Context) (int64, error) { return o.wire.Memory(ctx, o.inner().Driver()) })
	return n, err
}

// IdleTime returns the time since the last access, in whole seconds. The error matches
// [holdfast.ErrRefused] if the server evicts the least frequently used keys, because it
// then does not record the time.
func (o *Object) IdleTime(ctx context.Context) (time.Duration, error) {
	var n int64
	err := o.measure(ctx, "inspect", &n, func(ctx context.Context) (int64, error) {
		d, err := o.wire.Idle(ctx, o.inner().Driver())
		return int64(d), err
	})
	return time.Duration(n), err
}

// measure runs a query whose result is negative if the object does not exist.
func (o *Object) measure(ctx context.Context, op string, n *int64, ask func(context.Context) (int64, error)) error {
	if err := o.shallow(op); err != nil {
		return err
	}
	err := o.inner().Ask(ctx, op, true, func(ctx context.Context) (err error) {
		*n, err = ask(ctx)
		return err
	})
	if err == nil && *n < 0 {
		*n, err = 0, o.inner().Fail(op, errMissing)
	}
	return err
}

// shallow returns an error if not all keys of the lock are known.
func (o *Object) shallow(op string) error {
	if o.deep != "" {
		return o.inner().Fail(op, fmt.Errorf("%w: %s", holdfast.ErrUnsupported, o.deep))
	}
	return nil
}

// TTL returns the remaining time of the object. It is negative if the object does not
// expire.
func (o *Object) TTL(ctx context.Context) (time.Duration, error) {
	var ttl time.Duration
	err := o.inner().Ask(ctx, "inspect", true, func(ctx context.Context) (err error) {
		ttl, err = o.wire.TTL(ctx, o.inner().Driver())
		return err
	})
	if err == nil && ttl == -2*time.Millisecond {
		return 0, o.inner().Fail("inspect", errMissing)
	}
	return ttl, err
}

// An ExpireCondition is a condition for [Object.Expire] and [Object.ExpireAt].
type ExpireCondition string

// The conditions, with the names that Redis uses. An object without a TTL counts as
// one with an infinite TTL.
const (
	IfNoTTL  ExpireCondition = "NX" // the object has no TTL
	IfTTL    ExpireCondition = "XX" // the object has a TTL
	IfLater  ExpireCondition = "GT" // the new TTL is longer than the current one
	IfSooner ExpireCondition = "LT" // the new TTL is shorter than the current one
)

const useExtend = "use Lease.Extend to change how long it is held"

// Expire sets the TTL of the object if it exists and all conditions are true. It
// reports whether it did.
func (o *Object) Expire(ctx context.Context, d time.Duration, conditions ...ExpireCondition) (bool, error) {
	if d == 0 {
		return false, o.inner().Fail("expire", invalid("the TTL is 0: use Delete to delete the object now, or Persist to remove its TTL"))
	}
	if d < time.Millisecond || d > access.MaxTime {
		return false, o.inner().Fail("expire", invalid("the TTL is %v: choose between 1ms and %v", d, access.MaxTime))
	}
	return o.expire(ctx, conditions, func(request string, conditions []string) driver.Call {
		return o.wire.Expire(request, d, conditions)
	})
}

// ExpireAt is like Expire, with a point in time of the server's clock. If t is in the
// past, the object is deleted at once.
func (o *Object) ExpireAt(ctx context.Context, t time.Time, conditions ...ExpireCondition) (bool, error) {
	if t.Before(time.Unix(1, 0)) || time.Until(t) > access.MaxTime {
		return false, o.inner().Fail("expire", invalid("the time is %v: choose a time after 1970 and at most %v from now", t, access.MaxTime))
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
			return false, o.inner().Fail("expire", invalid("the condition is %.20q: choose IfNoTTL, IfTTL, IfLater or IfSooner", c))
		}
	}
	return o.inner().Decide(ctx, "expire", func(request string) driver.Call { return call(request, words) })
}

// Persist removes the TTL of the object, and reports whether it had one.
func (o *Object) Persist(ctx context.Context) (bool, error) {
	if err := o.lockless("clear the expiry of", useExtend); err != nil {
		return false, err
	}
	return o.inner().Decide(ctx, "clear the expiry of", o.wire.Persist)
}

// lockless returns an error for operations that would make the lease of a lock
// wrong.
func (o *Object) lockless(op, instead string) error {
	if o.free != nil {
		return o.inner().Fail(op, fmt.Errorf("%w for a lock, because it would break the lease of the holder: %s", holdfast.ErrUnsupported, instead))
	}
	return nil
}

// Rename renames the object. It replaces an object of the same kind with the new name.
func (o *Object) Rename(ctx context.Context, name string) error {
	_, err := o.transfer(ctx, "rename", name, func(request, name string) driver.Call { return o.wire.Rename(request, name, true) })
	return err
}

// RenameIfAbsent is like Rename, but does nothing if any key of an object with the new
// name exists. It reports whether it renamed the object.
func (o *Object) RenameIfAbsent(ctx context.Context, name string) (bool, error) {
	return o.transfer(ctx, "rename", name, func(request, name string) driver.Call { return o.wire.Rename(request, name, false) })
}

// Copy copies the object and its TTL, unless any key of an object with the new name
// exists. It reports whether it did. Copy needs Redis 6.2 or later, or Valkey.
func (o *Object) Copy(ctx context.Context, name string) (bool, error) {
	return o.transfer(ctx, "copy", name, func(request, name string) driver.Call { return o.wire.Copy(request, name, false) })
}

// CopyReplace is like Copy, but replaces an object of the same kind with the new name.
func (o *Object) CopyReplace(ctx context.Context, name string) error {
	_, err := o.transfer(ctx, "copy", name, func(request, name string) driver.Call { return o.wire.Copy(request, name, true) })
	return err
}

const useOther = "use a lock with the other name, or free this one with Delete, which is ForceUnlock for a lock"

// transfer runs an operation that has another name as its target.
func (o *Object) transfer(ctx context.Context, op, name string, call func(request, name string) driver.Call) (bool, error) {
	if err := o.lockless(op, useOther); err != nil {
		return false, err
	}
	if err := o.inner().Ready(ctx); err != nil {
		return false, o.inner().Fail(op, err)
	}
	d := o.inner().Driver()
	name = o.inner().Prefixed(name)
	switch err := script.CheckName(name); {
	case err != nil:
		return false, o.inner().Fail(op, invalid("the new name: %w", err))
	case o.wire.Shares(name):
		return false, o.inner().Fail(op, invalid("the new name %.80q has the same keys as the old name: choose another one", name))
	case d.Place(o.inner().Key()) != d.Place(name):
		return false, o.inner().Fail(op, invalid("the new name %.80q is in another slot of the cluster: use the same hash tag in both names, as in {a}:1 and {a}:2", name))
	}
	r, err := o.inner().Order(ctx, op, func(request string) driver.Call { return call(request, name) })
	if err != nil {
		return false, err
	}
	existed, done, err := script.DecodeMoved(r)
	if err == nil && !existed {
		err = errMissing
	}
	if err != nil {
		return false, o.inner().Fail(op, err)
	}
	return done, nil
}

// Move moves the object to another database of the server if it exists, unless any key
// of an object with the same name exists there. It reports whether it did. After the
// move, this client does not see the object, because a client uses one database.
func (o *Object) Move(ctx context.Context, database int) (bool, error) {
	if err := o.lockless("move", useOther); err != nil {
		return false, err
	}
	if database < 0 || database > math.MaxInt32 {
		return false, o.inner().Fail("move", invalid("the database is %d: choose 0 or higher", database))
	}
	var own int
	var cluster bool
	err := o.inner().Ask(ctx, "move", true, func(ctx context.Context) error {
		facts, err := driver.FactsAt(ctx, o.inner().Driver(), o.inner().Key())
		own, cluster = facts.Database, facts.Cluster
		return err
	})
	switch {
	case err != nil:
		return false, err
	case cluster:
		return false, o.inner().Fail("move", fmt.Errorf("%w: a cluster has only one database: use Rename or Copy instead", holdfast.ErrUnsupported))
	case own == database:
		return false, o.inner().Fail("move", invalid("the object is already in database %d: choose another one", database))
	}
	return o.inner().Decide(ctx, "move", func(request string) driver.Call { return o.wire.Move(request, own, database) })
}
