package rueidis

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// maxSubscribe bounds the channels in one SUBSCRIBE, so that none of them
// delays the rest for long.
const maxSubscribe = 500

// refusedRest is how long a channel that the server refuses rests before it is
// tried again.
const refusedRest = 5 * time.Second

// An subscriber keeps one connection to a node subscribed to a set of channels. One
// goroutine owns the connection; it brings what the server has into line with
// what is wanted, whatever happened in between.
//
// In a cluster there are two families of channels, and it is up to whoever
// publishes which he uses. So the subscriber listens to both, and a channel counts as
// subscribed once both are confirmed.
//
// A change costs the same however many channels there are: only channels in
// the queue are looked at. All of them are when a connection opens or breaks.
type subscriber struct {
	l      *listener
	n      *node
	ctx    context.Context
	cancel context.CancelFunc
	kick   chan struct{} // buffered: the queue is not empty
	done   chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	subs    map[string]*sub // channels that are wanted, or that the server still has
	queue   []*sub          // may differ from what is wanted
	resting []*sub          // refused by the server
	tried   time.Time       // when the first of resting was refused
}

// A sub is a channel of an subscriber. The subscriber's mutex guards it.
type sub struct {
	channel string
	wanted  bool
	fresh   bool   // to be confirmed, even if the server has it already
	queued  bool   // it is in subscriber.queue
	rests   bool   // it is in subscriber.resting
	asked   family // what the present connection was asked for
	have    family // what the server has confirmed
	alone   family // where it gets a command of its own: one that it shared was refused
	refused family // where the server refuses to subscribe or unsubscribe it, and the handler knows
}

// A family is a set of families that a channel is subscribed in.
type family uint8

const (
	plain   family = 1 << iota // PUBLISH
	sharded                    // SPUBLISH
)

func newEar(l *listener, n *node) *subscriber {
	e := &subscriber{
		l: l, n: n,
		kick: make(chan struct{}, 1),
		done: make(chan struct{}),
		subs: make(map[string]*sub),
	}
	e.ctx, e.cancel = context.WithCancel(n.life)
	go e.run()
	return e
}

func (e *subscriber) want(channel string) {
	e.mu.Lock()
	s := e.subs[channel]
	if s == nil {
		s = &sub{channel: channel}
		e.subs[channel] = s
	}
	if !s.wanted {
		s.refused = 0
	}
	s.wanted, s.fresh = true, true
	e.enqueue(s)
	e.mu.Unlock()
}

func (e *subscriber) drop(channel string) {
	e.mu.Lock()
	if s := e.subs[channel]; s != nil {
		s.wanted, s.fresh = false, false
		s.alone, s.refused = 0, 0
		e.enqueue(s)
	}
	e.mu.Unlock()
}

// add puts a channel into the queue. The caller holds e.mu.
func (e *subscriber) add(s *sub) {
	if !s.queued {
		s.queued = true
		e.queue = append(e.queue, s)
	}
}

// forget drops a channel that is neither wanted nor subscribed. The caller
// holds e.mu.
func (e *subscriber) forget(s *sub) {
	if !s.wanted && s.asked == 0 && e.subs[s.channel] == s {
		delete(e.subs, s.channel)
	}
}

// enqueue has a channel looked at. The caller holds e.mu.
func (e *subscriber) enqueue(s *sub) {
	e.add(s)
	select {
	case e.kick <- struct{}{}:
	default:
	}
}

func (e *subscriber) close() {
	e.cancel()
	<-e.done
}

// run opens a connection, serves it until it breaks, and opens the next.
func (e *subscriber) run() {
	defer close(e.done)
	const shortest, longest = 20 * time.Millisecond, time.Second
	pause := shortest
	for e.ctx.Err() == nil {
		opened := time.Now()
		err := e.serve(e.l.generations.Add(1))
		if e.ctx.Err() != nil {
			return
		}
		e.l.d.suspect()
		e.l.h.Lost(e.reset(), err)
		if time.Since(opened) > longest {
			pause = shortest // it did work for a while
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-e.ctx.Done():
		}
		pause = min(2*pause, longest)
	}
}

