package object

import (
	"context"
	"math"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/ids"
	"github.com/holdfast-go/holdfast/internal/script"
)

// An IDGenerator generates numbers that are unique among all generators with the same
// name, in all processes. It shares its counter with RIdGenerator in Redisson. Create
// one and keep it: it has a state, the ids that it has reserved.
//
// It reserves a block of ids on the server, 5000 by default, see [IDGenerator.TryInit],
// with one request. Then it returns these ids from memory, in a few nanoseconds each.
// The unused ids of a block are lost when the process ends, so there are gaps. The ids
// of one generator increase, but ids of different processes are not in the order of
// time: for that, see [TimeID].
//
// # When the server restarts
//
// Ids are unique as long as the server keeps its counter. The counter survives a crash
// if the server writes each change to its file before it answers (appendonly yes,
// appendfsync always). With appendfsync everysec, with snapshots only, or after the
// promotion of a replica that lacks the latest writes, the blocks that were reserved
// last may be reserved again. A server without persistence starts again at 1.
//
// An IDGenerator never repeats its own ids, whatever the server has lost: each request
// contains the highest reserved id, and the server raises its counter to it. It does
// not know the blocks of other generators.
type IDGenerator struct {
	named
	wire *script.IDGenerator
	ids  *ids.Series
}

// NewIDGenerator returns a generator with the given name.
func NewIDGenerator(client *holdfast.Client, name string) *IDGenerator {
	o := newNamed(client, "id generator", name)
	g := &IDGenerator{o, script.NewIDGenerator(o.inner().Key()), nil}
	if e := o.inner().Engine(); e != nil {
		g.ids = ids.NewSeries(e, o.inner().Combined(), g.wire)
	}
	return g
}

// TryInit sets the first id and the size of a block, if no id was generated yet and
// TryInit was not called before. It reports whether it did. Large blocks need fewer
// requests, but more ids are lost when a process ends.
func (g *IDGenerator) TryInit(ctx context.Context, first, block int64) (bool, error) {
	switch {
	case block < 1 || block > math.MaxInt32:
		return false, g.inner().Fail("set up", invalid("the block size is %d: choose between 1 and %d", block, math.MaxInt32))
	case first > math.MaxInt64-block:
		return false, g.inner().Fail("set up", invalid("the first id is %d: choose a lower one, so that a block of %d ids fits", first, block))
	}
	return g.inner().Decide(ctx, "set up", func(request string) driver.Call { return g.wire.Init(request, first, block) })
}

// Next returns an id that is higher than all ids that this generator has returned
// before.
//
// While the generator has reserved ids, Next returns at once and ignores ctx. Otherwise
// it reserves a new block. Concurrent calls wait for this block, each until its own ctx
// is done. If the request fails, the next waiting call tries again. Next returns
// [holdfast.ErrUnavailable] if the server does not answer within about two seconds, and
// [holdfast.ErrRefused] if the server refuses the request or all 64-bit numbers are
// used.
func (g *IDGenerator) Next(ctx context.Context) (int64, error) {
	err := g.inner().Ready(ctx)
	if err == nil {
		var id int64
		if id, err = g.ids.Next(ctx); err == nil {
			return id, nil
		}
	}
	return 0, g.inner().Fail("take an id from", err)
}

// Object returns the counter on the server as an object. Deleting it does not affect
// the ids that this generator has reserved. Other generators then start again at 1 and
// repeat ids.
func (g *IDGenerator) Object() *Object { return g.asObject() }
