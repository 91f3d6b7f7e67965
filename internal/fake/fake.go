// Package fake is a driver without a server, for tests whose time is faked
// (testing/synctest): it keeps locks in memory and does what the scripts would
// do. What the scripts really do is tested on real servers.
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
	mu    sync.Mutex
	locks map[string]*held
	ear   *listener
	calls map[string]int
	fail  func(driver.Call) error

	term     uint64
	replicas int // that acknowledge everything
	watchers []func()
}

type held struct {
	owner string
	count int
	until time.Time
}

var _ driver.Driver = (*Driver)(nil)

// New returns a driver with no lock held.
func New() *Driver {
	return &Driver{locks: make(map[string]*held), calls: make(map[string]int)}
}

// Fail makes calls fail with what f returns. The call still takes effect if
// that error is ambiguous: its answer is what was lost. Nil ends it.
func (d *Driver) Fail(f func(driver.Call) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = f
}

// Calls returns how often the script of that name was called.
func (d *Driver) Calls(script string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[script]
}

// Holder returns who holds a key, or "".
func (d *Driver) Holder(key string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.get(key); h != nil {
		return h.owner
	}
	return ""
}

// Remaining returns how long a key is still held.
func (d *Driver) Remaining(key string) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.get(key); h != nil {
		return time.Until(h.until)
	}
	return 0
}

// Expire sets how long a key is still held, as a replica that takes over may do.
func (d *Driver) Expire(key string, after time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.get(key); h != nil {
		h.until = time.Now().Add(after)
	}
}

// Delete takes a key away, without a message.
func (d *Driver) Delete(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.locks, key)
}

func (d *Driver) get(key string) *held {
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
	ear := d.ear
	d.mu.Unlock()
	if published != "" && ear != nil {
		ear.publish(published)
	}
	if err != nil {
		return driver.Reply{}, err
	}
	return reply, nil
}

func (d *Driver) run(c driver.Call) (reply driver.Reply, published string) {
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
			return number(-1), ""
		case h == nil:
			h = &held{owner: c.Args[1]}
			d.locks[c.Keys[0]] = h
		case h.owner != c.Args[1]:
			return number(-1 - int(time.Until(h.until).Milliseconds())), ""
		}
		h.count, _ = strconv.Atoi(c.Args[2])
		if until := lease(c.Args[0]); until.After(h.until) {
			h.until = until
		}
		return driver.Reply{Type: driver.Int, Int: time.Now().UnixMicro()}, ""
	case "mutex_release":
		h := d.get(c.Keys[0])
		if h == nil || h.owner != c.Args[0] {
			return number(0), ""
		}
		if c.Args[1] != "0" {
			h.count, _ = strconv.Atoi(c.Args[1])
			return number(1), ""
		}
		delete(d.locks, c.Keys[0])
		return number(1), c.Args[2]
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
		return driver.Reply{Type: driver.List, List: list}, ""
	}
	panic("fake: no script " + c.Script.Name)
}

// Replicas sets how many replicas there are. They acknowledge everything.
func (d *Driver) Replicas(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.replicas = n
}

// FailOver begins a new term, in which those keys are forgotten.
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

// DoAcked implements driver.Driver. Too few replicas are waited for in vain.
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

// Place implements driver.Driver: a key's place is what precedes its first
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

// Watch implements driver.Driver. There is no end to it.
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
	h        driver.Handler
	mu       sync.Mutex
	channels map[string]bool
	deaf     bool
	gen      uint64
}

// Listen implements driver.Driver.
func (d *Driver) Listen(h driver.Handler) driver.Listener {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ear = &listener{h: h, channels: make(map[string]bool), gen: 1}
	return d.ear
}

// Deafen makes messages get lost, or not.
func (d *Driver) Deafen(on bool) {
	d.mu.Lock()
	ear := d.ear
	d.mu.Unlock()
	ear.mu.Lock()
	defer ear.mu.Unlock()
	ear.deaf = on
}

// Reconnect breaks the connection of the listener and restores it.
func (d *Driver) Reconnect(err error) {
	d.mu.Lock()
	ear := d.ear
	d.mu.Unlock()
	ear.mu.Lock()
	ear.gen++
	channels := slices.Collect(maps.Keys(ear.channels))
	ear.mu.Unlock()
	ear.h.Lost(channels, err)
	ear.Subscribe(channels...)
}

// Channels returns how many channels are subscribed.
func (d *Driver) Channels() int {
	d.mu.Lock()
	ear := d.ear
	d.mu.Unlock()
	if ear == nil {
		return 0
	}
	ear.mu.Lock()
	defer ear.mu.Unlock()
	return len(ear.channels)
}

func (l *listener) publish(channel string) {
	l.mu.Lock()
	heard := l.channels[channel] && !l.deaf
	l.mu.Unlock()
	if heard {
		l.h.Message(channel, "0")
	}
}

func (l *listener) Subscribe(channels ...string) {
	l.mu.Lock()
	gen := l.gen
	for _, c := range channels {
		l.channels[c] = true
	}
	l.mu.Unlock()
	go func() { // as the confirmation of a server would come
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
