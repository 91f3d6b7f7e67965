package goredis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

// maxSubscribe limits the channels in one SUBSCRIBE, so that one command does
// not delay the others for long.
const maxSubscribe = 500

// A subscriber keeps one connection to a node subscribed to a set of channels.
// It has two goroutines: one writes, one reads.
//
// In a cluster there are two families of channels, and the publisher chooses
// one. So the subscriber subscribes to both, and a channel counts as subscribed
// once both are confirmed.
type subscriber struct {
	l      *listener
	n      *node
	ctx    context.Context
	cancel context.CancelFunc
	signal chan struct{} // buffered: changed is not empty

	generation atomic.Uint64

	// Guarded by l.mu.
	wanted    map[string]bool
	changed   map[string]bool     // channels to subscribe or unsubscribe
	requested map[string]families // families requested on this connection
	doubtful  map[string]refusal  // channels that the server may refuse
}

// A refusal is the state of a channel after the server has refused a command
// with it. Such a channel gets a command of its own, so that it does not affect
// other channels.
type refusal struct {
	alone   bool // it was refused in a command of its own, and the handler was told
	delayed bool // a retry is scheduled
}

// refusedDelay is the pause before a refused channel is tried again.
const refusedDelay = 5 * time.Second

// families is a set of channel families.
type families uint8

const (
	plain   families = 1 << iota // PUBLISH
	sharded                      // SPUBLISH
)

func newSubscriber(l *listener, n *node) *subscriber {
	s := &subscriber{
		l: l, n: n,
		signal:    make(chan struct{}, 1),
		wanted:    make(map[string]bool),
		changed:   make(map[string]bool),
		requested: make(map[string]families),
		doubtful:  make(map[string]refusal),
	}
	s.ctx, s.cancel = context.WithCancel(l.ctx)
	return s
}

// familiesOf returns the families in which a channel must be subscribed.
func (s *subscriber) familiesOf(channel string) families {
	if s.n.sharded.Load() && driver.Home(channel) == channel {
		return plain | sharded
	}
	return plain
}

// subscribe subscribes a channel, again if it is subscribed already. The caller
// holds l.mu.
func (s *subscriber) subscribe(channel string) {
	s.wanted[channel], s.changed[channel] = true, true
	signal(s.signal)
}

// unsubscribe unsubscribes a channel. The caller holds l.mu.
func (s *subscriber) unsubscribe(channel string) {
	delete(s.wanted, channel)
	delete(s.doubtful, channel)
	s.changed[channel] = true
	signal(s.signal)
}

// run opens a connection, serves it until it breaks, and opens the next.
func (s *subscriber) run() {
	defer s.cancel()
	delay := minPause
	for s.ctx.Err() == nil {
		opened := time.Now()
		s.generation.Store(s.l.generation.Add(1))
		err := s.serve()
		if s.ctx.Err() != nil {
			return
		}
		s.l.mu.Lock()
		lost := slices.Collect(maps.Keys(s.wanted))
		s.l.mu.Unlock()
		s.l.lost(s, lost, classify(err))
		if time.Since(opened) > maxPause {
			delay = minPause // the connection worked for a while
		}
		pause(s.ctx, delay/2+rand.N(delay/2))
		delay = min(2*delay, maxPause)
	}
}

// errSilent is the reason to close a connection on which a ping is not answered.
var errSilent = errors.New("the server no longer answers on the subscription")

// doneCtx is the context of all writes and reads on a subscription. It is
// cancelled. With a live context, go-redis would open a new connection after a
// failure and subscribe all channels again by itself. The subscriber must do
// this instead.
var doneCtx = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// serve keeps one connection subscribed to what is wanted, until it breaks.
func (s *subscriber) serve() error {
	sub := s.n.client.Subscribe(s.ctx) // no channels yet
	defer func() { _ = sub.Close() }()
	if err := sub.Ping(s.ctx); err != nil { // opens the connection
		return err
	}
	q := new(queue)
	q.push(task{kind: ping})
	s.l.mu.Lock()
	clear(s.requested)
	s.changed = maps.Clone(s.wanted)
	s.l.mu.Unlock()
	signal(s.signal)

	broken := make(chan error, 1)
	go func() { broken <- s.readLoop(sub, q) }()
	ticker := time.NewTicker(maxPause / 2)
	defer ticker.Stop()
	for {
		var err error
		select {
		case <-s.signal:
			err = s.write(sub, q)
		case <-ticker.C:
			s.n.d.scanSoon()
			err = s.ping(sub, q)
		case err := <-broken:
			return err
		case <-s.ctx.Done():
			return nil
		}
		if err != nil {
			_ = sub.Close()
			<-broken // no handler call follows from this connection
			return err
		}
	}
}

// ping sends a PING. It fails if the server has not answered the last one in
// time.
func (s *subscriber) ping(sub *redis.PubSub, q *queue) error {
	if since := q.silence(); since > min(s.n.d.timeout(), maxSilence) {
		return fmt.Errorf("%w, for %v", errSilent, since.Round(time.Millisecond))
	} else if since > 0 {
		return nil
	}
	q.push(task{kind: ping})
	return sub.Ping(doneCtx)
}

// maxSilence is the limit for an answer to a PING, even if the client has a
// longer timeout for commands.
const maxSilence = 5 * time.Second

// write sends the commands that bring the subscriptions in line with what is
// wanted.
func (s *subscriber) write(sub *redis.PubSub, q *queue) error {
	for _, t := range s.tasks() {
		q.push(t)
		if err := t.do(sub); err != nil {
			return err
		}
	}
	return nil
}

