// Package combine sends calls that are ready at the same moment as one request.
//
// A server spends more time on receiving a call and on starting its script than on its
// commands, and so does a client. If many goroutines use many names, their calls can
// share that. A [Driver] sends a call at once while few calls are under way. So a lone
// caller does not wait, and neither do a few. Other calls queue. When a call has
// returned, the calls in the queue that have the same script are sent as one call
// ([script.Batch]).
//
// Each call keeps its own reply, error, deadline and cancellation. A call that fails in a
// batch is sent again alone. All scripts can be sent again.
package combine

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

const (
	// maxUnderWay is how many requests are under way before calls queue. A call waits in the
	// queue until the next answer, which is about this part of the time of a request.
	maxUnderWay = 16

	// stall is after which time without an answer the queue does not wait any longer. The
	// server may be far away, or the requests under way may be those of a dead server.
	stall = 5 * time.Millisecond
)

// A Driver combines the calls of Do.
type Driver struct {
	driver.Driver

	underWay atomic.Int32 // requests
	waiting  atomic.Int32 // calls in the queues
	answers  atomic.Int64 // how many requests were answered while calls were waiting
	watched  atomic.Bool  // watch runs
	closed   chan struct{}
	once     sync.Once

	mu     sync.Mutex
	queues map[shape]*queue
	ready  []*queue // those that are not empty; the one that has waited longest comes first

	// Not shared by all drivers: a test with a faked clock may use only its own channels.
	calls   sync.Pool // of *call
	batches sync.Pool // of *batch
}

// New returns a driver that combines calls to d. It returns d if the keys of d are in
// different slots: calls to a cluster can seldom share a script.
func New(d driver.Driver) driver.Driver {
	if d.Place("a").Slot != d.Place("b").Slot {
		return d
	}
	c := &Driver{Driver: d, closed: make(chan struct{}), queues: make(map[shape]*queue)}
	c.calls.New = func() any { return &call{done: make(chan struct{}, 1)} }
	c.batches.New = func() any { return new(batch) }
	return c
}

// A shape is what calls of one batch have in common.
type shape struct {
	script     *driver.Script
	keys, args int
}

// A queue has the calls of one shape that wait.
type queue struct{ calls []*call }

// A call is a call in a queue.
type call struct {
	driver.Call
	state atomic.Int32

	// The result.
	reply driver.Reply
	err   error
	alone bool // it must be sent alone
	done  chan struct{}
}

// The states of a call.
const (
	queued    = iota
	abandoned // its context ended before it was sent
	copying   // it is being added to a batch
	sent
)

// Do runs one script.
func (d *Driver) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	if d.waiting.Load() == 0 && d.begin() {
		defer d.end()
		return d.Driver.Do(ctx, c)
	}
	if !script.CanBatch(c) {
		return d.Driver.Do(ctx, c)
	}
	e := d.calls.Get().(*call)
	e.Call = c
	d.push(e)
	if over := ctx.Done(); over == nil {
		<-e.done
	} else {
		select {
		case <-e.done:
		case <-over:
			return driver.Reply{}, e.abandon(ctx)
		}
	}
	reply, err, alone := e.reply, e.err, e.alone
	e.Call, e.reply, e.err, e.alone = driver.Call{}, driver.Reply{}, nil, false
	e.state.Store(queued)
	d.calls.Put(e)
	if alone {
		return d.Driver.Do(ctx, c)
	}
	return reply, err
}

// abandon returns the error of a call whose context is done. The caller may use the slices
// of the call again.
func (e *call) abandon(ctx context.Context) error {
	if e.state.CompareAndSwap(queued, abandoned) {
		return driver.Unsent(ctx.Err())
	}
	for e.state.Load() == copying {
		runtime.Gosched()
	}
	return driver.Unknown(ctx.Err())
}

