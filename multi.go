package holdfast

import (
	"context"
	"reflect"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
)

var _ Locker = (*MultiMutex)(nil)

// A MultiMutex is several locks that are taken and released as one: all of
// them, or none. It is what Redisson calls RedissonMultiLock. The locks may be
// of different kinds and clients; [Multi] makes one.
//
// Locks of one client that live on one server are taken by one script: while
// they are waited for, none of them is held. With several servers, or with a
// [FairMutex] among them, they are taken one after the other, in an order that
// is the same for everybody, so that two of them cannot wait for each other.
// Where somebody keeps to another order, as Redisson does, it gives way after a
// moment, and learns from that.
//
// The lease on all of them has one context, which ends as soon as any of the
// locks is lost. A lock that the context of a call already holds is entered
// again.
type MultiMutex struct {
	named
	locks []Locker
}

// Multi returns the locks as one. It takes the locks of this package, in any
// mixture. Options that the locks were made with, hooks included, do not apply
// to it; it takes its own with each call. Two clients of one server are two
// servers to it, so name a lock through one of them only.
func Multi(locks ...Locker) *MultiMutex {
	var names []string
	var all []Locker
	m := &MultiMutex{named: named{kind: "multi"}}
	for _, l := range locks {
		if inner, ok := l.(*MultiMutex); ok && inner != nil {
			all = append(all, inner.locks...)
			m.set.fail(inner.set.err)
			continue
		}
		all = append(all, l)
	}
	seen := make(map[*Client]map[string]bool)
	for _, l := range all {
		one, ok := l.(single)
		if v := reflect.ValueOf(l); ok && v.Kind() == reflect.Pointer && v.IsNil() {
			m.set.fail(invalid("Multi: a lock is a nil %T", l))
			continue
		}
		if !ok {
			m.set.fail(invalid("Multi does not accept a %T: pass locks of this package", l))
			continue
		}
		o, _ := one.target()
		names = append(names, o.name)
		m.set.fail(o.ready(context.Background()))
		if seen[o.client] == nil {
			seen[o.client] = make(map[string]bool)
		}
		if seen[o.client][o.name] {
			m.set.fail(invalid("Multi contains %.80q twice: it would wait for itself", o.name))
		}
		seen[o.client][o.name] = true
	}
	m.name, m.locks = strings.Join(names, "+"), all
	return m
}

// A single is a lock by one name.
type single interface {
	target() (*named, engine.Kind)
}

func (x *exclusive) target() (*named, engine.Kind) { return &x.named, x.wire }
func (m *RWMutex) target() (*named, engine.Kind)   { return &m.write.named, m.write.wire }
func (r *RLocker) target() (*named, engine.Kind)   { return &r.named, r.wire }

// Lock waits until it holds all locks, or until ctx is done. It is otherwise as
// [Mutex.Lock]. A lease time counts from when the last lock was granted.
func (m *MultiMutex) Lock(ctx context.Context, opts ...Option) (*Lease, error) {
	return m.acquireAll(ctx, "lock", engine.Forever, opts)
}

// TryLock takes all locks if all are free, and otherwise none, and returns
// [ErrNotAcquired] at once, or after [Wait].
//
// Locks that one script takes are looked at before the first of them is taken, so
// a try that fails changes nothing. Otherwise (several clients, several slots of
// a cluster, a [FairMutex]) the first locks are taken and given back: a
// [FencedMutex] uses up a token, and keyspace listeners hear of it.
func (m *MultiMutex) TryLock(ctx context.Context, opts ...Option) (*Lease, error) {
	return m.acquireAll(ctx, "try lock", 0, opts)
}

// Do runs fn while holding all locks, as [Mutex.Do] does.
func (m *MultiMutex) Do(ctx context.Context, fn func(context.Context) error, opts ...Option) error {
	return do(ctx, m, fn, opts)
}

func (m *MultiMutex) acquireAll(ctx context.Context, op string, wait time.Duration, opts []Option) (*Lease, error) {
	s := m.set.with(opts)
	if len(m.locks) == 0 {
		s.fail(invalid("Multi has no locks: pass at least one"))
	}
	s.fail(checkContext(ctx))
	if s.writerFirst {
		s.fail(invalid("WriterFirst is for Client.RWMutex, not for a call"))
	}
	if s.err != nil {
		return nil, m.fail(op, s.err)
	}
	r := s.request(wait)
	whole := &Lease{
		kind: m.kind, name: m.name,
		parts:  &parts{need: len(m.locks)},
		exit:   s.onRelease,
		parent: ctx, outer: LeaseOf(ctx),
	}
	var wants []*engine.Want
	var wanted, entered []*Lease
	err := func() error {
		for _, l := range m.locks {
			o, k := l.(single).target()
			if err := o.client.fits(s.lease); err != nil {
				return err
			}
			part := &Lease{client: o.client, kind: o.kind, name: o.name, renewed: s.lease == 0, parent: ctx, outer: whole.outer, whole: whole}
			whole.parts.leases = append(whole.parts.leases, part)
			had, under, err := o.prepare(ctx, part, r, s.nonReentrant)
			switch {
			case err != nil:
				return err
			case had:
				entered = append(entered, part)
			default:
				wanted = append(wanted, part)
				wants = append(wants, &engine.Want{Engine: o.client.engine, Kind: k, Under: under, User: (*lossHandler)(part)})
			}
		}
		if len(wants) == 0 {
			return nil
		}
		return engine.AcquireAll(ctx, wants, r)
	}()
	if err != nil {
		for _, part := range entered {
			_ = part.release()
		}
		return nil, m.fail(op, err)
	}
	for i, part := range wanted {
		part.hold = wants[i].Hold
		part.pass, part.token = part.hold.Grant()
	}
	for _, part := range entered { // which may have been long ago
		if s.lease > 0 && err == nil {
			err = part.hold.Prolong(ctx, part.pass, r)
		}
	}
	if err == nil && !whole.Valid() {
		err = ErrLost
	}
	if err != nil {
		_ = whole.Release(ctx)
		return nil, whole.wrap(op, err)
	}
	whole.announce(s.onAcquire)
	return whole, nil
}
