package settle

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// Now settles owners before it returns, those of each node in one goroutine, for at most
// limit. One confirmation is enough. It returns those that the server has not confirmed, and the
// error of one of them.
func (s *Settler) Now(limit time.Duration, all []*Owner) (left []*Owner, err error) {
	nodes := make(map[string][]*Owner)
	for _, o := range all {
		o.Remains, o.tries = Remains{Until: never}, 0
		o.node = s.d.Place(o.Free.Keys[0]).Node
		nodes[o.node] = append(nodes[o.node], o)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, some := range nodes {
		wg.Go(func() {
			rest, why := s.now(clock.Early()+limit, some)
			mu.Lock()
			defer mu.Unlock()
			if len(rest) > 0 {
				left, err = append(left, rest...), why
			}
		})
	}
	wg.Wait()
	return left, err
}

// now settles the owners of one node until that time.
func (s *Settler) now(end time.Duration, all []*Owner) (left []*Owner, err error) {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		var again []*Owner
		var why error
		next := never // when to send the first call again
		for some := range slices.Chunk(all, maxCalls) {
			if why != nil && driver.CodeOf(why) == "" { // the node does not answer
				again = append(again, some...)
				continue
			}
			for i, r := range s.ask(context.Background(), max(end-clock.Early(), time.Millisecond), some) {
				switch o := some[i]; {
				case o.answered(r.Err, 0, 0, pause/2+clock.Random(pause/2)):
				case o.tries > 0: // the server refuses the call
					left, err = append(left, o), r.Err
				default:
					again, why = append(again, o), r.Err
					next = min(next, o.due)
				}
			}
		}
		if len(again) == 0 {
			return left, err
		}
		if clock.Early() >= end {
			return append(left, again...), why
		}
		time.Sleep(next - clock.Now())
		all = again
	}
}
