package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A Source is where a series gets its blocks from: one that lies above the last.
type Source interface {
	Fetch(ctx context.Context, d driver.Driver, last script.Block) (script.Block, error)
}

// A Series gives out ids that rise, from blocks that it fetches when the last
// one is used up. Whoever finds it so fetches; there is no goroutine for that.
type Series struct {
	e      *Engine
	source Source
	block  atomic.Pointer[stock]
	turn   chan struct{} // full while somebody fetches

	// Guarded by turn.
	failed   error // what the last fetch has met, if it was the server's fault
	failedAt time.Duration
}

// A stock is a block that is being given out. How much of it is used counts on
// when there is nothing left; an id in its place might overflow.
type stock struct {
	script.Block
	used atomic.Int64
}

// NewSeries returns a series that has no block yet.
func (e *Engine) NewSeries(source Source) *Series {
	s := &Series{e: e, source: source, turn: make(chan struct{}, 1)}
	s.block.Store(new(stock))
	return s
}

// Next returns the next id. It waits for the server where a block has to be
// fetched, and not otherwise.
func (s *Series) Next(ctx context.Context) (int64, error) {
	for !s.e.isClosing() {
		b := s.block.Load()
		if n := b.used.Add(1); n <= b.Size {
			return b.First + n - 1, nil
		}
		if err := s.fetch(ctx, b); err != nil {
			return 0, err
		}
	}
	return 0, ErrClosed
}

// fetch replaces a block that is used up, unless somebody else has.
func (s *Series) fetch(ctx context.Context, used *stock) error {
	came := clock.Now()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return gaveUp(ctx.Err(), &outage{}, 0)
	case <-s.e.closing:
		return ErrClosed
	}
	defer func() { <-s.turn }()
	switch {
	case s.block.Load() != used:
		return nil
	case s.failed != nil && s.failedAt > came && clock.Now()-came > time.Second:
		// The server has failed somebody while this one has waited for longer
		// than a question is repeated: it is not to begin afresh.
		return s.failed
	}
	next := new(stock)
	err := s.e.Ask(ctx, true, func(ctx context.Context) (err error) {
		next.Block, err = s.source.Fetch(ctx, s.e.d, used.Block)
		return err
	})
	s.failed, s.failedAt = nil, clock.Now()
	switch {
	case err == nil:
		s.block.Store(next)
	case ctx.Err() == nil && errors.Is(err, ErrUnavailable): // who comes next may have more luck with another context
		s.failed = err
	}
	return err
}
