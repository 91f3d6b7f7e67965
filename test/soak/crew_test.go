package soak_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A crew is the worker processes of a round.
type crew struct {
	tb    testing.TB
	rec   *recorder
	job   job // of each, but for its process, URL and seed
	url   func(worker int) string
	seed  uint64
	lives []int
	procs []*redistest.Process
	calm  atomic.Bool // no worker is harmed
}

func newCrew(tb testing.TB, rec *recorder, j job, g *rig, seed uint64) *crew {
	c := &crew{tb: tb, rec: rec, job: j, url: g.url, seed: seed, lives: make([]int, workers), procs: make([]*redistest.Process, workers)}
	for i := range workers {
		c.start(i)
	}
	return c
}

func (c *crew) name(i int) string { return fmt.Sprintf("%d.%d", i, c.lives[i]) }

// start starts a life of a worker.
func (c *crew) start(i int) {
	c.lives[i]++
	j := c.job
	j.Process, j.URL, j.Seed = c.name(i), c.url(i), c.seed+uint64(1000*c.lives[i]+i)
	p := redistest.Worker(c.tb, "soak", j.env())
	c.procs[i] = p
	go func() {
		for range p.Lines() { // so that it never blocks
		}
	}()
}

// harm kills and stops workers until ctx is done, except in calm times.
func (c *crew) harm(ctx context.Context, r *rand.Rand) {
	for {
		pause, i, kills, length := between(r, time.Second, 8*time.Second), r.IntN(workers), r.IntN(2) == 0, between(r, 0, 8*time.Second)
		for rest(ctx.Done(), pause); c.calm.Load() && ctx.Err() == nil; {
			rest(ctx.Done(), time.Second)
		}
		if ctx.Err() != nil {
			return
		}
		if kills {
			c.procs[i].Kill()
			c.rec.add(record{Event: evKill, Process: c.name(i)})
			rest(ctx.Done(), length/4)
			c.start(i)
			continue
		}
		c.procs[i].Pause()
		from := redistest.Now()
		rest(ctx.Done(), length)
		c.procs[i].Resume()
		c.rec.add(record{At: from, Event: evStop, Process: c.name(i), To: redistest.Now()})
	}
}

// end tells all workers to end. One that does not is killed, and recorded.
func (c *crew) end() {
	var all sync.WaitGroup
	for i, p := range c.procs {
		p.Send("end")
		all.Go(func() {
			const limit = time.Minute
			ended := make(chan error, 1)
			go func() { ended <- p.Wait() }()
			if err, ok := locktest.Receive(ended, limit); !ok {
				c.rec.add(record{Event: evLeak, Text: fmt.Sprintf("process %s does not end within %v", c.name(i), limit)})
				p.Kill()
			} else if err != nil {
				c.rec.add(record{Event: evLeak, Text: fmt.Sprintf("process %s: %v", c.name(i), err)})
			}
		})
	}
	all.Wait()
}
