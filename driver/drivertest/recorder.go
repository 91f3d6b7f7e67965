package drivertest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A Recorder is a [driver.Handler] that records events: "c:payload" is a message,
// "+c" a confirmed channel, "-c" a lost channel, and "refused c" a channel that
// the server does not allow.
type Recorder struct {
	added chan struct{} // holds an element when there are events that no call of Want has read

	mu   sync.Mutex
	all  []string
	read int // of all, by Want and WantAll
	gen  map[string]uint64
	errs []error
}

// NewRecorder returns a Recorder without events.
func NewRecorder() *Recorder {
	return &Recorder{added: make(chan struct{}, 1), gen: make(map[string]uint64)}
}

func (r *Recorder) add(events ...string) {
	r.all = append(r.all, events...)
	select {
	case r.added <- struct{}{}:
	default:
	}
}

// Message implements [driver.Handler].
func (r *Recorder) Message(channel, payload string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(channel + ":" + payload)
}

// Subscribed implements [driver.Handler].
func (r *Recorder) Subscribed(channel string, generation uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gen[channel] > generation {
		r.errs = append(r.errs, errors.New("a confirmation in an earlier generation"))
	}
	r.gen[channel] = generation
	r.add("+" + channel)
}

// Lost implements [driver.Handler].
func (r *Recorder) Lost(channels []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.errs = append(r.errs, errors.New("a loss without a reason"))
	}
	sign := "-"
	if errors.Is(err, driver.ErrRefused) {
		sign = "refused "
	}
	for _, c := range channels {
		r.add(sign + c)
	}
}

// Check fails the test if the driver broke a promise about its events.
func (r *Recorder) Check(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, err := range r.errs {
		t.Error(err)
	}
}

// Generation returns the last generation in which a channel was confirmed.
func (r *Recorder) Generation(channel string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gen[channel]
}

// Seen returns how often an event was recorded.
func (r *Recorder) Seen(event string) int {
	return r.count(func(e string) bool { return e == event })
}

// Losses returns how many lost and refused channels were recorded.
func (r *Recorder) Losses() int {
	return r.count(func(e string) bool { return strings.HasPrefix(e, "-") || strings.HasPrefix(e, "refused ") })
}

func (r *Recorder) count(match func(event string) bool) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.all {
		if match(e) {
			n++
		}
	}
	return n
}

// More returns a function that reports whether an event was recorded since More
// was called.
func (r *Recorder) More(event string) func() bool {
	before := r.Seen(event)
	return func() bool { return r.Seen(event) > before }
}

// Want waits for an event that comes after the ones that Want and WantAll have
// read, and passes over others.
func (r *Recorder) Want(t *testing.T, event string) {
	t.Helper()
	r.WantAll(t, event)
}

// WantAll waits for some events, in any order, and returns all that it has read.
func (r *Recorder) WantAll(t *testing.T, events ...string) (came []string) {
	t.Helper()
	missing := make(map[string]bool)
	for _, e := range events {
		missing[e] = true
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	for {
		r.mu.Lock()
		for len(missing) > 0 && r.read < len(r.all) {
			came = append(came, r.all[r.read])
			delete(missing, r.all[r.read])
			r.read++
		}
		r.mu.Unlock()
		if len(missing) == 0 {
			return came
		}
		select {
		case <-r.added:
		case <-ctx.Done():
			t.Fatalf("missing events: %q; %d others came", slices.Sorted(maps.Keys(missing)), len(came))
		}
	}
}
