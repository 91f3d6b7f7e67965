// Package wait turns published messages into wake-ups.
//
// A [Hub] keeps one subscription per channel, however many wait for it, and
// keeps it for a moment after the last one left, since whoever waited once
// often waits again. It starts no goroutine: the driver's reader calls it.
//
// A wake-up is a hint, never a fact. It comes for every message, and for every
// confirmed subscription too, because what was published while the connection
// was down is gone. A waiter that was woken looks at the server itself.
package wait

import (
	"container/list"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A Hub is all the waiting of one client.
type Hub struct {
	d      driver.Driver
	linger time.Duration
	told   Told

	mu       sync.Mutex
	listener driver.Listener // nil until somebody waits
	channels map[string]*channel
	idle     list.List       // of *channel without a waiter, the longest idle first
	sweeper  *time.Timer     // armed while idle channels linger
	down     bool            // the connection is broken, and that was reported
	refused  map[string]bool // channels that were reported as refused, maxRefused at most
	closed   bool
}

// Told is what a hub reports. The functions are called without a lock, from
// the goroutine of the driver that found out.
type Told struct {
	// Lost says that a connection broke. It is called once until the
	// connection is restored.
	Lost func(error)

	// Refused says that the server refuses a channel, which other channels are
	// not affected by. It is called once per channel.
	Refused func(channel string, err error)
}

// maxRefused bounds how many channels are reported as refused.
const maxRefused = 1000

type channel struct {
	name    string
	live    bool // the server has confirmed it on the present connection
	waiters map[*Waiter]struct{}
	idle    time.Time     // since when it has no waiter
	place   *list.Element // in Hub.idle; nil: it has waiters
}

// NewHub returns a hub that keeps idle subscriptions for the given time.
func NewHub(d driver.Driver, linger time.Duration, told Told) *Hub {
	return &Hub{d: d, linger: linger, told: told, channels: make(map[string]*channel), refused: make(map[string]bool)}
}

// A Waiter is woken by what happens on its channels.
type Waiter struct {
	hub  *Hub
	chs  []*channel
	wake chan struct{}
	tap  *Tap // nil for those who need only the wake-up
}

// Join begins to wait on some channels. A message published after they are
// Live wakes the waiter, also when it comes before the waiter looks at Wake.
// Waiters of several hubs can share the wake-up: a channel with room for one.
func (h *Hub) Join(wake chan struct{}, names ...string) *Waiter { return h.join(wake, nil, names) }

func (h *Hub) join(wake chan struct{}, tap *Tap, names []string) *Waiter {
	if wake == nil {
		wake = make(chan struct{}, 1)
	}
	w := &Waiter{hub: h, chs: make([]*channel, len(names)), wake: wake, tap: tap}
	h.mu.Lock()
	defer h.mu.Unlock()
	listener := h.open()
	for i, name := range names {
		ch, known := h.channels[name]
		if !known {
			ch = &channel{name: name, waiters: make(map[*Waiter]struct{})}
			h.channels[name] = ch
		}
		ch.waiters[w] = struct{}{}
		h.busy(ch)
		w.chs[i] = ch
		if !known && listener != nil {
			listener.Subscribe(name) // under the lock: no sweep may come between
		}
	}
	return w
}

// open returns the listener, which is nil once the hub is closed. The caller
// holds h.mu.
func (h *Hub) open() driver.Listener {
	if h.listener == nil && !h.closed {
		h.listener = h.d.Listen(ear{h})
	}
	return h.listener
}

// Wake receives after a message, and after the subscription was confirmed.
func (w *Waiter) Wake() <-chan struct{} { return w.wake }

// Live reports whether a message published now would arrive.
func (w *Waiter) Live() bool {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if w.hub.closed {
		return false
	}
	for _, ch := range w.chs {
		if !ch.live {
			return false
		}
	}
	return true
}

// Forget drops a wake-up that is already due. What it tells, the caller is
// about to find out.
func (w *Waiter) Forget() {
	select {
	case <-w.wake:
	default:
	}
}

// Leave ends the waiting.
func (w *Waiter) Leave() {
	h := w.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ch := range w.chs {
		delete(ch.waiters, w)
		if len(ch.waiters) > 0 || h.closed || h.channels[ch.name] != ch {
			continue
		}
		h.busy(ch)
		ch.idle = time.Now()
		ch.place = h.idle.PushBack(ch)
		if h.sweeper == nil {
			h.sweeper = time.AfterFunc(h.linger, h.sweep)
		}
	}
}

// Drop ends the waiting on channels that nobody will wait on again.
func (w *Waiter) Drop() {
	h := w.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	var gone []string
	for _, ch := range w.chs {
		delete(ch.waiters, w)
		if len(ch.waiters) == 0 && h.channels[ch.name] == ch {
			h.busy(ch)
			delete(h.channels, ch.name)
			gone = append(gone, ch.name)
		}
	}
	if len(gone) > 0 && !h.closed {
		h.listener.Unsubscribe(gone...)
	}
}

// busy takes a channel off the list of idle ones. The caller holds h.mu.
func (h *Hub) busy(ch *channel) {
	if ch.place != nil {
		h.idle.Remove(ch.place)
		ch.place = nil
	}
}

// maxSweep bounds how many channels one sweep unsubscribes, since all others
// wait for it.
const maxSweep = 500

// sweep unsubscribes from channels that have been idle for a while. It looks at
// these and one more, however many channels there are.
func (h *Hub) sweep() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sweeper = nil
	if h.closed {
		return
	}
	var gone []string
	for front := h.idle.Front(); front != nil; front = h.idle.Front() {
		ch := front.Value.(*channel)
		if left := h.linger - time.Since(ch.idle); left > 0 || len(gone) == maxSweep {
			h.sweeper = time.AfterFunc(max(left, 0), h.sweep)
			break
		}
		h.busy(ch)
		gone = append(gone, ch.name)
		delete(h.channels, ch.name)
	}
	if len(gone) > 0 {
		h.listener.Unsubscribe(gone...)
	}
}

