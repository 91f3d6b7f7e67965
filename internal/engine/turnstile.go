package engine

import (
	"context"
	"slices"
	"sync"
)

// A turnstile is a mutex with a FIFO queue. A caller can also wait for it in a select.
type turnstile struct {
	mu    sync.Mutex
	taken bool
	line  []chan struct{}
}

// Lock waits for its turn.
func (t *turnstile) Lock() {
	if turn := t.queue(); turn != nil {
		<-turn
	}
}

// tryLock reports whether it has got the turn at once.
func (t *turnstile) tryLock() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	free := !t.taken
	t.taken = true
	return free
}

// queue returns nil if the caller has the turn, and otherwise a channel that is closed when
// the turn comes.
func (t *turnstile) queue() chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.taken {
		t.taken = true
		return nil
	}
	turn := make(chan struct{})
	t.line = append(t.line, turn)
	return turn
}

// Unlock gives the turn to the next in the queue.
func (t *turnstile) Unlock() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.line) == 0 {
		t.taken = false
		return
	}
	close(t.line[0])
	t.line = t.line[1:]
}

// enter waits for its turn, at most until ctx is done.
func (t *turnstile) enter(ctx context.Context) error {
	turn := t.queue()
	if turn == nil {
		return nil
	}
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(t.line, turn)
	if i >= 0 {
		t.line = slices.Delete(t.line, i, i+1)
	}
	t.mu.Unlock()
	if i < 0 { // the turn came at the same time
		t.Unlock()
	}
	return ctx.Err()
}
