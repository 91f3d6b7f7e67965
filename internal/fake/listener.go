package fake

import (
	"maps"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
)

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
