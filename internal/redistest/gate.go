package redistest

import (
	"context"
	"sync"
)

// gate lets frames pass or holds them back. The zero gate is open.
type gate struct {
	mu     sync.RWMutex
	opened chan struct{} // closed when the gate opens; nil while it is open
}

// pass runs forward as soon as the gate is open. It gives up when ctx ends.
//
// The gate cannot shut while forward runs, so once shut has returned nothing
// passes any more.
func (g *gate) pass(ctx context.Context, forward func()) {
	for {
		g.mu.RLock()
		opened := g.opened
		if opened == nil {
			defer g.mu.RUnlock()
			forward()
			return
		}
		g.mu.RUnlock()
		select {
		case <-opened:
		case <-ctx.Done():
			return
		}
	}
}

// shut closes the gate and waits for the forward in progress.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
}

// isShut reports whether the gate holds everything back.
func (g *gate) isShut() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.opened != nil
}

// open lets everything pass again.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}
