// Package wait turns published messages into wake-ups.
//
// A [Hub] keeps one subscription per channel, however many waiters it has, and for a while after
// the last has left. It starts no goroutine: the driver's reader calls it.
//
// A wake-up is only a hint. A waiter is woken by every message and by every confirmed subscription,
// because messages published while the connection was down are lost. A woken waiter must ask the
// server, unless it has a grant: see [Grants].
package wait

import (
	"container/list"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A Hub manages all waiters of one client.
type Hub struct {
	d         driver.Driver
	linger    time.Duration
	callbacks Callbacks

	mu       sync.Mutex
	listener driver.Listener // nil until the first Join
	channels map[string]*channel
	idle     list.List       // *channel values without a waiter, the longest idle first
	sweeper  *time.Timer     // armed while idle channels linger
	down     bool            // a lost connection was reported and is not restored yet
	refused  map[string]bool // channels that were reported as refused, maxRefused at most
	closed   bool
}

// Callbacks are called in a goroutine of the driver, all but Stray without a lock.
type Callbacks struct {
	Lost     func(error)                     // the connection is broken: called once until it is restored
	Restored func()                          // the connection is restored: called once after Lost
	Stray    func(channel, payload string)   // no waiter of a channel has used a message; must not block
	Refused  func(channel string, err error) // the server refuses this channel: called once for each
}

// maxRefused limits how many channels are reported as refused.
const maxRefused = 1000

type channel struct {
	name    string
	live    bool          // the server has confirmed it on the current connection
	waiters []*Waiter     // in the order in which they came
	idle    time.Time     // when the last waiter left
	element *list.Element // in Hub.idle; nil if it has waiters
}

// NewHub returns a hub that keeps idle subscriptions for the given time.
func NewHub(d driver.Driver, linger time.Duration, callbacks Callbacks) *Hub {
	return &Hub{d: d, linger: linger, callbacks: callbacks, channels: make(map[string]*channel), refused: make(map[string]bool)}
}

// A Waiter is woken by messages and confirmations on its channels.
type Waiter struct {
	hub    *Hub
	chs    []*channel
	wake   chan struct{}
	accept func(Notice) bool // reports whether a notice concerns the waiter, under Hub.mu; nil: all but losses do
}

// Join returns a new waiter on some channels. A message published after they are Live wakes the
// waiter, even if it arrives before the waiter receives from Wake.
func (h *Hub) Join(names ...string) *Waiter { return h.join(new(Waiter), names) }

// join joins a waiter, which has a channel of its own unless it was given one.
func (h *Hub) join(w *Waiter, names []string) *Waiter {
	w.hub = h
	if w.wake == nil {
		w.wake = make(chan struct{}, 1)
	}
	w.Add(names...)
	return w
}

// Add makes the waiter wait on more channels.
func (w *Waiter) Add(names ...string) {
	h := w.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listener == nil && !h.closed {
		h.listener = h.d.Listen(handler{h})
	}
	for _, name := range names {
		ch, known := h.channels[name]
		if !known {
			ch = &channel{name: name}
			h.channels[name] = ch
		}
		if !slices.Contains(w.chs, ch) {
			ch.waiters = append(ch.waiters, w)
			w.chs = append(w.chs, ch)
		}
		h.removeIdle(ch)
		if !known && h.listener != nil { // otherwise the hub was closed before the first Join
			h.listener.Subscribe(name) // under the lock, so that no sweep unsubscribes it first
		}
	}
}

// Wake returns the channel that receives a value after a message or a confirmed subscription.
func (w *Waiter) Wake() <-chan struct{} { return w.wake }

// Live reports whether a message published now on any of the channels would arrive.
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

// notify wakes the waiter if the notice concerns it, and reports that. The caller holds Hub.mu.
func (w *Waiter) notify(n Notice) bool {
	if w.accept != nil && !w.accept(n) || w.accept == nil && n.Sort == Lost {
		return false
	}
	select {
	case w.wake <- struct{}{}:
	default: // a wake-up is pending already
	}
	return true
}

// Forget discards a pending wake-up. Call it before asking the server for the state.
func (w *Waiter) Forget() {
	select {
	case <-w.wake:
	default:
	}
}

// Leave removes the waiter. Channels without waiters stay subscribed for a while.
func (w *Waiter) Leave() { w.leave(true) }

// Drop is Leave for channels that will not be used again: they are unsubscribed at once.
func (w *Waiter) Drop() { w.leave(false) }

func (w *Waiter) leave(linger bool) {
	h := w.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	var gone []string
	for _, ch := range w.chs {
		ch.waiters = slices.DeleteFunc(ch.waiters, func(other *Waiter) bool { return other == w })
		if len(ch.waiters) > 0 || h.closed || h.channels[ch.name] != ch {
			continue
		}
		h.removeIdle(ch)
		if !linger {
			delete(h.channels, ch.name)
			gone = append(gone, ch.name)
			continue
		}
		ch.idle = time.Now()
		ch.element = h.idle.PushBack(ch)
		if h.sweeper == nil {
			h.sweeper = time.AfterFunc(h.linger, h.sweep)
		}
	}
	if len(gone) > 0 {
		h.listener.Unsubscribe(gone...)
	}
}

// removeIdle removes a channel from the idle ones. The caller holds h.mu.
func (h *Hub) removeIdle(ch *channel) {
	if ch.element != nil {
		h.idle.Remove(ch.element)
		ch.element = nil
	}
}

// maxSweep limits how many channels one sweep unsubscribes, since the hub is locked meanwhile.
const maxSweep = 500

// sweep unsubscribes channels that have been idle for long. Its cost does not depend on others.
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
		h.removeIdle(ch)
		gone = append(gone, ch.name)
		delete(h.channels, ch.name)
	}
	if len(gone) > 0 {
		h.listener.Unsubscribe(gone...)
	}
}

