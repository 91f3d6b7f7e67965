package rueidis

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
)

// maxSubscribe bounds the channels in one SUBSCRIBE, so that none of them
// delays the rest for long.
const maxSubscribe = 500

// A listener keeps one connection subscribed to a set of channels. One
// goroutine owns the connection; it brings what the server has into line with
// what is wanted, whatever happened in between.
type listener struct {
	d      *Driver
	h      driver.Handler
	ctx    context.Context
	cancel context.CancelFunc
	kick   chan struct{} // buffered: something changed in want
	done   chan struct{} // closed when the goroutine has ended

	mu    sync.Mutex
	want  map[string]bool
	fresh map[string]bool // wanted since the last look: to be confirmed, even if had already
}

// Listen implements driver.Driver.
func (d *Driver) Listen(h driver.Handler) driver.Listener {
	l := &listener{
		d: d, h: h,
		kick:  make(chan struct{}, 1),
		done:  make(chan struct{}),
		want:  make(map[string]bool),
		fresh: make(map[string]bool),
	}
	l.ctx, l.cancel = context.WithCancel(d.life)
	go l.run()
	return l
}

func (l *listener) Subscribe(channels ...string)   { l.change(channels, true) }
func (l *listener) Unsubscribe(channels ...string) { l.change(channels, false) }

func (l *listener) change(channels []string, want bool) {
	l.mu.Lock()
	for _, c := range channels {
		if want {
			l.want[c] = true
			l.fresh[c] = true
		} else {
			delete(l.want, c)
			delete(l.fresh, c)
		}
	}
	l.mu.Unlock()
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

func (l *listener) Close() error {
	l.cancel()
	<-l.done
	return nil
}

// run opens a connection, serves it until it breaks, and opens the next.
func (l *listener) run() {
	defer close(l.done)
	const shortest, longest = 20 * time.Millisecond, time.Second
	pause := shortest
	for generation := uint64(1); l.ctx.Err() == nil; generation++ {
		opened := time.Now()
		err := l.serve(generation)
		if l.ctx.Err() != nil {
			return
		}
		l.h.Lost(err)
		if time.Since(opened) > longest {
			pause = shortest // it did work for a while
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-l.ctx.Done():
		}
		pause = min(2*pause, longest)
	}
}

// serve subscribes one connection to what is wanted, until it breaks.
func (l *listener) serve(generation uint64) error {
	conn, release := l.d.client.Dedicate()
	defer release()
	defer conn.Close()
	broken := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) {
			if l.ctx.Err() == nil {
				l.h.Message(m.Channel, m.Message)
			}
		},
		OnSubscription: func(s rueidis.PubSubSubscription) {
			if s.Kind == "subscribe" && l.ctx.Err() == nil {
				l.h.Subscribed(s.Channel, generation)
			}
		},
	})
	have := make(map[string]bool)
	for {
		add, drop := l.diff(have)
		if len(add) == 0 && len(drop) == 0 {
			select {
			case <-l.kick:
				continue
			case err := <-broken:
				return classify(err)
			case <-l.ctx.Done():
				return nil
			}
		}
		for _, cmd := range []struct {
			channels []string
			want     bool
		}{{add, true}, {drop, false}} {
			if len(cmd.channels) == 0 {
				continue
			}
			b := conn.B().Unsubscribe().Channel(cmd.channels...).Build()
			if cmd.want {
				b = conn.B().Subscribe().Channel(cmd.channels...).Build()
			}
			if err := conn.Do(l.ctx, b).Error(); err != nil {
				return classify(err)
			}
			for _, c := range cmd.channels {
				if cmd.want {
					have[c] = true
				} else {
					delete(have, c)
				}
			}
		}
	}
}

// diff returns what to add to and what to drop from the channels that the
// connection has, a bounded number of each.
func (l *listener) diff(have map[string]bool) (add, drop []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.want {
		if (!have[c] || l.fresh[c]) && len(add) < maxSubscribe {
			add = append(add, c)
			delete(l.fresh, c)
		}
	}
	for c := range have {
		if !l.want[c] && len(drop) < maxSubscribe {
			drop = append(drop, c)
		}
	}
	return add, drop
}
