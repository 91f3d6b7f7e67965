package goredis

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// errMoved is why a channel is lost that another node has taken over.
var errMoved = errors.New("the channel has moved to another node")

// A listener spreads channels over subscribers, one for each node. One goroutine
// decides which channel belongs where; it does so again when a subscriber cannot
// have a channel any more and when the driver says that something has moved.
type listener struct {
	d          *Driver
	h          driver.Handler
	ctx        context.Context
	cancel     context.CancelFunc
	astray     chan struct{} // buffered: some channels are to be sent somewhere
	generation atomic.Uint64
	telling    sync.Mutex // held while the handler is called

	mu          sync.Mutex
	want        map[string]*subscriber // all channels, and where they are listened to, if anywhere
	send        map[string]bool        // channels to be sent somewhere; true: to be confirmed in any case
	subscribers map[*node]*subscriber
}

// Listen implements driver.Driver.
func (d *Driver) Listen(h driver.Handler) driver.Listener {
	l := &listener{
		d: d, h: h,
		astray:      make(chan struct{}, 1),
		want:        make(map[string]*subscriber),
		send:        make(map[string]bool),
		subscribers: make(map[*node]*subscriber),
	}
	l.ctx, l.cancel = context.WithCancel(d.life)
	go l.run()
	return l
}

// Subscribe implements driver.Listener.
func (l *listener) Subscribe(channels ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range channels {
		if _, ok := l.want[c]; !ok {
			l.want[c] = nil
		}
		l.send[c] = true
	}
	raise(l.astray)
}

// Unsubscribe implements driver.Listener.
func (l *listener) Unsubscribe(channels ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range channels {
		if f := l.want[c]; f != nil {
			f.drop(c)
		}
		delete(l.want, c)
		delete(l.send, c)
	}
}

// Close implements driver.Listener. It does not wait for connections that are
// just being opened.
func (l *listener) Close() error {
	l.cancel()
	l.telling.Lock() // whoever tells something now is the last
	defer l.telling.Unlock()
	return nil
}

// run sends channels where they belong.
func (l *listener) run() {
	moved := make(chan struct{}, 1)
	defer l.d.Watch(func() { raise(moved) })()
	for {
		var retry <-chan time.Time
		if !l.spread() {
			retry = time.After(shortest)
		}
		select {
		case <-l.astray:
		case <-retry:
		case <-moved:
			l.check()
		case <-l.ctx.Done():
			return
		}
	}
}

// check has it checked for all channels whether they are at the right place.
func (l *listener) check() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c, f := range l.want {
		l.send[c] = l.send[c] || f != nil && f.asked[c] != f.families(c)
	}
	for n, f := range l.subscribers {
		if l.d.cluster != nil && len(f.wanted) == 0 {
			f.cancel()
			delete(l.subscribers, n)
		}
	}
}

// spread sends channels where they belong. It reports false if it does not know
// of all where that is.
func (l *listener) spread() bool {
	// A channel that moves is lost first, then subscribed elsewhere.
	moved := l.fetch()
	if len(moved) > 0 {
		l.tell(func(h driver.Handler) { h.Lost(moved, errMoved) })
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	send := l.send
	l.send = make(map[string]bool) // to range over one that was large once takes long
	for c, again := range send {
		n, err := l.d.at(l.ctx, driver.Home(c))
		if err != nil {
			l.d.ring()
			l.send[c] = again
			continue
		}
		f := l.subscriber(n)
		switch l.want[c] {
		case nil:
			if len(moved) > 0 { // the connection may be older than the last one
				f.generation.Store(l.generation.Add(1))
			}
			l.want[c] = f
			f.add(c)
		case f:
			if again {
				f.add(c)
			}
		default: // it has moved since
			l.send[c] = again
		}
	}
	return len(l.send) == 0
}

// fetch takes channels back from subscribers that have them no more.
func (l *listener) fetch() (moved []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.send {
		f := l.want[c]
		if f == nil {
			continue
		}
		if n, err := l.d.at(l.ctx, driver.Home(c)); err == nil && n != f.n {
			f.drop(c)
			l.want[c] = nil
			moved = append(moved, c)
		}
	}
	return moved
}

// subscriber returns the subscriber from a node. The caller holds l.mu.
func (l *listener) subscriber(n *node) *subscriber {
	f := l.subscribers[n]
	if f == nil {
		f = newFeed(l, n)
		l.subscribers[n] = f
		go f.run()
	}
	return f
}

// tell calls the handler, unless the listener is closed.
func (l *listener) tell(f func(driver.Handler)) {
	l.telling.Lock()
	defer l.telling.Unlock()
	if l.ctx.Err() == nil {
		f(l.h)
	}
}

// lost tells that a subscriber has lost channels.
func (l *listener) lost(f *subscriber, channels []string, err error) {
	l.d.ring() // they may belong elsewhere
	l.tell(func(h driver.Handler) {
		l.mu.Lock()
		channels = slices.DeleteFunc(channels, func(c string) bool { return l.want[c] != f })
		l.mu.Unlock()
		if len(channels) > 0 {
			h.Lost(channels, err)
		}
	})
}

// subscribed tells that a subscriber has a channel now.
func (l *listener) subscribed(f *subscriber, channel string) {
	l.tell(func(h driver.Handler) {
		l.mu.Lock()
		mine := l.want[channel] == f
		l.mu.Unlock()
		if mine {
			h.Subscribed(channel, f.generation.Load())
		}
	})
}