// tasks returns the commands for the changed channels. Channels that the server
// may refuse come last, each in a command of its own.
func (s *subscriber) tasks() []task {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	type group struct {
		kind string
		slot int // sharded channels of different slots need a command each
	}
	groups := make(map[group][]string)
	var last []task
	add := func(kind, channel string, slot int) {
		if _, suspect := s.doubtful[channel]; suspect && s.wanted[channel] {
			last = append(last, task{kind, []string{channel}})
			return
		}
		g := group{kind, slot}
		groups[g] = append(groups[g], channel)
	}
	for c := range s.changed {
		families, prefix := s.requested[c], "un"
		if s.wanted[c] {
			families, prefix = s.familiesOf(c), ""
		}
		if families&plain != 0 {
			add(prefix+subscribe, c, 0)
		}
		if families&sharded != 0 {
			add("s"+prefix+subscribe, c, driver.Slot(c))
		}
		if s.wanted[c] {
			s.requested[c] = families
		} else {
			delete(s.requested, c)
		}
	}
	s.changed = make(map[string]bool) // ranging over a map that was once large is slow
	var tasks []task
	for g, channels := range groups {
		for some := range slices.Chunk(channels, maxSubscribe) {
			tasks = append(tasks, task{g.kind, some})
		}
	}
	return append(tasks, last...)
}

// receive returns the next message from the server. go-redis panics at some
// malformed messages. receive turns the panic into an error, and the subscriber
// closes the connection.
func receive(sub *redis.PubSub) (m any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the server sent a message that go-redis cannot read: %v", p)
		}
	}()
	return sub.Receive(doneCtx)
}

// readLoop handles what the server sends, until the connection breaks.
func (s *subscriber) readLoop(sub *redis.PubSub, q *queue) error {
	have := make(map[string]families) // confirmed families
	for {
		m, err := receive(sub)
		var said redis.Error
		if err != nil && !errors.As(err, &said) {
			return err
		}
		q.lastReply.Store(time.Now().UnixNano())
		switch m := m.(type) {
		case *redis.Message:
			s.l.notify(func(h driver.Handler) { h.Message(m.Channel, m.Payload) })
		case *redis.Subscription:
			err = s.confirm(q, m, have)
		case *redis.Pong:
			err = q.answered(ping, "")
		default:
			err = s.handleError(q, err)
		}
		if err != nil {
			return err
		}
	}
}

// confirm handles the confirmation that a channel is subscribed or unsubscribed.
func (s *subscriber) confirm(q *queue, m *redis.Subscription, have map[string]families) error {
	err := q.answered(m.Kind, m.Channel)
	switch m.Kind {
	case subscribe:
		have[m.Channel] |= plain
	case ssubscribe:
		have[m.Channel] |= sharded
	case unsubscribe:
		have[m.Channel] &^= plain
	case sunsubscribe:
		have[m.Channel] &^= sharded
		if err != nil { // not requested: the slot has moved
			s.reassign([]string{m.Channel}, errMoved)
			err = nil
		}
	}
	if err != nil {
		return err
	}
	now := have[m.Channel]
	if now == 0 {
		delete(have, m.Channel)
	}
	s.l.mu.Lock()
	all := now != 0 && now == s.requested[m.Channel]
	if all {
		delete(s.doubtful, m.Channel)
	}
	s.l.mu.Unlock()
	if all && (m.Kind == subscribe || m.Kind == ssubscribe) {
		s.l.subscribed(s, m.Channel)
	}
	return nil
}

// handleError handles an error reply to the oldest task.
func (s *subscriber) handleError(q *queue, err error) error {
	t, ok := q.next()
	if !ok {
		return err
	}
	if t.kind != subscribe && t.kind != ssubscribe {
		return nil
	}
	if err = classify(err); driver.ClassOf(err) == driver.Fatal {
		s.refuse(t.channels, err)
	} else {
		s.reassign(t.channels, err)
	}
	return nil
}

// refuse handles the refusal of a command with some channels. The server does
// not report which of them it refuses, so each is tried alone. A channel that is
// refused alone is reported to the handler once and retried periodically.
func (s *subscriber) refuse(channels []string, err error) {
	s.l.mu.Lock()
	var report, retry []string
	for _, c := range channels {
		r, known := s.doubtful[c]
		switch {
		case !s.wanted[c]:
			continue
		case !known && len(channels) > 1:
			s.changed[c] = true
			signal(s.signal)
		default:
			if !r.alone {
				report = append(report, c)
			}
			if !r.delayed {
				retry = append(retry, c)
			}
			r = refusal{alone: true, delayed: true}
		}
		s.doubtful[c] = r
	}
	s.l.mu.Unlock()
	if len(report) > 0 {
		s.l.lost(s, report, driver.Refused(err))
	}
	if len(retry) > 0 {
		s.retryLater(retry, refusedDelay)
	}
}

// reassign reports channels as lost and returns them to the listener. The
// listener assigns them to the node that serves them, which may be this one.
func (s *subscriber) reassign(channels []string, err error) {
	s.l.lost(s, channels, err)
	s.retryLater(channels, minPause)
}

// retryLater returns channels to the listener after a delay.
func (s *subscriber) retryLater(channels []string, delay time.Duration) {
	time.AfterFunc(delay, func() {
		s.l.mu.Lock()
		defer s.l.mu.Unlock()
		for _, c := range channels {
			if r, ok := s.doubtful[c]; ok {
				r.delayed = false
				s.doubtful[c] = r
			}
			if s.l.channels[c] == s {
				s.l.unassigned[c] = true
			}
		}
		signal(s.l.signal)
	})
}
