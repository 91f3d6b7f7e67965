package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/object"
)

// watch sends what Watch yields to a channel, as text. The channel is closed at its end.
func watch[T any](ctx context.Context, b *object.Bucket[T]) <-chan string {
	got := make(chan string, 100)
	go func() {
		defer close(got)
		for v, err := range b.Watch(ctx) {
			switch {
			case err != nil:
				got <- "error: " + err.Error()
			case !v.Exists:
				got <- "none"
			default:
				got <- fmt.Sprint(v.Value)
			}
		}
	}()
	return got
}

// watched returns what Watch yields next.
func watched(t *testing.T, got <-chan string) string {
	t.Helper()
	select {
	case s, ok := <-got:
		if !ok {
			return "the end"
		}
		return s
	case <-time.After(20 * time.Second):
		t.Fatal("Watch yields nothing")
		return ""
	}
}

// Each method that changes the value tells those who watch, who do not have to poll.
func TestWatch(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	writer, reader := locktest.Open(t, s.URL(), locktest.Unpolled), locktest.Open(t, s.URL(), locktest.Unpolled)
	name := locktest.Name(t)
	b := object.NewBucket(writer, name, object.StringCodec{})
	ctx, cancel := context.WithCancel(t.Context())
	got := watch(ctx, object.NewBucket(reader, name, object.StringCodec{}))
	if v := watched(t, got); v != "none" {
		t.Fatalf("watched %q", v)
	}
	locktest.AwaitListener(t, s, "holdfast:value:{"+name+"}")
	for _, step := range []struct {
		do   func() error
		want string
	}{
		{func() error { return b.Set(ctx, "a", time.Hour) }, "a"},
		{func() error { return b.SetKeepTTL(ctx, "b") }, "b"},
		{func() error { _, _, err := b.GetAndDelete(ctx); return err }, "none"},
		{func() error { _, err := b.SetIfAbsent(ctx, "c", 0); return err }, "c"},
		{func() error { _, err := b.SetIfExists(ctx, "d", 0); return err }, "d"},
		{func() error { _, _, err := b.Swap(ctx, "e", 0); return err }, "e"},
		{func() error { _, err := b.CompareAndSwap(ctx, "e", "f"); return err }, "f"},
		{func() error {
			_, err := b.Update(ctx, func(old string, _ bool) (string, error) { return old + "g", nil })
			return err
		}, "fg"},
		{func() error { _, err := b.CompareAndDelete(ctx, "fg"); return err }, "none"},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if v := watched(t, got); v != step.want {
			t.Errorf("watched %q, want %q", v, step.want)
		}
	}
	cancel()
	if v := watched(t, got); v != "the end" {
		t.Errorf("after the end of the context: %q", v)
	}
	locktest.Eventually(t, 10*time.Second, "the subscription ends", func() bool {
		return s.Int(t, "EXISTS", name) == 0 && !hasChannel(t, s, "holdfast:value:{"+name+"}")
	})
}

func hasChannel(t *testing.T, s *redistest.Server, channel string) bool {
	t.Helper()
	for _, c := range s.Channels(t) {
		if c == channel {
			return true
		}
	}
	return false
}

// Changes by other programs are found by looking, and so are those that are missed. A
// value that is stored again is no change.
func TestWatchOthers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), locktest.Quick)
	b := object.NewBucket(c, "b", object.JSONCodec[int]{})
	s.Do(t, "SET", "b", "1")
	got := watch(t.Context(), b)
	steps := []struct{ command, want string }{
		{"", "1"},
		{"SET b 2", "2"},
		{"DEL b", "none"},
		{"SET b 3", "3"},
		{"PEXPIRE b 50", "none"},
		{"SET b {", "error: "},
		{"SET b 4", "4"},
		{"FLUSHALL", "none"},
	}
	for _, step := range steps {
		if step.command != "" {
			s.Do(t, strings.Fields(step.command)...)
		}
		v := watched(t, got)
		if step.want == "error: " && len(v) > 7 {
			v = v[:7]
		}
		if v != step.want {
			t.Errorf("%s: watched %q, want %q", step.command, v, step.want)
		}
	}
	for range 3 {
		if err := b.Set(t.Context(), 5, 0); err != nil {
			t.Fatal(err)
		}
	}
	if v := watched(t, got); v != "5" {
		t.Errorf("watched %q", v)
	}
	looks := locktest.Calls(t, s, "evalsha")
	locktest.Eventually(t, 20*time.Second, "Watch has looked twice more", func() bool { return locktest.Calls(t, s, "evalsha") >= looks+2 })
	if len(got) > 0 { // it had yielded what the first look saw before it looked again
		t.Errorf("the same value again: %q", <-got)
	}
}

// An outage is reported and does not end the iteration. A closed client ends it.
func TestWatchOutage(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o := locktest.Quick
	o.RetryTimeout = time.Second
	c := locktest.Open(t, s.URL(), o)
	b := object.NewBucket(c, "b", object.StringCodec{})
	if err := b.Set(t.Context(), "a", 0); err != nil {
		t.Fatal(err)
	}
	var outage, again bool
	for v, err := range b.Watch(t.Context()) {
		switch {
		case err == nil && !outage && v.Value == "a":
			s.Stop()
		case errors.Is(err, holdfast.ErrUnavailable) && !outage:
			outage = true
			s.Restart()
		case err == nil && outage:
			again = true // the restarted server has no data
			if v.Exists {
				t.Errorf("watched %+v", v)
			}
			_ = c.Close()
		case errors.Is(err, holdfast.ErrClosed) && again:
		case errors.Is(err, holdfast.ErrUnavailable):
		default:
			t.Errorf("watched %+v, %v", v, err)
		}
	}
	if !outage || !again {
		t.Errorf("outage %v, again %v", outage, again)
	}
	for _, err := range new(object.Bucket[string]).Watch(t.Context()) {
		if !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("the zero bucket: %v", err)
		}
	}
}
