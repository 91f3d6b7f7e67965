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

// maxSubscribe bounds the channels in one SUBSCRIBE, so that none of them
// delays the rest for long.
const maxSubscribe = 500

// A subscriber keeps one connection to a node subscribed to a set of channels. Two
// goroutines serve it: one writes, one reads.
//
// In a cluster there are two families of channels, and it is up to whoever
// publishes which he uses. So the subscriber takes both, and a channel counts as
// subscribed once both are confirmed.
type subscriber struct {
	l      *listener
	n      *node
	ctx    context.Context
	cancel context.CancelFunc
	kick   chan struct{} // buffered: something is to be written

	generation atomic.Uint64

	// Guarded by l.mu.
	wanted   map[string]bool
	fresh    map[string]bool      // channels to be subscribed, or unsubscribed
	asked    map[string]family    // what the present connection was asked for
	suspects map[string]suspicion // channels that the server may refuse
}

// A suspicion says what is known of a channel that was in a command that the
// server has refused. Such a channel gets a command of its own, so that it
// costs the others nothing.
type suspicion struct {
	alone   bool // it was refused in a command of its own, and the handler knows
	resting bool // it will be tried again
}

// refusedRest is how long a channel that the server refuses rests before it is
// tried again.
const refusedRest = 5 * time.Second

// A family is a set of families of channels.
type family uint8

const (
	plain   family = 1 << iota // PUBLISH
	sharded                    // SPUBLISH
)

func newFeed(l *listener, n *node) *subscriber {
	f := &subscriber{
		l: l, n: n,
		kick:     make(chan struct{}, 1),
		wanted:   make(map[string]bool),
		fresh:    make(map[string]bool),
		asked:    make(map[string]family),
		suspects: make(map[string]suspicion),
	}
	f.ctx, f.cancel = context.WithCancel(l.ctx)
	return f
}

// families returns where a channel has to be listened to.
func (f *subscriber) families(channel string) family {
	if f.n.sharded.Load() && driver.Home(channel) == channel {
		return plain | sharded
	}
	return plain
}

// add has a channel subscribed, also if it is already. The caller holds l.mu.
func (f *subscriber) add(channel string) {
	f.wanted[channel], f.fresh[channel] = true, true
	raise(f.kick)
}

// drop has a channel unsubscribed. The caller holds l.mu.
func (f *subscriber) drop(channel string) {
	delete(f.wanted, channel)
	delete(f.suspects, channel)
	f.fresh[channel] = true
	raise(f.kick)
}

// run opens a connection, serves it until it breaks, and opens the next.
func (f *subscriber) run() {
	defer f.cancel()
	rest := shortest
	for f.ctx.Err() == nil {
		opened := time.Now()
		f.generation.Store(f.l.generation.Add(1))
		err := f.serve()
		if f.ctx.Err() != nil {
			return
		}
		f.l.mu.Lock()
		lost := slices.Collect(maps.Keys(f.wanted))
		f.l.mu.Unlock()
		f.l.lost(f, lost, classify(err))
		if time.Since(opened) > longest {
			rest = shortest // it did work for a while
		}
		pause(f.ctx, rest/2+rand.N(rest/2))
		rest = min(2*rest, longest)
	}
}

// errSilent is why a connection is given up that is not known to be broken.
var errSilent = errors.New("the subscription is not answered any more")

// dead is the context of what is written to and read from a subscription. With
// any other, go-redis opens another connection when that fails, and subscribes
// it in one go and all alone; with this one it cannot, and the subscriber does.
var dead = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// serve subscribes one connection to what is wanted, until it breaks.
func (f *subscriber) serve() error {
	sub := f.n.client.Subscribe(f.ctx) // to nothing yet
	defer func() { _ = sub.Close() }()
	if err := sub.Ping(f.ctx); err != nil { // opens the connection
		return err
	}
	q := new(queue)
	q.push(task{kind: ping})
	f.l.mu.Lock()
	clear(f.asked)
	f.fresh = maps.Clone(f.wanted)
	f.l.mu.Unlock()
	raise(f.kick)

	broken := make(chan error, 1)
	go func() { broken <- f.read(sub, q) }()
	beat := time.NewTicker(longest / 2)
	defer beat.Stop()
	for {
		var err error
		select {
		case <-f.kick:
			err = f.write(sub, q)
		case <-beat.C:
			f.n.d.use()
			err = f.ping(sub, q)
		case err := <-broken:
			return err
		case <-f.ctx.Done():
			return nil
		}
		if err != nil {
			_ = sub.Close()
			<-broken // nothing is heard of this connection any more
			return err
		}
	}
}

// ping has the server say something, and fails if it did not.
func (f *subscriber) ping(sub *redis.PubSub, q *queue) error {
	if since := q.waiting(); since > min(f.n.d.timeout(), maxSilence) {
		return fmt.Errorf("%w, for %v", errSilent, since.Round(time.Millisecond))
	} else if since > 0 {
		return nil
	}
	q.push(task{kind: ping})
	return sub.Ping(dead)
}

// maxSilence is when a subscription is given up, also by a client that is more
// patient with commands.
const maxSilence = 5 * time.Second

// write brings the subscriptions into line with what is wanted.
func (f *subscriber) write(sub *redis.PubSub, q *queue) error {
	for _, t := range f.tasks() {
		q.push(t)
		if err := t.do(sub); err != nil {
			return err
		}
	}
	return nil
}

