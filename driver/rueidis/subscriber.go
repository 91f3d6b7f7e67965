package rueidis

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A subscriber keeps one connection to a node subscribed to a set of channels.
// One goroutine owns the connection. It compares what the server has with what
// is wanted, and subscribes or unsubscribes the difference.
//
// In a cluster there are two families of channels, and the publisher chooses
// one. So the subscriber subscribes to both, and a channel counts as subscribed
// once both are confirmed.
//
// The cost of a change does not depend on the number of channels: the goroutine
// only visits the channels in the queue. It visits all channels when a
// connection opens or breaks.
type subscriber struct {
	l      *listener
	n      *node
	ctx    context.Context
	cancel context.CancelFunc
	signal chan struct{} // buffered: the queue is not empty
	done   chan struct{} // closed when the goroutine has ended

	heard        atomic.Bool // a message has arrived since the last tick
	mu           sync.Mutex
	channels     map[string]*channelState // all channels that are wanted or still subscribed
	queue        []*channelState          // channels to compare with what is wanted
	delayed      []*channelState          // channels that the server has refused
	delayedSince time.Time                // when the first of delayed was refused
}

// A channelState is the state of one channel of a subscriber. The subscriber's
// mutex guards it.
type channelState struct {
	channel   string
	wanted    bool
	reconfirm bool     // subscribe again, to get a new confirmation
	queued    bool     // it is in subscriber.queue
	delayed   bool     // it is in subscriber.delayed
	requested families // families requested on this connection
	confirmed families // families that the server has confirmed
	ending    families // families that the subscriber is unsubscribing from
	alone     families // families in which it needs a command of its own, since a shared one was refused
	refused   families // families in which the server refuses a command and the handler was told
}

// families is a set of channel families.
type families uint8

const (
	plain   families = 1 << iota // PUBLISH
	sharded                      // SPUBLISH
)

func newSubscriber(l *listener, n *node) *subscriber {
	s := &subscriber{
		l: l, n: n,
		signal:   make(chan struct{}, 1),
		done:     make(chan struct{}),
		channels: make(map[string]*channelState),
	}
	s.ctx, s.cancel = context.WithCancel(n.life)
	go s.run()
	return s
}

func (s *subscriber) subscribe(channel string) {
	s.mu.Lock()
	cs := s.channels[channel]
	if cs == nil {
		cs = &channelState{channel: channel}
		s.channels[channel] = cs
	}
	if !cs.wanted {
		cs.refused = 0
	}
	cs.wanted, cs.reconfirm = true, true
	s.schedule(cs)
	s.mu.Unlock()
}

func (s *subscriber) unsubscribe(channel string) {
	s.mu.Lock()
	if cs := s.channels[channel]; cs != nil {
		cs.wanted, cs.reconfirm = false, false
		cs.alone, cs.refused = 0, 0
		s.schedule(cs)
	}
	s.mu.Unlock()
}

// enqueue puts a channel into the queue. The caller holds s.mu.
func (s *subscriber) enqueue(cs *channelState) {
	if !cs.queued {
		cs.queued = true
		s.queue = append(s.queue, cs)
	}
}

// forget removes a channel that is neither wanted nor subscribed. The caller
// holds s.mu.
func (s *subscriber) forget(cs *channelState) {
	if !cs.wanted && cs.requested == 0 && s.channels[cs.channel] == cs {
		delete(s.channels, cs.channel)
	}
}

