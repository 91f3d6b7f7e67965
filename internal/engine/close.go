package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

func (e *Engine) isClosing() bool {
	select {
	case <-e.closing:
		return true
	default:
		return false
	}
}

// begin notes that a call is under way. It returns ErrClosed if the engine is closed.
func (e *Engine) begin() error {
	if e.active.Add(oneCall)&closedFlag != 0 {
		e.end()
		return ErrClosed
	}
	return nil
}

// end notes that a call has ended.
func (e *Engine) end() {
	if e.active.Add(-oneCall) == closedFlag {
		e.becomeIdle()
	}
}

// becomeIdle notes that the engine is closed and no call is under way.
func (e *Engine) becomeIdle() { e.idleOnce.Do(func() { close(e.idle) }) }

// Engine.active is the number of calls under way in units of oneCall, and a flag.
const (
	closedFlag = 1
	oneCall    = 2
)

// Close ends all waits, tells the users of holds that their leases have ended, frees
// the locks at the server, and ends every goroutine. If a server does not answer, Close
// takes at most twice the limit.
func (e *Engine) Close(limit time.Duration) {
	was := e.active.Or(closedFlag)
	if was&closedFlag != 0 {
		<-e.done
		return
	}
	close(e.closing)
	if was == 0 {
		e.becomeIdle()
	}
	defer close(e.done)

	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	select { // a lock that is being granted now becomes a hold, or is undone
	case <-e.idle:
	case <-ctx.Done():
	}
	watched := e.watchdog.Close() // no lock is granted after this
	calls := e.watchdog.DrainPending()
	for _, c := range watched {
		h := c.Handler.(*Hold)
		h.Lost(watchdog.Closed)
		calls = append(calls, h.endCall())
	}
	var wg sync.WaitGroup
	wg.Go(e.withdrawAnnouncement)
	e.free(limit, calls)
	wg.Wait()
	e.unwatch()
	e.hub.Close()
}

// free runs calls that free locks, the calls of each node in one goroutine. It logs the
// locks that it could not free.
func (e *Engine) free(limit time.Duration, calls []driver.Call) {
	nodes := make(map[string][]driver.Call)
	for _, c := range calls {
		node := e.d.Place(c.Keys[0]).Node
		nodes[node] = append(nodes[node], c)
	}
	var wg sync.WaitGroup
	for _, calls := range nodes {
		wg.Go(func() {
			if left, err := e.freeAll(limit, calls); len(left) > 0 {
				e.o.Log.Warn("could not free locks, they will expire", "locks", len(left), "keys", firstKeys(left), "error", err)
			}
		})
	}
	wg.Wait()
}

// firstKeys returns the keys of some calls, for the log.
func firstKeys(calls []driver.Call) []string {
	var keys []string
	for _, c := range calls[:min(len(calls), 10)] {
		keys = append(keys, c.Keys[0])
	}
	return keys
}

// freeAll runs calls of one node in pipelines. It repeats the calls that fail until the
// limit is over. It returns the calls that have not succeeded, and the error of one of
// them.
func (e *Engine) freeAll(limit time.Duration, calls []driver.Call) (left []driver.Call, err error) {
	start := clock.Early()
	rest := limit
	var out outage
	for {
		var again []driver.Call
		var why error
		for some := range slices.Chunk(calls, 500) {
			if why != nil && driver.CodeOf(why) == "" { // the node does not answer
				again = append(again, some...)
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), rest)
			for i, r := range e.d.DoMany(ctx, some) {
				switch {
				case r.Err == nil || driver.CodeOf(r.Err) == "WRONGTYPE": // freed, or the key is no longer a lock
				case driver.ClassOf(r.Err) == driver.Fatal:
					left, err = append(left, some[i]), r.Err
				default:
					again, why = append(again, some[i]), r.Err
				}
			}
			cancel()
		}
		if len(again) == 0 {
			return left, err
		}
		if out.note(why, start) >= limit {
			return append(left, again...), why
		}
		time.Sleep(out.pause())
		rest = max(limit-(clock.Early()-start), time.Millisecond)
		calls = again
	}
}