// Listens reports whether messages on the channel reach this hub now.
func (h *Hub) Listens(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := h.channels[name]
	return ch != nil && ch.live
}

// Close ends all subscriptions.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	listener := h.listener
	if h.sweeper != nil {
		h.sweeper.Stop()
	}
	h.mu.Unlock()
	if listener != nil {
		_ = listener.Close()
	}
}

// An ear is the hub as the driver sees it.
type ear struct{ h *Hub }

func (e ear) Message(channel, payload string) { e.h.rouse(Notice{Message, channel, payload}) }

func (e ear) Subscribed(channel string, _ uint64) { e.h.rouse(Notice{Confirmed, channel, ""}) }

func (e ear) Lost(channels []string, err error) {
	if errors.Is(err, driver.ErrRefused) {
		for _, name := range e.h.unrefused(channels) {
			e.h.told.Refused(name, err)
		}
		return
	}
	e.h.mu.Lock()
	e.h.mute(channels)
	known := e.h.down
	e.h.down = true
	e.h.mu.Unlock()
	if !known {
		e.h.told.Lost(err)
	}
}

// mute notes that no messages arrive on some channels. The caller holds h.mu.
func (h *Hub) mute(channels []string) {
	for _, name := range channels {
		ch := h.channels[name]
		if ch == nil {
			continue
		}
		ch.live = false
		for w := range ch.waiters {
			if w.tap != nil {
				w.hear(Notice{Sort: Lost})
			}
		}
	}
}

// unrefused notes that the server refuses some channels, and returns those for
// which that is new.
func (h *Hub) unrefused(channels []string) (fresh []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mute(channels)
	for _, name := range channels {
		if h.channels[name] != nil && !h.refused[name] && len(h.refused) < maxRefused {
			h.refused[name] = true
			fresh = append(fresh, name)
		}
	}
	return fresh
}

// rouse tells all who wait on a channel.
func (h *Hub) rouse(n Notice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down = false
	ch := h.channels[n.Channel]
	if ch == nil {
		return
	}
	if n.Sort == Confirmed { // a message alone shows one family of channels only
		ch.live = true
		delete(h.refused, n.Channel)
	}
	for w := range ch.waiters {
		w.hear(n)
	}
}
