package rueidis

import (
	"context"
	"fmt"
	"testing"
)

// Who is told to publish to sharded channels listens to them, also where the
// server does not say its version.
func TestShardedOnListens(t *testing.T) {
	n := aNode(t, Cluster, "127.0.0.1:1", new(doubter))
	n.c.Sharded = ShardedOn
	if s := (&subscriber{n: n}); n.publishesSharded() && s.familiesOf("c")&sharded == 0 {
		t.Error("publishes where it does not listen")
	}
}

type ignore struct{}

func (ignore) Message(string, string) {}

func (ignore) Subscribed(string, uint64) {}

func (ignore) Lost([]string, error) {}

// A sharded subscription that the server ends while the other one is still on
// its way is asked for again.
func TestMovedBeforeSubscribed(t *testing.T) {
	n := aNode(t, Cluster, "127.0.0.1:1", new(doubter))
	n.report.sharded.Store(true)
	s := &subscriber{
		l: &listener{d: &Driver{scanSignal: make(chan struct{}, 1)}, h: ignore{}}, n: n, ctx: context.Background(),
		signal: make(chan struct{}, 1), channels: make(map[string]*channelState),
	}
	s.subscribe("c")
	s.tasks()
	s.handle("ssubscribe", "c", "", 1)
	s.handle("sunsubscribe", "c", "", 1)
	s.handle("subscribe", "c", "", 1)
	if len(s.tasks()) == 0 {
		t.Error("no task subscribes again")
	}
}

// A channel that is wanted again while its unsubscription is under way was not moved by the
// server: nothing is reported as lost, and it is subscribed again.
func TestWantedAgainIsNotMoved(t *testing.T) {
	var lost lossCounter
	s := aSubscriber(t, 1)
	s.l.h = &lost
	s.unsubscribe("c0")
	under := s.tasks()
	s.subscribe("c0")
	for _, task := range under {
		s.handle(task.word(), "c0", "", 1)
		s.succeeded(task, task.channels[0])
	}
	if lost != 0 {
		t.Error("reported as lost")
	}
	if len(s.tasks()) == 0 {
		t.Error("no task subscribes again")
	}
}

// A lossCounter counts the channels that are reported as lost.
type lossCounter int

func (*lossCounter) Message(string, string) {}

func (*lossCounter) Subscribed(string, uint64) {}

func (n *lossCounter) Lost(channels []string, _ error) { *n += lossCounter(len(channels)) }

// aSubscriber returns a subscriber without a connection that has n channels.
func aSubscriber(tb testing.TB, n int) *subscriber {
	s := &subscriber{
		l: &listener{d: &Driver{scanSignal: make(chan struct{}, 1)}, h: ignore{}}, ctx: context.Background(),
		n:      newNode(context.Background(), Config{}, "127.0.0.1:1", new(doubter)),
		signal: make(chan struct{}, 1), channels: make(map[string]*channelState),
	}
	tb.Cleanup(s.n.close)
	for i := range n {
		s.subscribe(fmt.Sprint("c", i))
	}
	settle(s)
	return s
}

// settle does what is to be done as if the server confirmed it.
func settle(s *subscriber) (looked int) {
	looked = len(s.queue)
	for _, t := range s.tasks() {
		s.mu.Lock()
		for _, cs := range t.channels {
			s.succeeded(t, cs)
		}
		s.mu.Unlock()
		for _, cs := range t.channels {
			s.handle(t.word(), cs.channel, "", 1)
		}
	}
	return looked
}

// A change looks at the channel that changes, however many others there are,
// and leaves nothing behind.
func TestChangeLooksAtOneChannel(t *testing.T) {
	var allocs []float64
	for _, n := range []int{100, 10_000} {
		s := aSubscriber(t, n)
		allocs = append(allocs, testing.AllocsPerRun(100, func() {
			s.subscribe("one")
			if looked := settle(s); looked != 1 {
				t.Fatalf("of %d channels one is subscribed, %d were looked at", n, looked)
			}
			s.unsubscribe("one")
			if looked := settle(s); looked != 1 {
				t.Fatalf("of %d channels one is unsubscribed, %d were looked at", n, looked)
			}
		}))
		if len(s.channels) != n || len(s.queue) != 0 || len(s.delayed) != 0 {
			t.Errorf("%d channels, %d in the queue, %d rest; want %d channels", len(s.channels), len(s.queue), len(s.delayed), n)
		}
	}
	if allocs[1] > 2*allocs[0] {
		t.Errorf("with 100 channels %v allocations, with 10000 %v", allocs[0], allocs[1])
	}
}
