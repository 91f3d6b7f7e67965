package drivertest

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A handler records events: "c:payload" for a message, "+c" for a confirmation,
// "lost", and "refused c" if the server refuses a channel.
type handler struct {
	mu     sync.Mutex
	events chan string
	gen    map[string]uint64
}

func newHandler() *handler {
	return &handler{events: make(chan string, 1<<16), gen: make(map[string]uint64)}
}

func (h *handler) Message(channel, payload string) { h.events <- channel + ":" + payload }

func (h *handler) Lost(channels []string, err error) {
	if !errors.Is(err, driver.ErrRefused) {
		h.events <- "lost"
		return
	}
	for _, c := range channels {
		h.events <- "refused " + c
	}
}

func (h *handler) Subscribed(channel string, generation uint64) {
	h.mu.Lock()
	h.gen[channel] = generation
	h.mu.Unlock()
	h.events <- "+" + channel
}

func (h *handler) generation(channel string) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.gen[channel]
}

// want waits for an event and skips other events.
func (h *handler) want(t *testing.T, event string) {
	t.Helper()
	timeout := time.After(15 * time.Second)
	for {
		select {
		case e := <-h.events:
			if e == event {
				return
			}
		case <-timeout:
			t.Fatalf("no event %q", event)
		}
	}
}

// wantAll waits for the given events, in any order, and returns all events that
// it has received.
func (h *handler) wantAll(t *testing.T, events ...string) (came []string) {
	t.Helper()
	missing := make(map[string]bool)
	for _, e := range events {
		missing[e] = true
	}
	timeout := time.After(15 * time.Second)
	for len(missing) > 0 {
		select {
		case e := <-h.events:
			came = append(came, e)
			delete(missing, e)
		case <-timeout:
			t.Fatalf("missing events: %v; %d others came", slices.Collect(maps.Keys(missing)), len(came))
		}
	}
	return came
}
