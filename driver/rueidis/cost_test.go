package rueidis

import (
	"context"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// aSubscriber returns a subscriber without a connection that has n channels.
func aSubscriber(tb testing.TB, n int) *subscriber {
	s := &subscriber{
		l: &listener{d: &Driver{scanSignal: make(chan struct{}, 1)}, h: nobody{}}, ctx: context.Background(),
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

// BenchmarkChange subscribes and unsubscribes one channel beside others.
func BenchmarkChange(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := redistest.Start(b)
			d, err := Open(b.Context(), Config{Addr: s.Addr(), Network: "tcp", DialTimeout: patient, Timeout: patient})
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			h := make(confirmations, n)
			l := d.Listen(h)
			for i := range n {
				l.Subscribe(fmt.Sprint("c", i))
			}
			for range n {
				<-h
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c := fmt.Sprint("d", i%1000)
				l.Subscribe(c)
				<-h
				l.Unsubscribe(c)
			}
		})
	}
}

// confirmations are the channels that were confirmed.
type confirmations chan string

func (c confirmations) Subscribed(channel string, _ uint64) { c <- channel }
func (confirmations) Message(string, string)                {}
func (confirmations) Lost([]string, error)                  {}
