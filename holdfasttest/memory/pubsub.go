package memory

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A listener is a set of subscriptions. It calls its handler from one goroutine, in order.
type listener struct {
	server     *Server
	handler    driver.Handler
	channels   map[string]bool // guarded by server.mu, as are the next two
	generation uint64
	deaf       bool // no messages arrive

	mu      sync.Mutex
	some    sync.Cond
	pending []func()
	bytes   int    // their size
	slow    func() // called if too many messages wait; nil: there is no limit
	closed  bool
	done    chan struct{}
}

func (s *Server) listen(h driver.Handler) *listener {
	l := &listener{server: s, handler: h, channels: make(map[string]bool), generation: 1, done: make(chan struct{})}
	l.some.L = &l.mu
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, l)
	go l.run()
	return l
}

// add queues a call of the handler, about a message of that size. The caller has locked the
// server.
func (l *listener) add(size int, f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes += size + 64; l.bytes > maxPending && l.slow != nil {
		l.deaf = true
		l.slow()
		return
	}
	l.pending = append(l.pending, func() {
		f()
		l.mu.Lock()
		l.bytes -= size + 64
		l.mu.Unlock()
	})
	l.some.Signal()
}

// maxPending is the number of bytes that wait for a slow client. As Redis does, the server
// closes its connection when there are more.
const maxPending = 16 << 20

func (l *listener) run() {
	defer close(l.done)
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for len(l.pending) == 0 && !l.closed {
			l.some.Wait()
		}
		if l.closed {
			return
		}
		f := l.pending[0]
		l.pending = l.pending[1:]
		l.mu.Unlock()
		f()
		l.mu.Lock()
	}
}

// Subscribe implements driver.Listener.
func (l *listener) Subscribe(channels ...string) {
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	for _, c := range channels {
		l.channels[c] = true
		if strings.HasPrefix(c, "__key") {
			l.server.dueAgain()
		}
	}
	l.confirm(channels)
}

// confirm tells the handler that channels are subscribed, unless the server is cut off.
func (l *listener) confirm(channels []string) {
	if l.server.cut != nil {
		return
	}
	generation := l.generation
	l.add(0, func() {
		for _, c := range channels {
			l.handler.Subscribed(c, generation)
		}
	})
}

// Unsubscribe implements driver.Listener.
func (l *listener) Unsubscribe(channels ...string) {
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	for _, c := range channels {
		delete(l.channels, c)
	}
}

// Close implements driver.Listener.
func (l *listener) Close() error {
	l.server.mu.Lock()
	l.server.listeners = slices.DeleteFunc(l.server.listeners, func(o *listener) bool { return o == l })
	clear(l.channels)
	l.server.mu.Unlock()
	l.mu.Lock()
	l.closed = true
	l.some.Signal()
	l.mu.Unlock()
	<-l.done
	return nil
}

// lose tells the handler that its connection is lost.
func (l *listener) lose(err error) {
	channels := slices.Sorted(maps.Keys(l.channels))
	l.generation++
	l.deaf = true
	l.add(0, func() { l.handler.Lost(channels, err) })
}

// restore subscribes again to all channels.
func (l *listener) restore() {
	l.deaf = false
	l.confirm(slices.Sorted(maps.Keys(l.channels)))
}

// hearers returns the listeners that receive messages of a channel.
func (s *Server) hearers(channel string, sharded bool) (all []*listener) {
	if s.cut != nil || sharded {
		return nil
	}
	for _, l := range s.listeners {
		if l.channels[channel] && !l.deaf {
			all = append(all, l)
		}
	}
	return all
}

// channels returns the channels that match a pattern and have a listener.
func (s *Server) channels(pattern string, sharded bool) []string {
	all := make(map[string]bool)
	for _, l := range s.listeners {
		for c := range l.channels {
			if !sharded && s.meter.matches(cmp.Or(pattern, "*"), c) {
				all[c] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// publish returns how many receive the message.
func (t *tx) publish(channel, payload string, sharded bool) int64 {
	root := t
	for root.parent != nil {
		root = root.parent
	}
	all := t.s.hearers(channel, sharded)
	for _, l := range all {
		root.messages = append(root.messages, message{l, channel, payload})
	}
	return int64(len(all))
}

// event publishes an event of a key.
func (t *tx) event(name, key string) {
	t.publish("__keyspace@"+strconv.Itoa(t.db)+"__:"+key, name, false)
}

// dueBy expires keys at a time, if a listener waits for events of keys. Otherwise a key expires
// when it is used.
func (s *Server) dueBy(at int64) {
	if s.due != nil && s.dueAt <= at || !slices.ContainsFunc(s.listeners, (*listener).hearsKeys) {
		return
	}
	if s.due != nil {
		s.due.Stop()
	}
	s.dueAt = at
	in := min(max(time.UnixMilli(at).Sub(s.clockNow()), 0), 24*time.Hour) // then it looks again
	s.due = time.AfterFunc(in+time.Millisecond, s.expireDue)
}

func (l *listener) hearsKeys() bool {
	for c := range l.channels {
		if strings.HasPrefix(c, "__key") {
			return true
		}
	}
	return false
}

// dueAgain finds the next key that expires.
func (s *Server) dueAgain() {
	for _, db := range s.databases {
		for _, e := range db {
			if e.until != 0 {
				s.dueBy(e.until)
			}
		}
	}
}

func (s *Server) expireDue() {
	t := s.begin(0)
	defer t.end()
	s.due = nil
	for db := range s.databases {
		t.db = db
		t.all()
	}
	s.dueAgain()
}
