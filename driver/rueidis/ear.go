package rueidis

import (
	"context"
	"maps"
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

// An ear keeps one connection to a node subscribed to a set of channels. One
// goroutine owns the connection; it brings what the server has into line with
// what is wanted, whatever happened in between.
//
// In a cluster there are two families of channels, and it is up to whoever
// publishes which he uses. So the ear listens to both, and a channel counts as
// subscribed once both are confirmed.
type ear struct {
	l      *listener
	n      *node
	ctx    context.Context
	cancel context.CancelFunc
	kick   chan struct{} // buffered: something changed in wanted
	done   chan struct{} // closed when the goroutine has ended

	mu     sync.Mutex
	wanted map[string]bool
	fresh  map[string]bool // wanted since the last look: to be confirmed, even if had already
	have   map[string]family
	moved  map[string]bool // whose slot has gone elsewhere, and the sharded subscription with it
}

// A family is a set of families that a channel is subscribed in.
type family uint8

const (
	plain   family = 1 << iota // PUBLISH
	sharded                    // SPUBLISH
)

func newEar(l *listener, n *node) *ear {
	e := &ear{
		l: l, n: n,
		kick:   make(chan struct{}, 1),
		done:   make(chan struct{}),
		wanted: make(map[string]bool),
		fresh:  make(map[string]bool),
	}
	e.ctx, e.cancel = context.WithCancel(n.life)
	go e.run()
	return e
}

func (e *ear) want(channel string) {
	e.mu.Lock()
	e.wanted[channel], e.fresh[channel] = true, true
	e.mu.Unlock()
	e.look()
}

func (e *ear) drop(channel string) {
	e.mu.Lock()
	delete(e.wanted, channel)
	delete(e.fresh, channel)
	delete(e.moved, channel)
	e.mu.Unlock()
	e.look()
}

func (e *ear) look() {
	select {
	case e.kick <- struct{}{}:
	default:
	}
}

func (e *ear) close() {
	e.cancel()
	<-e.done
}

// run opens a connection, serves it until it breaks, and opens the next.
func (e *ear) run() {
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
		e.mu.Lock()
		lost := slices.Collect(maps.Keys(e.wanted))
		e.mu.Unlock()
		e.l.h.Lost(lost, err)
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

// serve subscribes one connection to what is wanted, until it breaks.
func (e *ear) serve(generation uint64) error {
	if err := e.n.greetOnce(e.ctx); err != nil { // it says which families it knows
		return err
	}
	e.mu.Lock()
	e.have, e.moved = make(map[string]family), make(map[string]bool)
	e.mu.Unlock()
	p, err := e.n.call(e.ctx, func(kind, channel, payload string) { e.heard(kind, channel, payload, generation) })
	if err != nil {
		return err
	}
	defer p.hangUp()
	asked := make(map[string]family) // for which a subscription was sent
	ping := time.NewTicker(pingGap)
	defer ping.Stop()
	for {
		todo := e.diff(asked)
		var retry <-chan time.Time
		for _, t := range todo {
			word := t.word()
			err := p.do(e.ctx, word, len(t.channels), append([]string{strings.ToUpper(word)}, t.channels...)...)
			if err == nil {
				continue
			}
			if driver.ClassOf(err) != driver.Definite || driver.CodeOf(err) == "" {
				return err
			}
			// The server is busy, or the slot is on its way to another node, which
			// the channels will follow to when the driver knows. Until then they
			// are tried here.
			e.l.d.suspect()
			for _, c := range t.channels {
				asked[c] ^= t.family
			}
			retry = time.After(50 * time.Millisecond)
		}
		if len(todo) > 0 && retry == nil {
			continue
		}
		select {
		case <-e.kick:
		case <-retry:
		case <-ping.C:
			if err := p.do(e.ctx, "PONG", 1, "PING"); driver.ClassOf(err) == driver.Ambiguous && err != nil {
				return err
			}
		case <-p.dead:
			return driver.Unknown(p.err)
		case <-e.ctx.Done():
			return nil
		}
	}
}

// heard takes in what the server says.
func (e *ear) heard(kind, channel, payload string, generation uint64) {
	if e.ctx.Err() != nil {
		return
	}
	if kind == "message" || kind == "smessage" {
		e.l.h.Message(channel, payload)
		return
	}
	e.mu.Lock()
	had := e.have[channel]
	switch kind {
	case "subscribe":
		e.have[channel] |= plain
	case "ssubscribe":
		e.have[channel] |= sharded
	case "unsubscribe":
		e.have[channel] &^= plain
	case "sunsubscribe":
		e.have[channel] &^= sharded
	}
	now, need, wanted := e.have[channel], e.families(channel), e.wanted[channel]
	if now == 0 {
		delete(e.have, channel)
	}
	moved := wanted && had == need && now != need
	if wanted && had&^now == sharded {
		e.moved[channel] = true
		e.look()
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
func (e *ear) families(channel string) family {
	if (e.n.sharded.Load() || e.n.publishesSharded()) && driver.Home(channel) == channel {
		return plain | sharded
	}
	return plain
}

// A task is a command that subscribes or unsubscribes some channels.
type task struct {
	family   family
	want     bool
	channels []string
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

// diff returns what to do so that the connection has what is wanted, given what
// was asked of it, and notes that it will be.
func (e *ear) diff(asked map[string]family) []task {
	e.mu.Lock()
	defer e.mu.Unlock()
	type group struct {
		family family
		want   bool
		slot   int // sharded channels of different slots need a command each
	}
	groups := make(map[group][]string)
	add := func(c string, f family, want bool) {
		g := group{f, want, 0}
		if f == sharded {
			g.slot = driver.Slot(c)
		}
		groups[g] = append(groups[g], c)
	}
	for c := range e.wanted {
		need := e.families(c)
		if e.moved[c] {
			asked[c] &^= sharded
			delete(e.moved, c)
		}
		for _, f := range []family{plain, sharded} {
			if need&f != 0 && (asked[c]&f == 0 || e.fresh[c]) {
				add(c, f, true)
				asked[c] |= f
			}
		}
		delete(e.fresh, c)
	}
	for c, had := range asked {
		if e.wanted[c] {
			continue
		}
		for _, f := range []family{plain, sharded} {
			if had&f != 0 {
				add(c, f, false)
			}
		}
		asked[c] = 0
		if had == 0 {
			delete(asked, c)
		}
	}
	var tasks []task
	for g, channels := range groups {
		for some := range slices.Chunk(channels, maxSubscribe) {
			tasks = append(tasks, task{g.family, g.want, some})
		}
	}
	return tasks
}