// begin counts one more request, unless too many are under way.
func (d *Driver) begin() bool {
	for {
		n := d.underWay.Load()
		if n >= maxUnderWay {
			return false
		}
		if d.underWay.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// end counts one request less, and sends what waits.
func (d *Driver) end() {
	d.underWay.Add(-1)
	if d.waiting.Load() > 0 {
		d.answers.Add(1)
		d.start()
	}
}

// start sends what waits, unless too many requests are under way. It reports whether it did.
func (d *Driver) start() bool {
	if !d.begin() {
		return false
	}
	go d.run()
	return true
}

// push adds a call to its queue.
func (d *Driver) push(e *call) {
	s := shape{e.Script, len(e.Keys), len(e.Args)}
	d.mu.Lock()
	q := d.queues[s]
	if q == nil {
		q = new(queue)
		d.queues[s] = q
	}
	if len(q.calls) == 0 {
		d.ready = append(d.ready, q)
	}
	q.calls = append(q.calls, e)
	d.mu.Unlock()
	d.waiting.Add(1)
	if !d.start() && !d.watched.Load() && d.watched.CompareAndSwap(false, true) { // all requests may have been answered meanwhile
		go d.watch()
	}
}

// Close closes the driver.
func (d *Driver) Close() error {
	d.once.Do(func() { close(d.closed) })
	return d.Driver.Close()
}

// watch sends what waits if no request is answered. It ends when nothing waits.
func (d *Driver) watch() {
	ticker := time.NewTicker(stall)
	defer ticker.Stop()
	for {
		last := d.answers.Load()
		select {
		case <-ticker.C:
		case <-d.closed:
			return
		}
		if d.waiting.Load() > 0 {
			if d.answers.Load() == last {
				d.underWay.Add(1)
				go d.run()
			}
			continue
		}
		d.watched.Store(false)
		if d.waiting.Load() == 0 || !d.watched.CompareAndSwap(false, true) {
			return
		}
	}
}

// run sends batches until nothing waits.
func (d *Driver) run() {
	b := d.batches.Get().(*batch)
	defer d.batches.Put(b)
	for {
		for d.take(b) {
			d.send(b)
			d.answers.Add(1)
		}
		d.underWay.Add(-1)
		if d.waiting.Load() == 0 || !d.begin() {
			return
		}
	}
}

// A batch is calls that are sent as one.
type batch struct {
	script.Batch
	calls []*call
}

// take moves the calls of the first queue to b. It returns false if nothing waits.
func (d *Driver) take(b *batch) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.ready) == 0 {
		return false
	}
	q := d.ready[0]
	d.ready = append(d.ready[:0], d.ready[1:]...)
	if len(q.calls) <= script.MaxBatch {
		b.calls, q.calls = q.calls, b.calls[:0]
	} else {
		b.calls = append(b.calls[:0], q.calls[:script.MaxBatch]...)
		q.calls = append(q.calls[:0], q.calls[script.MaxBatch:]...)
		d.ready = append(d.ready, q)
	}
	d.waiting.Add(-int32(len(b.calls)))
	return true
}

// send sends a batch. Each of its calls gets its own result.
func (d *Driver) send(b *batch) {
	b.calls = slices.DeleteFunc(b.calls, func(e *call) bool { return !e.state.CompareAndSwap(queued, copying) })
	if len(b.calls) == 0 {
		return
	}
	for _, e := range b.calls {
		b.Add(e.Call)
	}
	call := b.Call()
	for _, e := range b.calls {
		e.state.Store(sent)
	}
	reply, err := d.Driver.Do(context.Background(), call)
	if err == nil {
		err = b.Decode(reply, func(i int, reply driver.Reply, failed bool) {
			b.calls[i].reply, b.calls[i].alone = reply, failed
		})
	}
	for _, e := range b.calls {
		if err != nil {
			// If the server has refused the batch, this may be because of one of its keys.
			e.err, e.alone = err, driver.CodeOf(err) != ""
		}
		e.done <- struct{}{}
	}
	clear(b.calls)
	b.Reset()
}
