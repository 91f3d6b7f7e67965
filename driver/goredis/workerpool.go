package goredis

import (
	"context"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
)

// A workerPool runs calls in goroutines that the caller need not wait for.
// go-redis observes a context while a call waits for a connection, but not while
// it waits for the answer. Idle goroutines stay for the next call.
type workerPool struct {
	jobs chan func() // unbuffered: an idle goroutine receives the job
	idle atomic.Int32
}

// maxIdle limits the idle goroutines. If more are needed at a time, they end
// after their job.
const maxIdle = 128

func (c *workerPool) run(life context.Context, job func()) {
	select {
	case c.jobs <- job:
	default:
		go c.work(life, job)
	}
}

func (c *workerPool) work(life context.Context, job func()) {
	for {
		job()
		if c.idle.Add(1) > maxIdle {
			c.idle.Add(-1)
			return
		}
		select {
		case job = <-c.jobs:
			c.idle.Add(-1)
		case <-life.Done():
			return
		}
	}
}

// runDetached runs a job in the worker pool. If ctx is done or the driver is
// closed first, it returns failed(err) without waiting for the job.
func runDetached[T any](ctx context.Context, d *Driver, failed func(error) T, job func() T) T {
	if d.life.Err() != nil {
		return failed(&driver.Error{Class: driver.Fatal, Err: driver.ErrClosed})
	}
	if ctx.Err() != nil {
		return failed(driver.Unsent(ctx.Err()))
	}
	ch := make(chan T, 1)
	d.workerPool.run(d.life, func() { ch <- job() })
	select {
	case v := <-ch:
		return v
	case <-ctx.Done():
		return failed(driver.Unknown(ctx.Err()))
	case <-d.life.Done():
		return failed(&driver.Error{Class: driver.Ambiguous, Err: driver.ErrClosed})
	}
}

func same(err error) error { return err }
