package matrix_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

var allModes = []holdfast.Replication{async, acked, strict(1)}

// inOneCluster runs a test in one cluster that clients of all modes share: what
// goes wrong does so for each of them. Everybody has names of his own, which
// live at the first shard.
func inOneCluster(t *testing.T, test func(*redistest.Cluster, []*world), opts ...redistest.Option) {
	t.Parallel()
	c := redistest.StartCluster(t, opts...)
	var ws []*world
	for _, mode := range allModes {
		ws = append(ws, &world{T: t, name: "cluster", url: c.URL(), mode: mode, cluster: c, prefix: tag(0, mode.Mode.String())})
	}
	test(c, ws)
	for _, w := range ws {
		w.leavesNothing()
	}
}

// shardOf is the shard, of three, that a name lives at while no slot has moved.
func shardOf(name string) int { return (3*redistest.SlotOf(name) + 2) / 16384 }

// tag returns a hash tag that lives at a shard.
func tag(shard int, about string) string {
	for i := 0; ; i++ {
		if name := fmt.Sprint("{", about, i, "}"); shardOf(name) == shard {
			return name
		}
	}
}

// strictly reports whether exclusion is promised across failovers.
func (w *world) strictly() bool { return w.mode.Mode == holdfast.Strict }

// errorf fails the test on behalf of one of several worlds.
func (w *world) errorf(format string, args ...any) {
	w.Helper()
	w.Errorf("%v: "+format, append([]any{w.mode.Mode}, args...)...)
}

// hold takes locks of the world, by suffixes of their names.
func (w *world) hold(c *holdfast.Client, names ...string) []*holdfast.Lease {
	w.Helper()
	var leases []*holdfast.Lease
	for _, name := range names {
		l, err := c.Mutex(w.prefix + name).Lock(w.Context())
		if err != nil {
			w.Fatalf("%v: %v", w.mode.Mode, err)
		}
		leases = append(leases, l)
	}
	return leases
}

// kept says that leases are valid, and gives them back.
func (w *world) kept(leases []*holdfast.Lease) {
	w.Helper()
	for _, l := range leases {
		if !l.Valid() {
			_, why := loss(l, soon)
			w.errorf("the lease on %q was lost: %s", l.Name(), why)
		} else if err := l.Release(w.Context()); err != nil {
			w.errorf("release: %v", err)
		}
	}
}

// renewed says that leases are renewed.
func (w *world) renewed(leases []*holdfast.Lease) {
	w.Helper()
	for _, l := range leases {
		deadline := l.Deadline()
		w.eventually(2*soon, "a renewal", func() bool {
			return !l.Valid() || l.Deadline().After(deadline.Add(100*time.Millisecond))
		})
	}
}

// renewedTwice says that leases are renewed by requests that are sent from now
// on. The first renewal may be the answer to an earlier request.
func (w *world) renewedTwice(leases []*holdfast.Lease) {
	w.Helper()
	w.renewed(leases)
	w.renewed(leases)
}

// soon is how long anything may take, on a busy machine, that waits for nothing.
const soon = 5 * time.Second

func (w *world) eventually(limit time.Duration, what string, cond func() bool) {
	w.Helper()
	begin := time.Now()
	for !cond() {
		if time.Since(begin) > limit {
			w.Fatalf("%v: not within %v: %s", w.mode.Mode, limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// leavesNothing closes the clients and sees that nothing of theirs is left at
// any node: no key but the counters of fenced locks, no subscription.
func (w *world) leavesNothing() {
	w.Helper()
	for _, c := range w.clients {
		if err := c.Close(); err != nil {
			w.errorf("close: %v", err)
		}
	}
	var left []string
	nothing := func() bool {
		left = nil
		for _, s := range w.cluster.Masters() {
			for _, args := range [][]string{{"KEYS", "*" + w.prefix + "*"}, {"PUBSUB", "CHANNELS", "*" + w.prefix + "*"}, {"PUBSUB", "SHARDCHANNELS", "*" + w.prefix + "*"}} {
				reply, err := s.Try(args...)
				if err != nil {
					left = append(left, err.Error())
				}
				list, _ := reply.([]any)
				for _, e := range list {
					if name := fmt.Sprint(e); len(name) < 20 || name[:20] != "redisson_lock_token:" {
						left = append(left, args[0]+" "+name)
					}
				}
			}
		}
		return len(left) == 0
	}
	for end := time.Now().Add(lease + soon); !nothing(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.errorf("left behind: %q", left)
			return
		}
	}
}

// A queue is some who wait for locks, each in a goroutine of his own.
type queue struct {
	w    *world
	wg   sync.WaitGroup
	stop context.CancelFunc

	mu    sync.Mutex
	times []time.Time // when each got his turn
	errs  []error
}

// line has so many wait for a lock, and give it back at once when they get it.
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

// turns is how many had their turn so far.
func (q *queue) turns() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.times)
}

// end waits until everybody had his turn, and says when the last one had it.
func (q *queue) end(within time.Duration) {
	q.w.Helper()
	done := make(chan struct{})
	go func() {
		q.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(within):
		q.w.errorf("only %d had their turn within %v", q.turns(), within)
		q.stop()
		<-done
	}
	for _, err := range q.errs {
		q.w.errorf("somebody who waited: %v", err)
	}
}
