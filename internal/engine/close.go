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
	active     atomic.Int64    // calls under way: see closedFlag
	ctx        context.Context // ends when Close begins
	cancel     func()
	idle       chan struct{} // closed when closing and no call is under way
	becomeIdle func()        // closes idle, once
	done       chan struct{} // closed when Close ends
	unwatch    func()        // stops the calls of Watchdog.Suspect
}

func newLife() *life {
	l := &life{idle: make(chan struct{}), done: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.becomeIdle = sync.OnceFunc(func() { close(l.idle) })
	return l
}

// Closing returns a channel that is closed when Close begins.
func (e *Engine) Closing() <-chan struct{} { return e.life.ctx.Done() }

// IsClosing reports whether Close has begun.
func (e *Engine) IsClosing() bool { return e.life.ctx.Err() != nil }

// begin notes that a call is under way. It returns ErrClosed if the engine is closed.
func (e *Engine) begin() error {
	if e.life.active.Add(oneCall)&closedFlag != 0 {
		e.end()
		return ErrClosed
	}
	return nil
}

func (e *Engine) end() {
	if e.life.active.Add(-oneCall) == closedFlag {
		e.life.becomeIdle()
	}
}

// The bits of life.active: a flag, and the number of calls under way.
const (
	closedFlag = 1
	oneCall    = 2
)

// Close ends all waits, tells the users of holds that their leases have ended, frees the locks at
// the server, and ends every goroutine. Without an answer, it takes at most twice the limit.
func (e *Engine) Close(limit time.Duration) {
	was := e.life.active.Or(closedFlag)
	if was&closedFlag != 0 {
		<-e.life.done
		return
	}
	e.life.cancel()
	if was == 0 {
		e.life.becomeIdle()
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
