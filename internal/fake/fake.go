// Package fake has a driver without a server, for tests with fake time
// (testing/synctest). It keeps locks in memory and imitates a few scripts. The
// scripts themselves are tested on real servers.
package fake

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A Driver keeps locks in memory.
type Driver struct {
	mu        sync.Mutex
	locks     map[string]*lock
	queues    map[string][]string // owners that wait, by key
	short     map[string]bool     // owners that want a lock for less than grantTime
	listeners []*listener
	calls     map[string]int
	fail      func(driver.Call) error

	term     uint64
	replicas int // number of replicas, all up to date
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
	return &Driver{locks: make(map[string]*lock), queues: make(map[string][]string), short: make(map[string]bool), calls: make(map[string]int)}
}

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
	release = []string{"mutex_release", "mutex_pass"}
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
		return time.Until(h.until)
	}
	return 0
}

// Expire sets the remaining lease of a key. After a failover, a new master may
// have another remaining lease than the old one.
func (d *Driver) Expire(key string, after time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.get(key); h != nil {
		h.until = time.Now().Add(after)
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
	if h != nil && !time.Now().Before(h.until) {
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

// grantTime is how long an owner gets a lock that has not asked just now.
const grantTime = 2 * time.Second

// A message is published on a channel.
type message struct{ channel, payload string }

func (d *Driver) run(c driver.Call) (reply driver.Reply, published []message) {
	number := func(n int) driver.Reply { return driver.Reply{Type: driver.Int, Int: int64(n)} }
	lease := func(ms string) time.Time {
		n, _ := strconv.Atoi(ms)
		return time.Now().Add(time.Duration(n) * time.Millisecond)
	}
	switch c.Script.Name {
	case "mutex_acquire":
		h := d.get(c.Keys[0])
		switch {
		case h == nil && c.Args[2] != "1":
			return number(-1), nil
		case h == nil:
			h = &lock{owner: c.Args[1]}
			d.locks[c.Keys[0]] = h
		case h.owner != c.Args[1]:
			return number(-1 - int(time.Until(h.until).Milliseconds())), nil
		}
		h.count, _ = strconv.Atoi(c.Args[2])
		if until := lease(c.Args[0]); until.After(h.until) {
			h.until = until
		}
		return driver.Reply{Type: driver.Int, Int: time.Now().UnixMicro()}, nil
	case "mutex_release":
		h := d.get(c.Keys[0])
		if h == nil || h.owner != c.Args[0] {
			return number(0), nil
		}
		if c.Args[1] != "0" {
			h.count, _ = strconv.Atoi(c.Args[1])
			return number(1), nil
		}
		delete(d.locks, c.Keys[0])
		return number(1), []message{{c.Args[2], "0"}}
	case "mutex_queue":
		h := d.get(c.Keys[0])
		if h != nil && h.owner != c.Args[1] {
			if !slices.Contains(d.queues[c.Keys[1]], c.Args[1]) {
				d.queues[c.Keys[1]] = append(d.queues[c.Keys[1]], c.Args[1])
			}
			if until := lease(c.Args[0]); time.Until(until) < grantTime {
				d.short[c.Args[1]] = true
			}
			place := slices.Index(d.queues[c.Keys[1]], c.Args[1]) + 1
			return driver.Reply{Type: driver.List, List: []driver.Reply{number(-1 - int(time.Until(h.until).Milliseconds())), number(place)}}, nil
		}
		if h == nil {
			h = &lock{owner: c.Args[1], count: 1}
			d.locks[c.Keys[0]] = h
		}
		if until := lease(c.Args[0]); until.After(h.until) {
			h.until = until
		}
		d.dequeue(c.Keys[1], c.Args[1])
		return driver.Reply{Type: driver.Int, Int: time.Now().UnixMicro()}, nil
	case "mutex_pass":
		h := d.get(c.Keys[0])
		if h == nil || h.owner != c.Args[0] {
			d.dequeue(c.Keys[1], c.Args[0])
			return number(0), nil
		}
		delete(d.locks, c.Keys[0])
		others := d.heard(c.Args[1]) - d.heard(c.Keys[1])
		for len(d.queues[c.Keys[1]]) > 0 {
			owner := d.queues[c.Keys[1]][0]
			id, _, _ := strings.Cut(owner, ":")
			channel := c.Keys[1] + ":" + id
			if d.heard(channel) == 0 {
				d.dequeue(c.Keys[1], owner)
				continue
			}
			now := time.Now()
			if lot, _ := strconv.Atoi(c.Args[3]); others > 0 && lot%2 == 0 || lot == 0 || d.short[owner] {
				return number(1 + max(others, 0)), []message{{c.Args[1], "0"}, {channel, ""}}
			}
			d.locks[c.Keys[0]] = &lock{owner: owner, count: 1, until: now.Add(grantTime)}
			d.dequeue(c.Keys[1], owner)
			return number(1), []message{{channel, owner + " " + strconv.FormatInt(now.UnixMicro(), 10) + " 2000"}}
		}
		return number(1 + max(others, 0)), []message{{c.Args[1], "0"}}
	case "renew":
		list := make([]driver.Reply, len(c.Keys))
		for i, key := range c.Keys {
			list[i] = number(0)
			if h := d.get(key); h != nil && h.owner == c.Args[2*i+1] {
				list[i] = number(1)
				if until := lease(c.Args[2*i]); until.After(h.until) {
					h.until = until
				}
			}
		}
		return driver.Reply{Type: driver.List, List: list}, nil
	}
	panic("fake: no script " + c.Script.Name)
}

// dequeue removes an owner from a queue.
func (d *Driver) dequeue(key, owner string) {
	d.queues[key] = slices.DeleteFunc(d.queues[key], func(o string) bool { return o == owner })
	if len(d.queues[key]) == 0 {
		delete(d.queues, key)
	}
}

// heard returns how many listeners have subscribed to a channel.
func (d *Driver) heard(channel string) int {
	n := 0
	for _, l := range d.listeners {
		l.mu.Lock()
		n += map[bool]int{true: 1}[l.channels[channel]]
		l.mu.Unlock()
	}
	return n
}

// Waiting returns how many owners wait in queues.
func (d *Driver) Waiting() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, q := range d.queues {
		n += len(q)
	}
	return n
}

// Replicas sets the number of replicas. All of them acknowledge every write.
func (d *Driver) Replicas(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.replicas = n
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

// DoAcked implements driver.Driver. If there are too few replicas, it waits for
// the whole timeout.
func (d *Driver) DoAcked(ctx context.Context, calls []driver.Call, replicas int, timeout time.Duration) []driver.Result {
	results := d.DoMany(ctx, calls)
	d.mu.Lock()
	acked := d.replicas
	d.mu.Unlock()
	if acked < replicas {
		select {
		case <-time.After(timeout):
		case <-ctx.Done():
		}
	}
	for i := range results {
		results[i].Acked = min(acked, replicas)
	}
	return results
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

// A listener delivers messages in the goroutine of the publisher.
type listener struct {
	h          driver.Handler
	mu         sync.Mutex
	channels   map[string]bool
	lossy      bool
	generation uint64
}

// Listen implements driver.Driver.
func (d *Driver) Listen(h driver.Handler) driver.Listener {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := &listener{h: h, channels: make(map[string]bool), generation: 1}
	d.listeners = append(d.listeners, l)
	return l
}

// Deafen sets whether messages are lost.
func (d *Driver) Deafen(on bool) {
	for _, l := range d.all() {
		l.mu.Lock()
		l.lossy = on
		l.mu.Unlock()
	}
}

func (d *Driver) all() []*listener {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.listeners)
}

// Reconnect simulates a lost and restored connection of the listeners.
func (d *Driver) Reconnect(err error) {
	for _, l := range d.all() {
		l.mu.Lock()
		l.generation++
		channels := slices.Collect(maps.Keys(l.channels))
		l.mu.Unlock()
		l.h.Lost(channels, err)
		l.Subscribe(channels...)
	}
}

// Channels returns how many channels are subscribed.
func (d *Driver) Channels() int {
	n := 0
	for _, l := range d.all() {
		l.mu.Lock()
		n += len(l.channels)
		l.mu.Unlock()
	}
	return n
}

func (l *listener) publish(m message) {
	l.mu.Lock()
	heard := l.channels[m.channel] && !l.lossy
	l.mu.Unlock()
	if heard {
		l.h.Message(m.channel, m.payload)
	}
}

func (l *listener) Subscribe(channels ...string) {
	l.mu.Lock()
	gen := l.generation
	for _, c := range channels {
		l.channels[c] = true
	}
	l.mu.Unlock()
	go func() { // asynchronous, like the confirmation of a server
		for _, c := range channels {
			l.h.Subscribed(c, gen)
		}
	}()
}

func (l *listener) Unsubscribe(channels ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range channels {
		delete(l.channels, c)
	}
}

func (l *listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.channels)
	return nil
}
