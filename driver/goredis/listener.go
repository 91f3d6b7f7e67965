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

// errMoved is the reason of Lost for a channel that another node serves now.
var errMoved = errors.New("the channel has moved to another server")

// A listener assigns channels to subscribers. It has one subscriber per node.
// One goroutine makes the assignments. It repeats an assignment when a
// subscriber has lost the channel and when the driver reports a change.
type listener struct {
	d          *Driver
	h          driver.Handler
	ctx        context.Context
	cancel     context.CancelFunc
	signal     chan struct{} // buffered: unassigned is not empty
	generation atomic.Uint64
	calling    sync.Mutex // held while the handler is called

	mu          sync.Mutex
	channels    map[string]*subscriber // the subscriber of each channel; nil if it has none
	unassigned  map[string]bool        // channels to assign; true: subscribe again if the subscriber is the same
	subscribers map[*node]*subscriber
}

// Listen implements driver.Driver.
func (d *Driver) Listen(h driver.Handler) driver.Listener {
	l := &listener{
		d: d, h: h,
		signal:      make(chan struct{}, 1),
		channels:    make(map[string]*subscriber),
		unassigned:  make(map[string]bool),
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
		if _, ok := l.channels[c]; !ok {
			l.channels[c] = nil
		}
		l.unassigned[c] = true
	}
	signal(l.signal)
}

// Unsubscribe implements driver.Listener.
func (l *listener) Unsubscribe(channels ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range channels {
		if s := l.channels[c]; s != nil {
			s.unsubscribe(c)
		}
		delete(l.channels, c)
		delete(l.unassigned, c)
	}
}

// Close implements driver.Listener. It does not wait for connections that are
// being opened.
func (l *listener) Close() error {
	l.cancel()
	l.calling.Lock() // wait for the handler call in progress, which is the last
	defer l.calling.Unlock()
	return nil
}

// run assigns channels until the listener is closed.
func (l *listener) run() {
	moved := make(chan struct{}, 1)
	defer l.d.Watch(func() { signal(moved) })()
	for {
		var retry <-chan time.Time
		if !l.assign() {
			retry = time.After(minPause)
		}
		select {
		case <-l.signal:
		case <-retry:
		case <-moved:
			l.recheck()
		case <-l.ctx.Done():
			return
		}
	}
}

// recheck marks all channels for assignment, and closes subscribers of cluster
// nodes that have no channels.
func (l *listener) recheck() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c, s := range l.channels {
		l.unassigned[c] = l.unassigned[c] || s != nil && s.requested[c] != s.familiesOf(c)
	}
	for n, s := range l.subscribers {
		if l.d.cluster != nil && len(s.wanted) == 0 {
			s.cancel()
			delete(l.subscribers, n)
		}
	}
}

// assign subscribes each unassigned channel on the node that serves it. It
// reports whether the nodes of all of them are known.
func (l *listener) assign() bool {
	// Report a moved channel as lost before it is subscribed on the new node.
	moved := l.withdrawMoved()
	if len(moved) > 0 {
		l.notify(func(h driver.Handler) { h.Lost(moved, errMoved) })
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	send := l.unassigned
	l.unassigned = make(map[string]bool) // ranging over a map that was once large is slow
	for c, again := range send {
		n, err := l.d.at(l.ctx, driver.Home(c))
		if err != nil {
			l.d.scanNow()
			l.unassigned[c] = again
			continue
		}
		s := l.subscriber(n)
		switch l.channels[c] {
		case nil:
			if len(moved) > 0 { // this connection may be older than the last one
				s.generation.Store(l.generation.Add(1))
			}
			l.channels[c] = s
			s.subscribe(c)
		case s:
			if again {
				s.subscribe(c)
			}
		default: // the channel has moved since withdrawMoved
			l.unassigned[c] = again
		}
	}
	return len(l.unassigned) == 0
}

// withdrawMoved unsubscribes unassigned channels from nodes that no longer serve
// them, and returns them.
func (l *listener) withdrawMoved() (moved []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.unassigned {
		s := l.channels[c]
		if s == nil {
			continue
		}
		if n, err := l.d.at(l.ctx, driver.Home(c)); err == nil && n != s.n {
			s.unsubscribe(c)
			l.channels[c] = nil
			moved = append(moved, c)
		}
	}
	return moved
}

// subscriber returns the subscriber of a node. The caller holds l.mu.
func (l *listener) subscriber(n *node) *subscriber {
	s := l.subscribers[n]
	if s == nil {
		s = newSubscriber(l, n)
		l.subscribers[n] = s
		go s.run()
	}
	return s
}

// notify calls the handler, unless the listener is closed.
func (l *listener) notify(f func(driver.Handler)) {
	l.calling.Lock()
	defer l.calling.Unlock()
	if l.ctx.Err() == nil {
		f(l.h)
	}
}

// lost reports to the handler that a subscriber has lost channels.
func (l *listener) lost(s *subscriber, channels []string, err error) {
	l.d.scanNow() // another node may serve them now
	l.notify(func(h driver.Handler) {
		l.mu.Lock()
		channels = slices.DeleteFunc(channels, func(c string) bool { return l.channels[c] != s })
		l.mu.Unlock()
		if len(channels) > 0 {
			h.Lost(channels, err)
		}
	})
}

// subscribed reports to the handler that a channel is subscribed.
func (l *listener) subscribed(s *subscriber, channel string) {
	l.notify(func(h driver.Handler) {
		l.mu.Lock()
		mine := l.channels[channel] == s
		l.mu.Unlock()
		if mine {
			h.Subscribed(channel, s.generation.Load())
		}
	})
}
