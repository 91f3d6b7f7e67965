package engine

import "sync"

// A turnstile is a mutex that serves first come, first served, and that can be
// waited for beside other things.
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

// queue returns nil if it has the turn, and otherwise what tells when.
func (t *turnstile) queue() <-chan struct{} {
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

// Unlock gives the turn to the next.
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
