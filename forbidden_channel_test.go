package holdfast_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A user without the right to one channel loses only the messages on that
// channel: a waiter there polls, and all others are woken.
func TestForbiddenChannel(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "limited", "on", ">secret", "~*", "+@all", "resetchannels", "&redisson_lock__channel:{good*")
	log := new(safeBuffer)
	limited := open(t, "redis://limited:secret@"+s.Addr(), holdfast.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	other := open(t, s.URL())
	// A waiter that gets no message looks once a second: 100 turns would take
	// more than the deadline.
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()

	blocked, err := other.Mutex("bad").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	polled := make(chan error, 1)
	go func() {
		_, err := limited.Mutex("bad").Lock(ctx) // it cannot announce a release there
		polled <- err
	}()
	mentions := func() int { return strings.Count(log.String(), "redisson_lock__channel:{bad}") }
	eventually(t, 20*time.Second, "the log names the channel", func() bool { return mentions() > 0 })
	for i := range 100 {
		if i == 50 {
			s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		}
		name := fmt.Sprint("good", i%3)
		held, err := other.Mutex(name).Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() {
			l, err := limited.Mutex(name).Lock(ctx)
			if err == nil {
				err = l.Release(ctx)
			}
			got <- err
		}()
		eventually(t, 20*time.Second, "a channel that is allowed is subscribed", func() bool {
			return slices.Contains(s.Channels(t), "redisson_lock__channel:{"+name+"}")
		})
		if err := held.Release(ctx); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Fatalf("turn %d: %v", i, err)
		}
	}
	if err := blocked.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-polled; err != nil {
		t.Errorf("the waiter on a channel that is refused: %v", err)
	}
	if n := mentions(); n != 1 || !strings.Contains(log.String(), "NOPERM") {
		t.Errorf("the channel is named %d times in the log: %s", n, log.String())
	}
}
