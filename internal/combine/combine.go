// Package combine sends calls that are ready at the same moment as one request.
//
// A server spends more time on receiving a call and on starting its script than on its commands. A
// client spends more time on sending a request than on preparing it. Calls of many goroutines can
// share these costs. A [Driver] sends a call at once while few calls and no batches are under way,
// so a few callers do not wait. Others queue. Those that have the same script are sent as one call,
// a batch ([script.Batch]). While two are under way, the next one waits for an answer or more
// calls.
//
// Each call keeps its own reply, error, deadline and cancellation. A call that fails in a batch is
// sent again alone. All scripts can be sent again.
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
	maxDirect  = 16                    // calls under way that are not in a batch; further calls queue
	maxPartial = 2                     // batches under way before the next one must be full: a few large batches cost less than many small ones
	maxFull    = 16                    // batches under way
	stall      = 5 * time.Millisecond  // for which the queue waits for an answer: the server may be far away, or dead
	overtaken  = 50 * time.Millisecond // for which a call whose context is done waits for the answer of its batch
)

// A Driver combines the calls of Do.
type Driver struct {
	driver.Driver

	direct  atomic.Int32 // calls under way that are not in a batch
	batched atomic.Int32 // batches under way
	waiting atomic.Int32 // calls in the queues
	answers atomic.Int64 // how many batches were answered
	watched atomic.Bool  // watch runs
	closed  chan struct{}
	once    sync.Once

	queues map[*driver.Script]*queue // of all scripts that can be batched

	mu    sync.Mutex // guards the queues
	ready []*queue   // those that are not empty; the one that has waited longest comes first

	// Not shared by all drivers: a test with a faked clock may use only its own channels.
	calls   sync.Pool // of *call
	batches sync.Pool // of *batch
}

// New returns a driver that combines calls to d. It returns d if the keys of d are in different
// slots: calls to a cluster can seldom share a script.
func New(d driver.Driver) driver.Driver {
	if d.Place("a").Slot != d.Place("b").Slot {
		return d
	}
	c := &Driver{Driver: d, closed: make(chan struct{}), queues: make(map[*driver.Script]*queue)}
	for _, s := range script.Batched() {
		c.queues[s] = new(queue)
	}
	c.calls.New = func() any { return &call{done: make(chan struct{}, 1)} }
	c.batches.New = func() any { return new(batch) }
	return c
}

// A queue has the calls of one script that wait.
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
	if d.batched.Load() == 0 && d.waiting.Load() == 0 && begin(&d.direct, maxDirect) {
		defer d.direct.Add(-1)
		return d.Driver.Do(ctx, c)
	}
	q := d.queues[c.Script]
	if q == nil {
		return d.Driver.Do(ctx, c)
	}
	e := d.calls.Get().(*call)
	e.Call = c
	d.push(q, e)
	select {
	case <-e.done:
	case <-ctx.Done():
		if err := e.abandon(ctx); err != nil {
			return driver.Reply{}, err
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

// abandon returns the error of a call whose context is done, or nil if the call has its answer. A
// batch that is on its way gets some time for that: a request that undoes the call could overtake
// it. The caller may use the slices of the call again.
func (e *call) abandon(ctx context.Context) error {
	if e.state.CompareAndSwap(queued, abandoned) {
		return driver.Unsent(ctx.Err())
	}
	select {
	case <-e.done:
		return nil
	case <-time.After(overtaken):
	}
	for e.state.Load() == copying {
		runtime.Gosched()
	}
	return driver.Unknown(ctx.Err())
}

// begin adds one to the number of requests under way, unless that would be more than most.
func begin(underWay *atomic.Int32, most int32) bool {
	for {
		n := underWay.Load()
		if n >= most {
			return false
		}
		if underWay.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// most returns how many batches may be under way.
func (d *Driver) most() int32 {
	if d.waiting.Load() < script.MaxBatch {
		return maxPartial
	}
	return maxFull
}

// push adds a call to its queue.
func (d *Driver) push(q *queue, e *call) {
	d.mu.Lock()
	if len(q.calls) == 0 {
		d.ready = append(d.ready, q)
	}
	q.calls = append(q.calls, e)
	d.mu.Unlock()
	d.waiting.Add(1)
	if begin(&d.batched, d.most()) { // all batches may have been answered meanwhile
		go d.run()
	} else if !d.watched.Load() && d.watched.CompareAndSwap(false, true) {
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
	for {
		last := d.answers.Load()
		select {
		case <-time.After(stall):
		case <-d.closed:
			return
		}
		if d.waiting.Load() > 0 {
			if d.answers.Load() == last {
				d.batched.Add(1)
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

// run sends batches until nothing waits, or until more batches are under way than needed.
func (d *Driver) run() {
	b := d.batches.Get().(*batch)
	defer d.batches.Put(b)
	for {
		for d.take(b) {
			d.send(b)
			d.answers.Add(1)
			if d.batched.Load() > d.most() {
				break
			}
		}
		d.batched.Add(-1)
		if d.waiting.Load() == 0 || !begin(&d.batched, d.most()) {
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
	n := 1
	for n < min(len(q.calls), script.MaxBatch) && script.Alike(q.calls[0].Call, q.calls[n].Call) {
		n++
	}
	if n == len(q.calls) {
		b.calls, q.calls = q.calls, b.calls[:0]
	} else {
		b.calls = append(b.calls[:0], q.calls[:n]...)
		q.calls = append(q.calls[:0], q.calls[n:]...)
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
