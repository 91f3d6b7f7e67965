package engine

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
	announceAfter = time.Second       // from the first lock of a client until it says who it is
	announceEvery = 200 * time.Second // between two announcements: there may be many clients
	announceFor   = 3 * announceEvery // for which the server keeps one
	announceRetry = 10 * time.Second  // between two attempts while the server is unavailable
)

// An announcer tells the server what the client says about itself, for operators.
type announcer struct {
	begun   [2]atomic.Bool // because of a wait, and because of a lock
	mu      sync.Mutex
	timer   *time.Timer
	wg      sync.WaitGroup
	known   bool // the server may have it
	refused bool // by the server: the user lacks the right
}

// announce begins to announce the client, with its first lock or its first wait.
func (e *Engine) announce(holds bool) {
	begun := &e.announcer.begun[boolInt(holds)]
	if e.o.Client == nil || begun.Load() || begun.Swap(true) {
		return
	}
	switch {
	case holds:
		e.announceIn(announceAfter)
	case !e.announcer.begun[1].Load():
		e.announceIn(announceAfter + clock.Random(announceEvery)) // many clients may begin to wait at the same time
	}
}

// announceIn announces the client after that time, instead of at the time that was planned.
func (e *Engine) announceIn(d time.Duration) {
	a := &e.announcer
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.IsClosing() || a.refused {
		return
	}
	if a.timer != nil && a.timer.Stop() {
		a.wg.Done()
	}
	a.wg.Add(1)
	a.timer = time.AfterFunc(d, func() {
		defer a.wg.Done()
		e.announceNow()
	})
}

// announceNow announces the client, and plans the next time.
func (e *Engine) announceNow() {
	a := &e.announcer
	ctx, cancel := context.WithTimeout(e.life.ctx, answerTime)
	defer cancel()
	a.mu.Lock()
	a.known = true
	a.mu.Unlock()
	_, err := e.d.Do(ctx, e.o.Client.Announce(e.owners.id, announceFor))
	switch {
	case err == nil:
		e.announceIn(announceEvery - announceEvery/8 + clock.Random(announceEvery/4))
	case driver.ClassOf(err) == driver.Fatal:
		a.mu.Lock()
		a.refused = true
		a.mu.Unlock()
		if !e.IsClosing() {
			e.o.Log.Info("cannot tell the server who this client is; operators will see only its id", "error", err)
		}
	default:
		e.announceIn(announceRetry)
	}
}

// withdrawAnnouncement ends the announcements, and asks the server once to forget the client.
func (e *Engine) withdrawAnnouncement() {
	a := &e.announcer
	a.mu.Lock()
	if a.timer != nil && a.timer.Stop() {
		a.wg.Done()
	}
	a.mu.Unlock()
	a.wg.Wait()
	if a.known {
		ctx, cancel := context.WithTimeout(context.Background(), withdrawTime)
		defer cancel()
		_, _ = e.d.Do(ctx, script.Withdraw(e.owners.id)) // otherwise it expires
	}
}
