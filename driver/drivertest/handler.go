package drivertest

import (
	"sync"
	"testing"
	"time"
)

// A handler notes events: "c:payload", "+c" for a confirmation, "lost".
type handler struct {
	mu     sync.Mutex
	events chan string
	gen    map[string]uint64
}

func newHandler() *handler {
	return &handler{events: make(chan string, 1<<16), gen: make(map[string]uint64)}
}

func (h *handler) Message(channel, payload string) { h.events <- channel + ":" + payload }
func (h *handler) Lost([]string, error)            { h.events <- "lost" }

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

// want waits for an event and passes over others.
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
