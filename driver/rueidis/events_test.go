package rueidis_test

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// events notes what a listener hears: "c:payload", "+c" for a confirmation,
// "lost c".
type events struct {
	mu    sync.Mutex
	all   []string
	read  int
	added chan struct{}
}

func newEvents() *events { return &events{added: make(chan struct{}, 1)} }

func (h *events) add(event string) {
	h.mu.Lock()
	h.all = append(h.all, event)
	h.mu.Unlock()
	select {
	case h.added <- struct{}{}:
	default:
	}
}

func (h *events) Message(channel, payload string)     { h.add(channel + ":" + payload) }
func (h *events) Subscribed(channel string, _ uint64) { h.add("+" + channel) }

func (h *events) Lost(channels []string, _ error) {
	for _, c := range channels {
		h.add("lost " + c)
	}
}

// want waits for an event and passes over others.
func (h *events) want(t *testing.T, event string) {
	t.Helper()
	timeout := time.After(10 * time.Second)
	for {
		h.mu.Lock()
		for h.read < len(h.all) {
			h.read++
			if h.all[h.read-1] == event {
				h.mu.Unlock()
				return
			}
		}
		h.mu.Unlock()
		select {
		case <-h.added:
		case <-timeout:
			t.Fatalf("no event %q in %q", event, h.all)
		}
	}
}

// count returns how many events begin that way, so far.
func (h *events) count(prefix string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, e := range h.all {
		if strings.HasPrefix(e, prefix) {
			n++
		}
	}
	return n
}
