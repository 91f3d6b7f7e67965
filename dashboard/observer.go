package dashboard

import (
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/observe"
)

// An Observer counts what the locks of a program do, for the plots of a [Dashboard] in
// the same program:
//
//	seen := new(dashboard.Observer)
//	client, err := holdfast.Open(ctx, url, &holdfast.Options{Observers: []observe.Observer{seen}})
//	...
//	d := dashboard.New(client, dashboard.Options{Observer: seen})
//
// Several clients can share an observer. The zero value is ready to use.
type Observer struct {
	mu     sync.Mutex
	ring   [buckets]events
	losses []observe.Event // the last ones
}

// events counts events of a few seconds.
type events struct {
	at                     int64
	acquired, failed, lost int
}

const mostLosses = 50

var _ observe.Observer = (*Observer)(nil)

// Observe counts an event.
func (o *Observer) Observe(e observe.Event) {
	switch e.Type {
	case observe.Acquired, observe.Failed, observe.Lost:
	default:
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	n := e.Time.UnixNano() / int64(bucketTime)
	b := &o.ring[(n%int64(buckets)+int64(buckets))%int64(buckets)]
	if b.at != n {
		*b = events{at: n}
	}
	switch e.Type {
	case observe.Acquired:
		b.acquired++
	case observe.Failed:
		b.failed++
	case observe.Lost:
		b.lost++
		e.Context = nil
		o.losses = append(o.losses, e)
		if extra := len(o.losses) - mostLosses; extra > 0 {
			o.losses = slices.Delete(o.losses, 0, extra)
		}
	}
}

// series returns the counts of the last minutes, the oldest first, and the last losses,
// the latest first.
func (o *Observer) series(now time.Time) (list []events, losses []observe.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	last := now.UnixNano() / int64(bucketTime)
	for n := last - int64(buckets) + 1; n <= last; n++ {
		b := o.ring[n%int64(buckets)]
		if b.at != n {
			b = events{at: n}
		}
		list = append(list, b)
	}
	losses = slices.Clone(o.losses)
	slices.Reverse(losses)
	return list, losses
}
