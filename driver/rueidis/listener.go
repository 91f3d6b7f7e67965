package rueidis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
)

// A listener keeps a set of channels subscribed, each on the node where it
// lives: one subscriber per node. When channels move to another node, so do they.
type listener struct {
	d           *Driver
	h           driver.Handler
	generations atomic.Uint64
	end         context.CancelFunc
	settling    sync.WaitGroup

	mu          sync.Mutex
	want        map[string]*node // where each channel is listened to; nil: nowhere yet
	subscribers map[*node]*subscriber
	closed      bool
}

// Listen implements driver.Driver.
func (d *Driver) Listen(h driver.Handler) driver.Listener {
	l := &listener{d: d, h: h, want: make(map[string]*node), subscribers: make(map[*node]*subscriber)}
	var life context.Context
	life, l.end = context.WithCancel(d.life)
	moved := make(chan struct{}, 1)
	unwatch := d.Watch(func() {
		select {
		case moved <- struct{}{}:
		default:
		}
	})
	l.settling.Go(func() { // Watch must not block, and Lost may take its time
		defer unwatch()
		for {
			select {
			case <-moved:
				l.settle()
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
		n := l.home(c)
		l.want[c] = n
		if n != nil {
			l.subscriber(n).want(c)
		}
	}
}

// Unsubscribe implements driver.Listener.
func (l *listener) Unsubscribe(channels ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range channels {
		if e := l.subscribers[l.want[c]]; e != nil {
			e.drop(c)
		}
		delete(l.want, c)
	}
}

// home returns the node to listen to a channel at.
func (l *listener) home(channel string) *node {
	return l.d.table.Load().at(l.d.slot(driver.Home(channel)))
}

// subscriber returns the subscriber at a node. It stays when nothing is left to hear: who
// waited once often waits again.
func (l *listener) subscriber(n *node) *subscriber {
	e := l.subscribers[n]
	if e == nil {
		e = newEar(l, n)
		l.subscribers[n] = e
	}
	return e
}

// settle moves channels to the nodes where they live now.
func (l *listener) settle() {
	l.mu.Lock()
	var lost, moves []string
	for c, was := range l.want {
		if n := l.home(c); n != was {
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
		n := l.home(c)
		if e := l.subscribers[l.want[c]]; e != nil {
			e.drop(c)
		}
		l.want[c] = n
	}
	l.mu.Unlock()
	if len(lost) > 0 && len(moves) > 0 {
		l.h.Lost(lost, errMoved) // before any of them is confirmed again
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range moves {
		if n, ok := l.want[c]; ok && n != nil && !l.closed {
			l.subscriber(n).want(c)
		}
	}
	for n, e := range l.subscribers { // of nodes that are not used any more
		if n.life.Err() != nil {
			delete(l.subscribers, n)
			l.settling.Go(e.close)
		}
	}
}

var errMoved = driver.Unsent(errors.New("the channel has moved to another server"))

// Close implements driver.Listener.
func (l *listener) Close() error {
	l.end()
	l.settling.Wait()
	l.mu.Lock()
	l.closed = true
	subscribers := l.subscribers
	l.subscribers = nil
	l.mu.Unlock()
	for _, e := range subscribers {
		e.cancel()
	}
	for _, e := range subscribers {
		e.close()
	}
	return nil
}
