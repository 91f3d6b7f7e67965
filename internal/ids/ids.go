// Package ids takes ids from blocks that the server reserves.
package ids

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A Series returns rising ids from a block. When the block is used up, the call that needs an id
// fetches the next block. There is no background goroutine.
type Series struct {
	e     *engine.Engine
	d     driver.Driver
	wire  *script.IDGenerator
	block atomic.Pointer[currentBlock]
	turn  chan struct{} // full while a call fetches

	// Guarded by turn.
	failed   error // the error of the last fetch, if the server was unavailable
	failedAt time.Duration
}

// A currentBlock is the block from which ids are taken. The number of used ids also counts the
// calls that found none left. A next id instead of this number might overflow.
type currentBlock struct {
	script.Block
	used atomic.Int64
}

// NewSeries returns a series of a client on d that has no block yet.
func NewSeries(e *engine.Engine, d driver.Driver, wire *script.IDGenerator) *Series {
	s := &Series{e: e, d: d, wire: wire, turn: make(chan struct{}, 1)}
	s.block.Store(new(currentBlock))
	return s
}

// Next returns the next id. It asks the server only when it needs a new block.
func (s *Series) Next(ctx context.Context) (int64, error) {
	for {
		if s.e.IsClosing() {
			return 0, engine.ErrClosed
		}
		b := s.block.Load()
		if n := b.used.Add(1); n <= b.Size {
			return b.First + n - 1, nil
		}
		if err := s.fetch(ctx, b); err != nil {
			return 0, err
		}
	}
}

// fetch replaces a block that is used up, unless another call has done so.
func (s *Series) fetch(ctx context.Context, used *currentBlock) error {
	arrived := clock.Now()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.e.Closing():
		return engine.ErrClosed
	}
	defer func() { <-s.turn }()
	switch {
	case s.block.Load() != used:
		return nil
	case s.failed != nil && s.failedAt > arrived && clock.Now()-arrived > time.Second:
		// Another call has failed meanwhile, and this call has waited for longer than a fetch is
		// retried. It must not start its own retries.
		return s.failed
	}
	next := new(currentBlock)
	err := s.e.Ask(ctx, true, func(ctx context.Context) (err error) {
		next.Block, err = s.wire.Fetch(ctx, s.d, used.Block)
		return err
	})
	s.failed, s.failedAt = nil, clock.Now()
	switch {
	case err == nil:
		s.block.Store(next)
	case ctx.Err() == nil && errors.Is(err, engine.ErrUnavailable): // an error of this context would not concern other calls
		s.failed = err
	}
	return err
}
