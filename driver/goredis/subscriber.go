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