// reset forgets what the last connection had, and returns what is wanted of the
// next.
func (e *subscriber) reset() (wanted []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queue, e.resting = nil, nil
	for c, s := range e.subs {
		if !s.wanted {
			delete(e.subs, c)
			continue
		}
		s.asked, s.have, s.queued, s.rests = 0, 0, false, false
		e.add(s)
		wanted = append(wanted, c)
	}
	return wanted
}

// serve subscribes one connection to what is wanted, until it breaks.
func (e *subscriber) serve(generation uint64) error {
	if err := e.n.greetOnce(e.ctx); err != nil { // it says which families it knows
		return err
	}
	p, err := e.n.call(e.ctx, func(kind, channel, payload string) { e.heard(kind, channel, payload, generation) })
	if err != nil {
		return err
	}
	defer p.hangUp()
	both := e.n.listensSharded()
	ping := time.NewTicker(pingGap)
	defer ping.Stop()
	for {
		tasks := e.tasks()
		var retry <-chan time.Time
		for _, t := range tasks {
			later, err := e.perform(p, t)
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
		case <-e.kick:
		case <-retry:
		case <-ping.C:
			if _, err := p.do(e.ctx, "PONG", nil, []string{"PING"}); err != nil {
				return err
			}
			if now := e.n.listensSharded(); now != both {
				return errFamilies // all channels have to be subscribed anew
			}
			e.wake()
		case <-p.dead:
			return driver.Unknown(p.err)
		case <-e.ctx.Done():
			return nil
		}
	}
}

// errFamilies is why a connection is closed when the server has turned out to
// know other families of channels than before.
var errFamilies = driver.Unsent(errors.New("the server's version has changed"))

// wake has refused channels tried again, once they have rested.
func (e *subscriber) wake() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.resting) == 0 || time.Since(e.tried) < refusedRest {
		return
	}
	for _, s := range e.resting {
		s.rests = false
		e.enqueue(s)
	}
	e.resting = nil
}

// perform sends a task. It reports whether some of its channels have to be
// tried again soon, and fails if the connection is of no more use.
func (e *subscriber) perform(p *subConn, t task) (later bool, err error) {
	word, channels := t.word(), make([]string, len(t.subs))
	for i, s := range t.subs {
		channels[i] = s.channel
	}
	cmds := [][]string{append([]string{strings.ToUpper(word)}, channels...)}
	if t.alone {
		cmds = cmds[:0]
		for _, c := range channels {
			cmds = append(cmds, []string{strings.ToUpper(word), c})
		}
	}
	errs, err := p.do(e.ctx, word, channels, cmds...)
	if err != nil {
		return false, err
	}
	var refused []string
	var reason error
	e.mu.Lock()
	for i, s := range t.subs {
		err := errs[min(i, len(errs)-1)]
		switch code := driver.CodeOf(err); {
		case err == nil:
			e.succeeded(t, s)
			continue
		case code == "NOAUTH":
			e.mu.Unlock()
			return false, err // the next connection logs in again
		case driver.ClassOf(err) == driver.Definite:
			// The server is busy, or the slot is on its way to another node, which
			// the channels will follow to when the driver knows. Until then they
			// are tried here.
			later = true
			e.add(s)
		case t.want && !t.alone && len(t.subs) > 1:
			// The server does not say which of them it refuses.
			s.alone |= t.family
			e.add(s)
		default:
			if t.want == s.wanted {
				if s.refused == 0 {
					refused, reason = append(refused, s.channel), err
				}
				s.refused |= t.family
			}
			e.rest(s)
		}
		if t.want {
			s.asked &^= t.family
		}
	}
	e.mu.Unlock()
	if later {
		e.l.d.suspect()
	}
	if len(refused) > 0 {
		e.l.h.Lost(refused, driver.Refused(reason))
	}
	return later, nil
}

