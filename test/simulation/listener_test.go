package simulation_test

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

func (l *link) Listen(h driver.Handler) driver.Listener {
	e := &ear{Handler: h, link: l, channels: make(map[string]bool)}
	e.connect()
	l.draw(func() { l.ears = append(l.ears, e) })
	return e
}

// An ear is the listener of a client. It stays when its connection is replaced.
type ear struct {
	driver.Handler
	link *link

	mu         sync.Mutex
	channels   map[string]bool
	generation uint64
	connection driver.Listener // of the server
	closed     bool
}

// A connection is the handler of the fake server. It delays and loses messages before
// they reach the handler of the client.
type connection struct {
	*ear
	generation uint64
}

func (e *ear) connect() {
	var s *server
	e.link.draw(func() { s = e.link.server })
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.generation++
	e.connection = s.data.Driver().Listen(connection{e, e.generation})
}

// later calls f when something of this name has passed the link, as often as
// it arrives.
func (e *ear) later(what string, lose, repeat int, f func()) {
	var delays []time.Duration
	l := e.link
	l.draw(func() {
		fate := l.fate(what)
		first, second := l.pass(fate), l.pass(fate)
		switch {
		case l.crashed || fate.chance(lose):
		case fate.chance(repeat):
			delays = []time.Duration{first, second}
		default:
			delays = []time.Duration{first}
		}
	})
	for _, d := range delays {
		go func() {
			if l.sleep(d) && !l.dead() {
				f()
			}
		}()
	}
}

func (c connection) Message(channel, payload string) {
	var f faults
	c.link.draw(func() { f = c.link.faults })
	c.later("message", f.loseMessage, f.repeatMessage, func() { c.Handler.Message(channel, payload) })
}

func (c connection) Subscribed(channel string, _ uint64) {
	c.later("subscribed", 0, 0, func() {
		c.mu.Lock()
		current := c.generation == c.ear.generation
		c.mu.Unlock()
		if current {
			c.Handler.Subscribed(channel, c.generation)
		}
	})
}

func (e *ear) Subscribe(channels ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range channels {
		e.channels[c] = true
	}
	e.connection.Subscribe(channels...)
}

func (e *ear) Unsubscribe(channels ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range channels {
		delete(e.channels, c)
	}
	e.connection.Unsubscribe(channels...)
}

func (e *ear) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.channels)
	e.closed = true
	return e.connection.Close()
}

// reconnect replaces the connection by one to the present server of the client.
func (e *ear) reconnect() {
	e.mu.Lock()
	channels := slices.Sorted(maps.Keys(e.channels))
	_ = e.connection.Close()
	e.mu.Unlock()
	e.connect()
	e.Lost(channels, errors.New("connection lost"))
	if len(channels) > 0 {
		e.Subscribe(channels...)
	}
}
