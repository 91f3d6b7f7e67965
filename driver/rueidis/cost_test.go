package rueidis

import (
	"context"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// anEar returns an subscriber without a connection that has n channels.
func anEar(tb testing.TB, n int) *subscriber {
	e := &subscriber{
		l: &listener{d: &Driver{kick: make(chan struct{}, 1)}, h: nobody{}}, ctx: context.Background(),
		n:    newNode(context.Background(), Config{}, "127.0.0.1:1", new(doubter)),
		kick: make(chan struct{}, 1), subs: make(map[string]*sub),
	}
	tb.Cleanup(e.n.close)
	for i := range n {
		e.want(fmt.Sprint("c", i))
	}
	settle(e)
	return e
}

// settle does what is to be done as if the server confirmed it.
func settle(e *subscriber) (looked int) {
	looked = len(e.queue)
	for _, t := range e.tasks() {
		e.mu.Lock()
		for _, s := range t.subs {
			e.succeeded(t, s)
		}
		e.mu.Unlock()
		for _, s := range t.subs {
			e.heard(t.word(), s.channel, "", 1)
		}
	}
	return looked
}

// A change looks at the channel that changes, however many others there are,
// and leaves nothing behind.
func TestChangeLooksAtOneChannel(t *testing.T) {
	var allocs []float64
	for _, n := range []int{100, 10_000} {
		e := anEar(t, n)
		allocs = append(allocs, testing.AllocsPerRun(100, func() {
			e.want("one")
			if looked := settle(e); looked != 1 {
				t.Fatalf("of %d channels one is subscribed, %d were looked at", n, looked)
			}
			e.drop("one")
			if looked := settle(e); looked != 1 {
				t.Fatalf("of %d channels one is unsubscribed, %d were looked at", n, looked)
			}
		}))
		if len(e.subs) != n || len(e.queue) != 0 || len(e.resting) != 0 {
			t.Errorf("%d channels, %d in the queue, %d rest; want %d channels", len(e.subs), len(e.queue), len(e.resting), n)
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
