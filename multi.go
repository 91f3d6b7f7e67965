package holdfast

import (
	"context"
	"reflect"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// MultiLocker returns a group of locks: it acquires and releases all of them, or none.
// It corresponds to RedissonMultiLock in Redisson. The locks may be of different kinds
// and clients, or groups themselves. MultiLocker does not accept a lock of a [Redlock]
// or a Locker of a [LeasedSemaphore].
//
// The options of the individual locks, including hooks, do not apply. Pass options to
// each call instead. Two clients of one server count as two servers, so do not pass the
// same lock through two clients.
//
// One script acquires the locks of one client on one server. A failed attempt changes
// nothing. While the call waits for one of them, it holds none; if several are in use
// for long, it queues for one after the other, and keeps those that it has.
//
// Locks on several servers, or in several slots of a cluster, or with a fair mutex are
// acquired one after the other. A failed attempt then acquires and releases some of
// them: a fenced mutex uses up a token, and keyspace listeners receive events. All
// calls use the same order, so two of them cannot wait for each other. If another
// process uses a different order, as Redisson does, the group releases its locks after
// a moment, and tries that order next time.
//
// The lease has one context, which ends as soon as any of the locks is lost. A lock
// that the context of a call already holds is entered again. A lease time starts when
// the last lock is granted.
func MultiLocker(locks ...Locker) Locker {
	var names, given []string
	var all []Locker
	m := &multiLocker{named: named{kind: "multi"}}
	for _, l := range locks {
		if inner, ok := l.(*multiLocker); ok {
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
			m.set.fail(invalid("MultiLocker: a lock is a nil %T", l))
			continue
		}
		if !ok {
			m.set.fail(invalid("MultiLocker does not accept a %T: pass locks on a single name, such as those of Client.Mutex", l))
			continue
		}
		o, _ := one.target()
		names, given = append(names, o.name), append(given, o.given)
		m.set.fail(o.ready(context.Background()))
		if seen[o.client] == nil {
			seen[o.client] = make(map[string]bool)
		}
		if seen[o.client][o.name] {
			m.set.fail(invalid("MultiLocker contains %.80q twice: it would wait for itself", o.name))
		}
		seen[o.client][o.name] = true
	}
	m.name, m.given, m.locks = strings.Join(names, "+"), strings.Join(given, "+"), all
	return m
}

// A multiLocker is a group of locks.
type multiLocker struct {
	named
	locks []Locker
}

// A single is a lock with one name.
type single interface {
	target() (*named, engine.Kind)
}

func (m *Mutex) target() (*named, engine.Kind)   { return &m.named, m.wire }
func (m *RWMutex) target() (*named, engine.Kind) { return &m.write.named, m.write.wire }
func (r *rLocker) target() (*named, engine.Kind) { return &r.named, r.wire }

func (m *multiLocker) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.acquireAll(ctx, "lock", engine.Forever, opts)
}

func (m *multiLocker) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.acquireAll(ctx, "try lock", 0, opts)
}

func (m *multiLocker) Do(ctx context.Context, fn func(context.Context) error, opts ...LockOption) error {
	return do(ctx, m, fn, opts)
}

func (m *multiLocker) acquireAll(ctx context.Context, op string, wait time.Duration, opts []LockOption) (*Lease, error) {
	s := with(m.set, opts)
	if len(m.locks) == 0 {
		s.fail(invalid("MultiLocker has no locks: pass at least one"))
	}
	s.fail(checkContext(ctx))
	if s.err != nil {
		return nil, m.fail(op, s.err)
	}
	r := s.request(wait)
	first, _ := m.locks[0].(single).target()
	seen := m.observe(ctx, first.client, nil)
	set := newSet(len(m.locks))
	whole := &set.whole
	whole.kind, whole.name, whole.exit, whole.parent, whole.outer = m.kind, m.name, s.onRelease, ctx, LeaseOf(ctx)
	set.caller = setCaller{whole, first.client}
	r.Report, r.Caller = seen.notes(), &set.caller
	err := m.fill(ctx, set, s, r)
	if err == nil && len(set.wants) > 0 {
		waiting, done := whole.abortable(ctx, first.client)
		err = done(engine.AcquireAll(waiting, set.wants, r))
	}
	if err != nil {
		for i := range set.locks {
			if p := &set.locks[i]; p.entered {
				_ = p.lease.release()
			}
		}
		first.client.explainBusy(first.name, err)
		err = because(ctx, m.fail(op, err))
		first.client.failed(seen, err)
		return nil, err
	}
	for i := range set.locks {
		switch p := &set.locks[i]; {
		case !p.entered:
			p.lease.hold = p.want.Hold
			p.lease.pass, p.lease.token = p.want.Hold.Current()
		case s.lease > 0 && err == nil: // it was entered before the wait
			err = p.lease.hold.Prolong(ctx, p.lease.pass, r)
		}
	}
	if err == nil && !whole.Valid() {
		err = ErrLost
	}
	if err != nil {
		_ = whole.Release(ctx)
		err = whole.wrap(op, err)
		first.client.failed(seen, err)
		return nil, err
	}
	seen.ended(whole, len(set.wants) == 0, nil)
	whole.announce(s.onAcquire)
	whole.keepFor(s.atLeast)
	return whole, nil
}

// A set is the lease of a multiLocker, and what it consists of. It is one object, which
// saves allocations.
type set struct {
	whole  Lease
	parts  parts
	caller setCaller
	locks  []setLock
	wants  []*engine.Want // those that were not entered again
}

// A setLock is one of the locks of a set.
type setLock struct {
	lease   Lease
	want    engine.Want
	entered bool // the context holds it already
}

// newSet returns a set of n locks.
func newSet(n int) *set {
	s := &set{locks: make([]setLock, n), wants: make([]*engine.Want, 0, n)}
	s.parts = parts{need: n, leases: make([]*Lease, 0, n)}
	s.whole.parts = &s.parts
	return s
}

// fill prepares the leases of the locks. It enters those again that ctx holds.
func (m *multiLocker) fill(ctx context.Context, set *set, s settings, r engine.Request) error {
	for i, l := range m.locks {
		o, k := l.(single).target()
		if err := o.fits(s, k); err != nil {
			return err
		}
		p := &set.locks[i]
		p.lease = Lease{client: o.client, kind: o.kind, name: o.name, renewed: s.lease == 0, parent: ctx, outer: set.whole.outer, whole: &set.whole}
		set.parts.leases = append(set.parts.leases, &p.lease)
		var err error
		if p.entered, p.want.Under, err = o.prepare(ctx, &p.lease, r, s.nonReentrant); err != nil {
			return err
		}
		if !p.entered {
			p.want.Engine, p.want.Kind, p.want.User = o.client.engine, k, (*lossHandler)(&p.lease)
			set.wants = append(set.wants, &p.want)
		}
	}
	return nil
}
