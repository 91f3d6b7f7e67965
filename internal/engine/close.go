package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// A life is the state of an engine from New to the end of Close.
type life struct {
	active   atomic.Int64  // calls under way: see closedFlag
	closing  chan struct{} // closed when Close begins
	idle     chan struct{} // closed when closing and no call is under way
	idleOnce sync.Once
	done     chan struct{} // closed when Close ends
	unwatch  func()        // stops the calls of Watchdog.Suspect
}

// Closing returns a channel that is closed when Close begins.
func (e *Engine) Closing() <-chan struct{} { return e.life.closing }

func (e *Engine) isClosing() bool {
	select {
	case <-e.life.closing:
		return true
	default:
		return false
	}
}

// begin notes that a call is under way. It returns ErrClosed if the engine is closed.
func (e *Engine) begin() error {
	if e.life.active.Add(oneCall)&closedFlag != 0 {
		e.end()
		return ErrClosed
	}
	return nil
}

// end notes that a call has ended.
func (e *Engine) end() {
	if e.life.active.Add(-oneCall) == closedFlag {
		e.becomeIdle()
	}
}

// becomeIdle notes that the engine is closed and no call is under way.
func (e *Engine) becomeIdle() { e.life.idleOnce.Do(func() { close(e.life.idle) }) }

// The number of active calls is the number of calls under way in units of oneCall, and a flag.
const (
	closedFlag = 1
	oneCall    = 2
)

// Close ends all waits, tells the users of holds that their leases have ended, frees
// the locks at the server, and ends every goroutine. If a server does not answer, Close
// takes at most twice the limit.
func (e *Engine) Close(limit time.Duration) {
	was := e.life.active.Or(closedFlag)
	if was&closedFlag != 0 {
		<-e.life.done
		return
	}
	close(e.life.closing)
	if was == 0 {
		e.becomeIdle()
	}
	defer close(e.life.done)

	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	select { // a lock that is being granted now becomes a hold, or is undone
	case <-e.life.idle:
	case <-ctx.Done():
	}
	watched := e.watchdog.Close() // no lock is granted after this
	left := e.settler.Close()
	for _, c := range watched {
		h := c.Handler.(*Hold)
		h.Lost(watchdog.Closed)
		left = append(left, h.ending())
	}
	var wg sync.WaitGroup
	wg.Go(e.withdrawAnnouncement)
	e.free(limit, left)
	wg.Wait()
	e.life.unwatch()
	e.hub.Close()
}
