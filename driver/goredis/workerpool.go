package goredis

import (
	"context"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
)

// go-redis minds a context while a call waits for a connection, but not while
// it waits for the answer. So calls run in goroutines that the caller can leave
// behind: those of a workerPool, which stay for the next call.
type workerPool struct {
	jobs chan func() // unbuffered: somebody idle takes it
	idle atomic.Int32
}

// maxIdle is how many goroutines wait for work. More than that run at times,
// and end.
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

// aside runs a job that may take longer than ctx, or than the driver. If it
// does, failed says what that means.
func aside[T any](ctx context.Context, d *Driver, failed func(error) T, job func() T) T {
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
