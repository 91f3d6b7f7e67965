package rueidis_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A server that runs somebody's long script answers every command with an error,
// also those that end a subscription. That must not bring the program down.
func TestUnsubscribeFromBusyServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--busy-reply-threshold", "50")
	for _, protocol := range []string{"3", "2"} {
		d := connect(t, with(t, s.URL(), "protocol", protocol))
		h := newEvents()
		l := d.Listen(h)
		l.Subscribe("a", "b")
		h.want(t, "+b")
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = s.Try("EVAL", "local t = redis.call('time') local stop = t[1] + 2 repeat t = redis.call('time') until tonumber(t[1]) >= stop", "0")
		}()
		time.Sleep(500 * time.Millisecond) // it is busy by now
		l.Unsubscribe("a")
		l.Subscribe("c")
		<-done
		h.want(t, "+c")
		eventually(t, patience, "the server has unsubscribed what it was busy for", func() bool { return len(s.Channels(t)) == 2 })
		s.Do(t, "PUBLISH", "c", "heard")
		h.want(t, "c:heard")
		_ = l.Close()
	}
}
