package check

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
)

// listenTime is how long a server may take to confirm a subscription.
const listenTime = 5 * time.Second

// listen subscribes to channels, unsubscribes from the first, and subscribes to
// two more channels of the object with the given name. It returns what the
// server refuses.
func (i *inspector) listen(name string, channels ...string) (script.Refusal, string) {
	ctx, cancel := context.WithTimeout(i.ctx, listenTime)
	defer cancel()
	e := &ear{want: make(map[string]bool), had: make(chan struct{}, 1), lost: make(chan error, 1)}
	l := i.d.Listen(e)
	defer func() { _ = l.Close() }()
	another := script.ProbeChannel(name)
	steps := []struct{ add, drop []string }{
		{channels, nil},
		{[]string{another + "2"}, channels[:1]},
		{[]string{another + "3"}, nil}, // confirmed after the previous step was done
	}
	for n, step := range steps {
		e.expect(step.add)
		l.Unsubscribe(step.drop...)
		l.Subscribe(step.add...)
		select {
		case <-e.had:
		case err := <-e.lost:
			r, command := i.answer(err)
			if r == script.ChannelRefused && n > 0 {
				r = script.NotRefused // these channels are not part of the check
			}
			return r, command
		case <-ctx.Done():
			i.fs = append(i.fs, Finding{i.server.Node, Warning, "answer", fmt.Sprintf("the server did not confirm a subscription within %v", listenTime), "check whether a proxy or a firewall blocks it"})
			return script.NotRefused, ""
		}
	}
	return script.NotRefused, ""
}

// An ear waits for the confirmation of channels.
type ear struct {
	mu   sync.Mutex
	want map[string]bool
	had  chan struct{}
	lost chan error
}

func (e *ear) expect(channels []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range channels {
		e.want[c] = true
	}
}

func (e *ear) Message(string, string) {}

func (e *ear) Subscribed(channel string, _ uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if delete(e.want, channel); len(e.want) == 0 {
		select {
		case e.had <- struct{}{}:
		default:
		}
	}
}

func (e *ear) Lost(_ []string, err error) {
	select {
	case e.lost <- err:
	default:
	}
}