// schedule puts a channel into the queue and signals the goroutine. The caller
// holds s.mu.
func (s *subscriber) schedule(cs *channelState) {
	s.enqueue(cs)
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

func (s *subscriber) close() {
	s.cancel()
	<-s.done
}

// run opens a connection, serves it until it breaks, and opens the next.
func (s *subscriber) run() {
	defer close(s.done)
	const shortest, longest = 20 * time.Millisecond, time.Second
	pause := shortest
	for s.ctx.Err() == nil {
		opened := time.Now()
		err := s.serve(s.l.generations.Add(1))
		if s.ctx.Err() != nil {
			return
		}
		s.l.d.scanNow()
		s.l.h.Lost(s.reset(), err)
		if time.Since(opened) > longest {
			pause = shortest // the connection worked for a while
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-s.ctx.Done():
		}
		pause = min(2*pause, longest)
	}
}

// reset discards the state of the last connection and returns the channels that
// the next one must subscribe to.
func (s *subscriber) reset() (wanted []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue, s.delayed = nil, nil
	for c, cs := range s.channels {
		if !cs.wanted {
			delete(s.channels, c)
			continue
		}
		cs.requested, cs.confirmed, cs.ending, cs.queued, cs.delayed = 0, 0, 0, false, false
		s.enqueue(cs)
		wanted = append(wanted, c)
	}
	return wanted
}

// serve keeps one connection subscribed to what is wanted, until it breaks.
func (s *subscriber) serve(generation uint64) error {
	if err := s.n.ensureIdentified(s.ctx); err != nil { // the version tells which families it supports
		return err
	}
	term, asked := s.n.term.Load(), time.Now()
	c, err := s.n.openSubConn(s.ctx, func(kind, channel, payload string) { s.handle(kind, channel, payload, generation) })
	if err != nil {
		return err
	}
	defer c.close()
	both := s.n.listensSharded()
	tick := time.NewTicker(subTick)
	defer tick.Stop()
	var ping pingPlan
	for {
		tasks := s.tasks()
		if len(tasks) > 0 {
			ping.restart()
		}
		var retry <-chan time.Time
		for _, t := range tasks {
			later, err := s.perform(c, t)
			if err != nil {
				return err
			}
			if later {
				retry = time.After(50 * time.Millisecond)
			}
		}
		if len(tasks) > 0 && retry == nil {
			continue
		}
		select {
		case <-s.signal:
		case <-retry:
		case <-tick.C:
			if s.pingDue(&ping) {
				if _, err := c.do(s.ctx, "PONG", nil, []string{"PING"}); err != nil {
					return err
				}
			}
			if now := s.n.listensSharded(); now != both {
				return errFamilies // all channels must be subscribed again
			}
			if s.n.hasName() && time.Since(asked) >= roleEvery {
				asked = time.Now()
				go func() { _ = s.n.identify(s.ctx) }() // a waiter that sends no writes learns only so that the server is a replica
			}
			if s.n.term.Load() != term {
				return errReplaced // the host name may belong to another server by now
			}
			s.retryDelayed()
		case <-c.closed:
			return driver.Unknown(c.err)
		case <-s.ctx.Done():
			return nil
		}
	}
}

// subTick is how often a subscriber examines its connection.
const subTick = time.Second

// pingGaps are the ticks between two PINGs on a connection for messages. The last gap
// repeats. A message or a new subscription starts again at the first gap, because further
// messages must not be missed. A dead connection that a proxy keeps open is noticed that
// late.
var pingGaps = [...]int{1, 8, 30}

// A pingPlan says when to send PING.
type pingPlan struct {
	sent  int // PINGs, at most the index of the last gap
	ticks int // since the last one
}

func (p *pingPlan) restart() { *p = pingPlan{} }

// due reports whether to send PING at this tick.
func (p *pingPlan) due() bool {
	if p.ticks++; p.ticks < pingGaps[p.sent] {
		return false
	}
	p.ticks, p.sent = 0, min(p.sent+1, len(pingGaps)-1)
	return true
}

// pingDue reports whether to send PING at this tick.
func (s *subscriber) pingDue(p *pingPlan) bool {
	if s.heard.Swap(false) {
		p.restart()
	}
	return p.due()
}

// errFamilies is the reason to close a connection when the server supports other
// channel families than before.
var errFamilies = driver.Unsent(errors.New("the server's version has changed"))

// handle handles a message or a confirmation from the server.
func (s *subscriber) handle(kind, channel, payload string, generation uint64) {
	if s.ctx.Err() != nil {
		return
	}
	if kind == "message" || kind == "smessage" {
		s.heard.Store(true)
		s.l.h.Message(channel, payload)
		return
	}
	s.mu.Lock()
	cs := s.channels[channel]
	if cs == nil {
		s.mu.Unlock()
		return
	}
	had := cs.confirmed
	switch kind {
	case "subscribe":
		cs.confirmed |= plain
	case "ssubscribe":
		cs.confirmed |= sharded
	case "unsubscribe":
		cs.confirmed &^= plain
	case "sunsubscribe":
		cs.confirmed &^= sharded
	}
	now, need, wanted := cs.confirmed, s.familiesOf(channel), cs.wanted
	ended := had &^ now &^ cs.ending // by the server: the slot has moved to another node
	cs.ending &= now
	moved := wanted && ended != 0 && had == need
	if wanted && ended == sharded {
		cs.requested &^= sharded
		s.schedule(cs)
	}
	s.mu.Unlock()
	switch {
	case moved:
		s.l.d.scanNow()
		s.l.h.Lost([]string{channel}, errMoved)
	case wanted && now == need && (kind == "subscribe" || kind == "ssubscribe"):
		s.l.h.Subscribed(channel, generation)
	}
}

// familiesOf returns the families in which a channel must be subscribed.
func (s *subscriber) familiesOf(channel string) families {
	if s.n.listensSharded() && driver.Home(channel) == channel {
		return plain | sharded
	}
	return plain
}

// listensSharded reports whether messages may be published with SPUBLISH.
func (n *node) listensSharded() bool { return n.report.sharded.Load() || n.publishesSharded() }