// Listens reports whether the subscription of the channel is confirmed.
func (h *Hub) Listens(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := h.channels[name]
	return ch != nil && ch.live
}

// Count returns how many channels have a subscription, and on how many of them messages arrive.
func (h *Hub) Count() (channels, live int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ch := range h.channels {
		if ch.live {
			live++
		}
	}
	return len(h.channels), live
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

// handler is the driver.Handler of a hub.
type handler struct{ h *Hub }

func (l handler) Message(channel, payload string) { l.h.deliver(Notice{Message, channel, payload}) }

func (l handler) Subscribed(channel string, _ uint64) { l.h.deliver(Notice{Confirmed, channel, ""}) }

func (l handler) Lost(channels []string, err error) {
	h, refused := l.h, errors.Is(err, driver.ErrRefused)
	var fresh []string // refused, and not reported yet
	h.mu.Lock()
	for _, name := range channels {
		ch := h.channels[name]
		if ch == nil {
			continue
		}
		ch.live = false
		for _, w := range ch.waiters {
			w.notify(Notice{Sort: Lost})
		}
		if refused && !h.refused[name] && len(h.refused) < maxRefused {
			h.refused[name] = true
			fresh = append(fresh, name)
		}
	}
	lost := !refused && !h.down
	h.down = h.down || lost
	h.mu.Unlock()
	for _, name := range fresh {
		h.callbacks.Refused(name, err)
	}
	if lost {
		h.callbacks.Lost(err)
	}
}

// deliver passes a notice to all waiters of its channel.
func (h *Hub) deliver(n Notice) {
	h.mu.Lock()
	restored := h.down
	h.down = false
	h.pass(n)
	h.mu.Unlock()
	if restored {
		h.callbacks.Restored()
	}
}

// pass passes a notice to all waiters of its channel. The caller holds h.mu.
func (h *Hub) pass(n Notice) {
	ch := h.channels[n.Channel]
	if ch == nil {
		return
	}
	if n.Sort == Confirmed { // a message proves a subscription in one channel family only
		ch.live = true
		delete(h.refused, n.Channel)
	}
	used := false
	for _, w := range ch.waiters {
		used = w.notify(n) || used
	}
	if !used && n.Sort == Message && h.callbacks.Stray != nil {
		h.callbacks.Stray(n.Channel, n.Payload)
	}
}
