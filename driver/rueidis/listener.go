package rueidis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
)

// A listener keeps a set of channels subscribed, each on the node that serves
// it. It has one subscriber per node. When a channel moves to another node, the
// listener subscribes it there.
type listener struct {
	d           *Driver
	h           driver.Handler
	generations atomic.Uint64
	end         context.CancelFunc
	wg          sync.WaitGroup

	mu          sync.Mutex
	channels    map[string]*node // the node of each channel; nil if it is not known yet
	subscribers map[*node]*subscriber
	closed      bool
}

// Listen implements driver.Driver.
func (d *Driver) Listen(h driver.Handler) driver.Listener {
	l := &listener{d: d, h: h, channels: make(map[string]*node), subscribers: make(map[*node]*subscriber)}
	var life context.Context
	life, l.end = context.WithCancel(d.life)
	moved := make(chan struct{}, 1)
	unwatch := d.Watch(func() {
		select {
		case moved <- struct{}{}:
		default:
		}
	})
	l.wg.Go(func() { // the callback of Watch must not block, but Handler.Lost may
		defer unwatch()
		for {
			select {
			case <-moved:
				l.reassign()
			case <-life.Done():
				return
			}
		}
	})
	return l
}

// Subscribe implements driver.Listener.
func (l *listener) Subscribe(channels ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	for _, c := range channels {
		n := l.nodeOf(c)
		l.channels[c] = n
		if n != nil {
			l.subscriber(n).subscribe(c)
		}
	}
}

// Unsubscribe implements driver.Listener.
func (l *listener) Unsubscribe(channels ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range channels {
		if s := l.subscribers[l.channels[c]]; s != nil {
			s.unsubscribe(c)
		}
		delete(l.channels, c)
	}
}

// nodeOf returns the node that a channel must be subscribed on, or nil if it is
// unknown.
func (l *listener) nodeOf(channel string) *node {
	return l.d.table.Load().at(l.d.slot(driver.Home(channel)))
}

// subscriber returns the subscriber of a node. It stays open when its last
// channel is unsubscribed, since new channels often follow. The caller holds l.mu.
func (l *listener) subscriber(n *node) *subscriber {
	s := l.subscribers[n]
	if s == nil {
		s = newSubscriber(l, n)
		l.subscribers[n] = s
	}
	return s
}

// reassign moves channels to the nodes that serve them now.
func (l *listener) reassign() {
	l.mu.Lock()
	var lost, moves []string
	for c, was := range l.channels {
		if n := l.nodeOf(c); n != was {
			moves = append(moves, c)
			if was != nil {
				lost = append(lost, c)
			}
		}
	}
	if l.closed {
		moves = nil
	}
	for _, c := range moves {
		n := l.nodeOf(c)
		if s := l.subscribers[l.channels[c]]; s != nil {
			s.unsubscribe(c)
		}
		l.channels[c] = n
	}
	l.mu.Unlock()
	if len(lost) > 0 && len(moves) > 0 {
		l.h.Lost(lost, errMoved) // before a new subscription is confirmed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range moves {
		if n, ok := l.channels[c]; ok && n != nil && !l.closed {
			l.subscriber(n).subscribe(c)
		}
	}
	for n, s := range l.subscribers { // close the subscribers of nodes that are closed
		if n.life.Err() != nil {
			delete(l.subscribers, n)
			l.wg.Go(s.close)
		}
	}
}

var errMoved = driver.Unsent(errors.New("the channel has moved to another server"))

// Close implements driver.Listener.
func (l *listener) Close() error {
	l.end()
	l.wg.Wait()
	l.mu.Lock()
	l.closed = true
	subscribers := l.subscribers
	l.subscribers = nil
	l.mu.Unlock()
	for _, s := range subscribers {
		s.cancel()
	}
	for _, s := range subscribers {
		s.close()
	}
	return nil
}
