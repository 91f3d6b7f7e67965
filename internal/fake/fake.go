// Package fake has a driver without a server, for tests with fake time
// (testing/synctest). It keeps locks in memory and imitates a few scripts. The
// scripts themselves are tested on real servers.
package fake

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A Driver keeps locks in memory.
type Driver struct {
	mu        sync.Mutex
	locks     map[string]*lock
	queues    map[string][]string      // owners that wait, by key
	joined    map[string]time.Time     // when owners came to a queue
	short     map[string]time.Duration // for owners that want a lock for less than grantTime, how long they are granted it
	values    map[string]value
	listeners []*listener
	calls     map[string]int
	fail      func(driver.Call) error

	offset   time.Duration // of the server's clock
	term     uint64
	replicas int           // number of replicas, all up to date
	acks     chan struct{} // closed when the number of replicas changes
	watchers []func()
}

type lock struct {
	owner string
	count int
	until time.Time
}

var _ driver.Driver = (*Driver)(nil)

// New returns a driver with no lock held.
func New() *Driver {
	return &Driver{locks: make(map[string]*lock), queues: make(map[string][]string), joined: make(map[string]time.Time), short: make(map[string]time.Duration), calls: make(map[string]int), values: make(map[string]value), acks: make(chan struct{})}
}

// Replica returns a driver with the same locks, queues and clock, and without the
// listeners: a replica that is promoted now.
func (d *Driver) Replica() *Driver {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := New()
	r.offset, r.term, r.replicas = d.offset, d.term, d.replicas
	for key, l := range d.locks {
		copied := *l
		r.locks[key] = &copied
	}
	for key, q := range d.queues {
		r.queues[key] = slices.Clone(q)
	}
	maps.Copy(r.short, d.short)
	return r
}

// Step sets the clock of the server forward, or back if by is negative. The server
// expires keys by this clock, and takes tokens from it.
func (d *Driver) Step(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.offset += by
}

// Now returns the time by the clock of the server.
func (d *Driver) Now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now()
}

func (d *Driver) now() time.Time { return time.Now().Add(d.offset) }

// Fail makes calls fail with the error that f returns. If that error is
// ambiguous, the call still takes effect: only its reply is lost. A nil f ends
// the failures.
func (d *Driver) Fail(f func(driver.Call) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = f
}

// Acquire reports whether a call acquires a mutex.
func Acquire(c driver.Call) bool { return slices.Contains(acquire, c.Script.Name) }

// Release reports whether a call releases a mutex.
func Release(c driver.Call) bool { return slices.Contains(release, c.Script.Name) }

var (
	acquire = []string{"mutex_acquire", "mutex_queue"}
	release = []string{"mutex_release", "mutex_grant"}
)

// Acquires returns how often a mutex was asked for.
func (d *Driver) Acquires() int { return d.count(acquire) }

// Releases returns how often a release was sent.
func (d *Driver) Releases() int { return d.count(release) }

// Renewals returns how often a renewal was sent.
func (d *Driver) Renewals() int { return d.count([]string{"renew"}) }

func (d *Driver) count(scripts []string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, s := range scripts {
		n += d.calls[s]
	}
	return n
}

// Holder returns the owner of a key, or "" if the key is not held.
func (d *Driver) Holder(key string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.get(key); h != nil {
		return h.owner
	}
	return ""
}

// Remaining returns the remaining lease of a key.
func (d *Driver) Remaining(key string) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.get(key); h != nil {
		return h.until.Sub(d.now())
	}
	return 0
}

// Expire sets the remaining lease of a key. After a failover, a new master may
// have another remaining lease than the old one.
func (d *Driver) Expire(key string, after time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.get(key); h != nil {
		h.until = d.now().Add(after)
	}
}

// Delete deletes a key without publishing a message.
func (d *Driver) Delete(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.locks, key)
}

func (d *Driver) get(key string) *lock {
	h := d.locks[key]
	if h != nil && !d.now().Before(h.until) {
		delete(d.locks, key)
		return nil
	}
	return h
}

// Do implements driver.Driver.
func (d *Driver) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	if err := ctx.Err(); err != nil {
		return driver.Reply{}, driver.Unsent(err)
	}
	d.mu.Lock()
	d.calls[c.Script.Name]++
	var err error
	if d.fail != nil {
		err = d.fail(c)
	}
	if err != nil && driver.ClassOf(err) != driver.Ambiguous {
		d.mu.Unlock()
		return driver.Reply{}, err
	}
	reply, published := d.run(c)
	listeners := slices.Clone(d.listeners)
	d.mu.Unlock()
	for _, m := range published {
		for _, l := range listeners {
			l.publish(m)
		}
	}
	if err != nil {
		return driver.Reply{}, err
	}
	return reply, nil
}

// Replicas sets the number of replicas. All of them acknowledge every write.
func (d *Driver) Replicas(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.replicas = n
	close(d.acks)
	d.acks = make(chan struct{})
}

// FailOver begins a new term and deletes the given keys.
func (d *Driver) FailOver(forgotten ...string) {
	d.mu.Lock()
	d.term++
	for _, key := range forgotten {
		delete(d.locks, key)
	}
	watchers := d.watchers
	d.mu.Unlock()
	for _, f := range watchers {
		f()
	}
}

// DoAcked implements driver.Driver. If there are too few replicas, it waits until there are
// enough, or until the timeout, as WAIT does.
func (d *Driver) DoAcked(ctx context.Context, calls []driver.Call, replicas int, timeout time.Duration) []driver.Result {
	results := d.DoMany(ctx, calls)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	acked, changed := d.ackers()
	for acked < replicas && ctx.Err() == nil {
		select {
		case <-changed:
			acked, changed = d.ackers()
		case <-ctx.Done():
		}
	}
	for i := range results {
		results[i].Acked = min(acked, replicas)
	}
	return results
}

// ackers returns how many replicas there are, and a channel that is closed when that changes.
func (d *Driver) ackers() (n int, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.replicas, d.acks
}

// DoMany implements driver.Driver.
func (d *Driver) DoMany(ctx context.Context, calls []driver.Call) []driver.Result {
	results := make([]driver.Result, len(calls))
	for i, c := range calls {
		results[i].Reply, results[i].Err = d.Do(ctx, c)
	}
	return results
}

// Place implements driver.Driver. The node of a key is the part before its first
// slash.
func (d *Driver) Place(key string) driver.Place {
	d.mu.Lock()
	defer d.mu.Unlock()
	place := driver.Place{Term: d.term, Replicas: d.replicas}
	if i := strings.IndexByte(key, '/'); i >= 0 {
		place.Node = key[:i]
	}
	return place
}

// Watch implements driver.Driver. The returned function does nothing.
func (d *Driver) Watch(f func()) func() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watchers = append(d.watchers, f)
	return func() {}
}

// Facts implements driver.Driver.
func (d *Driver) Facts(context.Context, ...string) []driver.Facts {
	d.mu.Lock()
	defer d.mu.Unlock()
	return []driver.Facts{{Role: "master", Replicas: d.replicas}}
}

// Close implements driver.Driver.
func (*Driver) Close() error { return nil }