// succeeded notes that the server has done a task for a channel. The caller
// holds e.mu.
func (e *subscriber) succeeded(t task, s *sub) {
	s.alone &^= t.family
	s.refused &^= t.family
	if t.want {
		return
	}
	s.asked &^= t.family
	e.forget(s)
}

// rest keeps a channel from being tried again at once. The caller holds e.mu.
func (e *subscriber) rest(s *sub) {
	if s.rests {
		return
	}
	if len(e.resting) == 0 {
		e.tried = time.Now()
	}
	s.rests = true
	e.resting = append(e.resting, s)
}

// heard takes in what the server says.
func (e *subscriber) heard(kind, channel, payload string, generation uint64) {
	if e.ctx.Err() != nil {
		return
	}
	if kind == "message" || kind == "smessage" {
		e.l.h.Message(channel, payload)
		return
	}
	e.mu.Lock()
	s := e.subs[channel]
	if s == nil {
		e.mu.Unlock()
		return
	}
	had := s.have
	switch kind {
	case "subscribe":
		s.have |= plain
	case "ssubscribe":
		s.have |= sharded
	case "unsubscribe":
		s.have &^= plain
	case "sunsubscribe":
		s.have &^= sharded
	}
	now, need, wanted := s.have, e.families(channel), s.wanted
	moved := wanted && had == need && now != need
	if wanted && had&^now == sharded {
		s.asked &^= sharded // the slot has gone elsewhere
		e.enqueue(s)
	}
	e.mu.Unlock()
	switch {
	case moved:
		e.l.d.suspect()
		e.l.h.Lost([]string{channel}, errMoved)
	case wanted && now == need && (kind == "subscribe" || kind == "ssubscribe"):
		e.l.h.Subscribed(channel, generation)
	}
}

// families returns where a channel has to be listened to.
func (e *subscriber) families(channel string) family {
	if e.n.listensSharded() && driver.Home(channel) == channel {
		return plain | sharded
	}
	return plain
}

// listensSharded reports whether channels may be published to by SPUBLISH.
func (n *node) listensSharded() bool { return n.sharded.Load() || n.publishesSharded() }

// A task is a command that subscribes or unsubscribes some channels, or a
// command for each of them.
type task struct {
	family family
	want   bool
	alone  bool
	subs   []*sub
}

// word is the name of the command, and of its confirmation.
func (t task) word() string {
	word := "subscribe"
	if !t.want {
		word = "un" + word
	}
	if t.family == sharded {
		word = "s" + word
	}
	return word
}

// tasks empties the queue and returns what to do so that the connection has
// what is wanted. Channels that may be refused come last.
func (e *subscriber) tasks() []task {
	e.mu.Lock()
	defer e.mu.Unlock()
	type group struct {
		family family
		want   bool
		alone  bool
		slot   int // sharded channels of different slots need a command each
	}
	groups := make(map[group][]*sub)
	for _, s := range e.queue {
		s.queued = false
		var need family
		if s.wanted {
			need = e.families(s.channel)
		}
		for _, f := range []family{plain, sharded} {
			want := need&f != 0
			if want && s.asked&f != 0 && !s.fresh || !want && s.asked&f == 0 {
				continue
			}
			g := group{family: f, want: want, alone: want && s.alone&f != 0}
			if f == sharded && !g.alone {
				g.slot = driver.Slot(s.channel)
			}
			groups[g] = append(groups[g], s)
			if want {
				s.asked |= f
			}
		}
		s.fresh = false
		e.forget(s)
	}
	e.queue = nil
	var tasks, last []task
	for g, subs := range groups {
		for some := range slices.Chunk(subs, maxSubscribe) {
			if t := (task{g.family, g.want, g.alone, some}); g.alone {
				last = append(last, t)
			} else {
				tasks = append(tasks, t)
			}
		}
	}
	return append(tasks, last...)
}
