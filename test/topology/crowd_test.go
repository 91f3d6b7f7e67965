package topology_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A crowd is some clients that contend for a few names during a fault. It
// records which client held which name from when to when.
type crowd struct {
	w      *world
	names  []string
	stop   context.CancelFunc
	wg     sync.WaitGroup
	record bytes.Buffer
	rec    *redistest.Recorder

	mu     sync.Mutex
	grants []grant
	errs   []error
}

// A grant is a token, and when the lease was asked for and granted.
type grant struct {
	name         string
	token        int64
	asked, given int64
}

// crowd starts some clients on some names, each with two goroutines.
func (w *world) crowd(clients, names int) *crowd {
	ctx, stop := context.WithCancel(context.Background())
	c := &crowd{w: w, stop: stop}
	c.rec = redistest.NewRecorder(&c.record)
	for i := range names {
		c.names = append(c.names, fmt.Sprint(w.prefix, "crowd-", i))
	}
	w.Cleanup(stop)
	for range clients {
		client := w.open(func(o *holdfast.Options) { o.RetryTimeout = 300 * time.Millisecond })
		for range 2 {
			c.wg.Go(func() {
				for ctx.Err() == nil {
					c.once(ctx, client)
				}
			})
		}
	}
	return c
}

func (c *crowd) once(ctx context.Context, client *holdfast.Client) {
	name := c.names[rand.IntN(len(c.names))]
	asked := redistest.Now()
	l, err := client.Mutex(name).Lock(ctx)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, holdfast.ErrUnavailable) {
			c.mu.Lock()
			c.errs = append(c.errs, err)
			c.mu.Unlock()
		}
		return
	}
	g := grant{name, l.Token(), asked, redistest.Now()}
	iv := locktest.Stay(l, rand.N(20*time.Millisecond))
	if iv.Enter != 0 {
		c.rec.Record(iv)
		c.mu.Lock()
		c.grants = append(c.grants, g)
		c.mu.Unlock()
	}
	_ = l.Release(ctx) // a loss is no error here
}

// granted returns how many leases were granted so far.
func (c *crowd) granted() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.grants)
}

// grantedAfter returns how many leases were granted after a moment.
func (c *crowd) grantedAfter(moment int64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, g := range c.grants {
		if g.given > moment {
			n++
		}
	}
	return n
}

// await waits until that many more leases were granted.
func (c *crowd) await(more int) time.Duration {
	c.w.Helper()
	start, want := time.Now(), c.granted()+more
	c.w.eventually(40*time.Second, fmt.Sprint(more, " leases are granted"), func() bool { return c.granted() >= want })
	return time.Since(start)
}

// end stops the crowd and checks the promises: no call failed with another error
// than ErrUnavailable; if exclusive, no two held a name at once (P1); tokens rise
// in the order of the grants (P3).
func (c *crowd) end(exclusive bool) {
	c.w.Helper()
	c.stop()
	c.wg.Wait()
	for i, err := range c.errs {
		if i < 5 {
			c.w.errorf("a lock failed: %v", err)
		}
	}
	if exclusive {
		if err := c.overlap(); err != nil {
			c.w.errorf("%v", err)
		}
	}
	if err := c.disorder(); err != nil {
		c.w.errorf("%v", err)
	}
}

// overlap returns an error if two held a name at once.
func (c *crowd) overlap() error {
	ivs, err := redistest.ReadIntervals(bytes.NewReader(c.record.Bytes()))
	if err != nil {
		return err
	}
	return redistest.CheckExclusive(ivs)
}

// clockError is how far the wall clocks that two servers read may be apart, and
// set back, on one machine. Tokens that come from them can be no better.
const clockError = 20 * time.Millisecond

// disorder returns an error if a lease that was asked for after another had been
// granted has a lower token.
func (c *crowd) disorder() error {
	byName := make(map[string][]grant)
	for _, g := range c.grants {
		byName[g.name] = append(byName[g.name], g)
	}
	for _, gs := range byName {
		slices.SortFunc(gs, func(a, b grant) int { return cmp.Compare(a.token, b.token) })
		for i := 1; i < len(gs); i++ {
			if gs[i].token == gs[i-1].token || gs[i].given+clockError.Nanoseconds() < gs[i-1].asked {
				return fmt.Errorf("tokens of %q out of order: %+v and %+v", gs[i].name, gs[i-1], gs[i])
			}
		}
	}
	return nil
}

// crowds starts a crowd on two names in each world.
func (f fleet) crowds(clients int) crowds {
	var cs crowds
	for _, w := range f {
		cs = append(cs, w.crowd(clients, 2))
	}
	return cs
}

type crowds []*crowd

// await waits until each crowd has been granted that many more leases.
func (cs crowds) await(more int) {
	for _, c := range cs {
		c.w.Helper()
		c.await(more)
	}
}

// end checks the promises that all modes make without a failover.
func (cs crowds) end() {
	for _, c := range cs {
		c.w.Helper()
		c.end(true)
	}
}

// endAfterFailover checks the promises that hold across a failover: exclusion is
// one of them in mode Strict only.
func (cs crowds) endAfterFailover() {
	for _, c := range cs {
		c.w.Helper()
		c.end(c.w.strictly())
	}
}

// A queue is some goroutines that each wait for a lock.
type queue struct {
	w    *world
	wg   sync.WaitGroup
	stop context.CancelFunc

	mu    sync.Mutex
	times []time.Time // when each was granted its lock
	errs  []error
}

// line starts a goroutine for each lock, which waits for the lock and releases
// it at once.
func (w *world) line(lockers ...holdfast.Locker) *queue {
	ctx, stop := context.WithCancel(context.Background())
	w.Cleanup(stop)
	q := &queue{w: w, stop: stop}
	for _, m := range lockers {
		q.wg.Go(func() {
			l, err := m.Lock(ctx)
			at := time.Now()
			if err == nil {
				if err = l.Release(ctx); errors.Is(err, holdfast.ErrLost) {
					err = nil
				}
			}
			q.mu.Lock()
			defer q.mu.Unlock()
			if err != nil {
				q.errs = append(q.errs, err)
			} else {
				q.times = append(q.times, at)
			}
		})
	}
	return q
}

// turns returns how many were granted their lock so far.
func (q *queue) turns() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.times)
}

// end waits until all were granted their lock.
func (q *queue) end(within time.Duration) {
	q.w.Helper()
	done := make(chan struct{})
	go func() {
		q.wg.Wait()
		close(done)
	}()
	if _, ok := locktest.Receive(done, within); !ok {
		q.w.errorf("only %d waiters were granted their lock within %v", q.turns(), within)
		q.stop()
		<-done
	}
	for _, err := range q.errs {
		q.w.errorf("a waiter failed: %v", err)
	}
}