// tasks returns what to do about the channels that are not as they should be.
// Those that the server may refuse come last, in a command each.
func (f *subscriber) tasks() []task {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	type group struct {
		kind string
		slot int // sharded channels of different slots need a command each
	}
	groups := make(map[group][]string)
	var last []task
	add := func(kind, channel string, slot int) {
		if _, suspect := f.suspects[channel]; suspect && f.wanted[channel] {
			last = append(last, task{kind, []string{channel}})
			return
		}
		g := group{kind, slot}
		groups[g] = append(groups[g], channel)
	}
	for c := range f.fresh {
		families, prefix := f.asked[c], "un"
		if f.wanted[c] {
			families, prefix = f.families(c), ""
		}
		if families&plain != 0 {
			add(prefix+subscribe, c, 0)
		}
		if families&sharded != 0 {
			add("s"+prefix+subscribe, c, driver.Slot(c))
		}
		if f.wanted[c] {
			f.asked[c] = families
		} else {
			delete(f.asked, c)
		}
	}
	f.fresh = make(map[string]bool) // to range over one that was large once takes long
	var tasks []task
	for g, channels := range groups {
		for some := range slices.Chunk(channels, maxSubscribe) {
			tasks = append(tasks, task{g.kind, some})
		}
	}
	return append(tasks, last...)
}

// receive returns what the server says next. go-redis panics at some messages
// that no server sends; the connection belongs to this subscriber alone and is closed
// then.
func receive(sub *redis.PubSub) (m any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the server has sent what go-redis cannot read: %v", p)
		}
	}()
	return sub.Receive(dead)
}

// read takes in what the server says.
func (f *subscriber) read(sub *redis.PubSub, q *queue) error {
	have := make(map[string]family) // confirmed
	for {
		m, err := receive(sub)
		var said redis.Error
		if err != nil && !errors.As(err, &said) {
			return err
		}
		q.heard.Store(time.Now().UnixNano())
		switch m := m.(type) {
		case *redis.Message:
			f.l.tell(func(h driver.Handler) { h.Message(m.Channel, m.Payload) })
		case *redis.Subscription:
			err = f.heard(q, m, have)
		case *redis.Pong:
			err = q.answered(ping, "")
		default:
			err = f.refused(q, err)
		}
		if err != nil {
			return err
		}
	}
}

// heard takes in that the server has subscribed or unsubscribed a channel.
func (f *subscriber) heard(q *queue, s *redis.Subscription, have map[string]family) error {
	err := q.answered(s.Kind, s.Channel)
	switch s.Kind {
	case subscribe:
		have[s.Channel] |= plain
	case ssubscribe:
		have[s.Channel] |= sharded
	case unsubscribe:
		have[s.Channel] &^= plain
	case sunsubscribe:
		have[s.Channel] &^= sharded
		if err != nil { // nobody asked for it: the slot is gone
			f.giveUp([]string{s.Channel}, errMoved)
			err = nil
		}
	}
	if err != nil {
		return err
	}
	now := have[s.Channel]
	if now == 0 {
		delete(have, s.Channel)
	}
	f.l.mu.Lock()
	all := now != 0 && now == f.asked[s.Channel]
	if all {
		delete(f.suspects, s.Channel)
	}
	f.l.mu.Unlock()
	if all && (s.Kind == subscribe || s.Kind == ssubscribe) {
		f.l.subscribed(f, s.Channel)
	}
	return nil
}

// refused takes in that the server will not do something.
func (f *subscriber) refused(q *queue, err error) error {
	t, ok := q.next()
	if !ok {
		return err
	}
	if t.kind != subscribe && t.kind != ssubscribe {
		return nil
	}
	if err = classify(err); driver.ClassOf(err) == driver.Fatal {
		f.suspect(t.channels, err)
	} else {
		f.giveUp(t.channels, err)
	}
	return nil
}

// suspect takes in that the server has refused a command with some channels.
// It does not say which of them it refuses, so each is tried alone. One that
// was alone is reported to the handler, once, and tried again from time to time.
func (f *subscriber) suspect(channels []string, err error) {
	f.l.mu.Lock()
	var report, rest []string
	for _, c := range channels {
		s, known := f.suspects[c]
		switch {
		case !f.wanted[c]:
			continue
		case !known && len(channels) > 1:
			f.fresh[c] = true
			raise(f.kick)
		default:
			if !s.alone {
				report = append(report, c)
			}
			if !s.resting {
				rest = append(rest, c)
			}
			s = suspicion{alone: true, resting: true}
		}
		f.suspects[c] = s
	}
	f.l.mu.Unlock()
	if len(report) > 0 {
		f.l.lost(f, report, driver.Refused(err))
	}
	if len(rest) > 0 {
		f.again(rest, refusedRest)
	}
}

// giveUp leaves channels to the listener, which will find out who has them, or
// try again here.
func (f *subscriber) giveUp(channels []string, err error) {
	f.l.lost(f, channels, err)
	f.again(channels, shortest)
}

// again has the listener look at channels after a rest.
func (f *subscriber) again(channels []string, rest time.Duration) {
	time.AfterFunc(rest, func() {
		f.l.mu.Lock()
		defer f.l.mu.Unlock()
		for _, c := range channels {
			if s, ok := f.suspects[c]; ok {
				s.resting = false
				f.suspects[c] = s
			}
			if f.l.want[c] == f {
				f.l.send[c] = true
			}
		}
		raise(f.l.astray)
	})
}
