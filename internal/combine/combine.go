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
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
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
	waiting  atomic.Int32 // calls in the queue
	answered atomic.Int64 // when a request was last answered while calls were in the queue

	mu         sync.Mutex
	head, tail *call // the queue

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
	c := &Driver{Driver: d}
	c.calls.New = func() any { return &call{done: make(chan struct{}, 1)} }
	c.batches.New = func() any { return new(batch) }
	c.answered.Store(int64(clock.Early()))
	return c
}

// A call is a call in the queue.
type call struct {
	driver.Call
	next  *call
	state state // guarded by Driver.mu

	// The result.
	reply driver.Reply
	err   error
	alone bool // it must be sent alone
	done  chan struct{}
}

// A state says what has become of a call.
type state uint8

const (
	queued state = iota
	sent
	abandoned // before it was sent
)

// Do runs one script.
func (d *Driver) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	if d.waiting.Load() == 0 && d.begin() {
		defer d.end()
		return d.Driver.Do(ctx, c)
	}
	if !script.CanBatch(c, c) {
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
			return driver.Reply{}, d.abandon(ctx, e)
		}
	}
	reply, err, alone := e.reply, e.err, e.alone
	*e = call{done: e.done}
	d.calls.Put(e)
	if alone {
		return d.Driver.Do(ctx, c)
	}
	return reply, err
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

// end counts one request less, and sends what is in the queue.
func (d *Driver) end() {
	d.underWay.Add(-1)
	if d.waiting.Load() > 0 {
		d.answered.Store(int64(clock.Early()))
		d.start()
	}
}

// start sends what is in the queue, unless too many requests are under way. It reports
// whether it did.
func (d *Driver) start() bool {
	if !d.begin() {
		return false
	}
	go d.run()
	return true
}

// push adds a call to the queue.
func (d *Driver) push(e *call) {
	d.mu.Lock()
	if d.tail == nil {
		d.head = e
	} else {
		d.tail.next = e
	}
	d.tail = e
	d.waiting.Add(1)
	d.mu.Unlock()
	if d.start() { // all requests may have been answered meanwhile
		return
	}
	now := int64(clock.Early())
	if last := d.answered.Load(); now-last > int64(stall) && d.answered.CompareAndSwap(last, now) {
		d.underWay.Add(1)
		go d.run()
	}
}

// abandon returns the error of a call whose context is done.
func (d *Driver) abandon(ctx context.Context, e *call) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.state == sent {
		return driver.Unknown(ctx.Err())
	}
	e.state, e.Call = abandoned, driver.Call{}
	return driver.Unsent(ctx.Err())
}

// run sends batches until the queue is empty.
func (d *Driver) run() {
	b := d.batches.Get().(*batch)
	defer d.batches.Put(b)
	for {
		for call, ok := d.take(b); ok; call, ok = d.take(b) {
			d.send(b, call)
			d.answered.Store(int64(clock.Early()))
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

// take moves the first call in the queue, and others that can be in one batch with it, to
// b, and returns the call to send. It returns false if the queue is empty.
func (d *Driver) take(b *batch) (driver.Call, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var last *call // that stays in the queue
	next := &d.head
	for *next != nil && len(b.calls) < script.MaxBatch {
		e := *next
		switch {
		case e.state == abandoned:
		case len(b.calls) > 0 && !script.CanBatch(b.calls[0].Call, e.Call):
			last, next = e, &e.next
			continue
		default:
			e.state = sent
			b.Add(e.Call)
			b.calls = append(b.calls, e)
		}
		*next, e.next = e.next, nil
		d.waiting.Add(-1)
		if d.tail == e {
			d.tail = last
		}
	}
	if len(b.calls) == 0 {
		return driver.Call{}, false
	}
	return b.Call(), true // while no caller can return and use the slices again
}

// send sends a batch. Each of its calls gets its own result.
func (d *Driver) send(b *batch, call driver.Call) {
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
	b.calls = b.calls[:0]
	b.Reset()
}
