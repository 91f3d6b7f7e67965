package holdfast

import (
	"context"
	"math"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

// An IDGenerator gives out numbers that no other generator by its name gives
// out, in any process. It is what Redisson calls RIdGenerator, and shares its
// numbers with it. Make one and keep it: unlike other things with a name, it holds
// something, the ids that it will give out next.
//
// It reserves a block of ids at the server, 5000 unless [IDGenerator.TryInit]
// says otherwise, and gives them out from memory: in a few nanoseconds each,
// with one request per block. What is left of a block when the process ends is
// never given out, so there are gaps; and while the ids of one generator rise,
// those of two processes are not in the order of time. For that, see [TimeID].
//
// # When the server restarts
//
// Ids are unique as long as the server keeps its counter. It keeps it over a
// crash if it appends each write to its file before it answers (appendonly yes,
// appendfsync always). With appendfsync everysec, with snapshots only, or if a
// replica takes over that had not got the latest writes, the blocks that were
// reserved last may be given out a second time. A server without persistence
// starts again at 1.
//
// Whatever the server has lost, an IDGenerator never repeats an id of its own:
// it tells the server with each request how far it has come, and the server's
// counter is lifted to that. It does not know of the blocks of others.
//
// An IDGenerator is safe for concurrent use. [Client.IDGenerator] makes one.
type IDGenerator struct {
	named
	wire *script.IDGenerator
	ids  *engine.Series
}

// IDGenerator returns a generator with that name, which is the key of its
// counter at the server. The rules for names are those of [Client.Mutex].
func (c *Client) IDGenerator(name string) *IDGenerator {
	wire := script.NewIDGenerator(name)
	g := &IDGenerator{newNamed(c, "id generator", name, nil), wire, nil}
	if c.usable() == nil {
		g.ids = c.engine.NewSeries(wire)
	}
	return g
}

// TryInit sets the first id, and how many are reserved at a time, if no id was
// given out yet and nobody has set them. It reports whether it did. Large blocks
// cost fewer requests, and more ids are lost when a process ends.
func (g *IDGenerator) TryInit(ctx context.Context, first, block int64) (bool, error) {
	switch {
	case block < 1 || block > math.MaxInt32:
		return false, g.fail("set up", invalid("the block size is %d: choose between 1 and %d", block, math.MaxInt32))
	case first > math.MaxInt64-block:
		return false, g.fail("set up", invalid("the first id is %d: choose a lower one, so that a block of %d ids fits", first, block))
	}
	return g.decide(ctx, "set up", func(request string) driver.Call { return g.wire.Init(request, first, block) })
}

// Next returns an id, higher than all that this generator has returned before.
//
// While there are ids at hand, it does not wait, and takes no notice of ctx. The
// call that finds none reserves a block, and others wait for it as long as their
// own ctx lets them; if it fails, the next one tries. A server that does not
// answer within a second or two is [ErrUnavailable]. [ErrRefused] also says that
// there are no more numbers of 64 bits.
func (g *IDGenerator) Next(ctx context.Context) (int64, error) {
	err := g.ready(ctx)
	if err == nil {
		var id int64
		if id, err = g.ids.Next(ctx); err == nil {
			return id, nil
		}
	}
	return 0, g.fail("take an id from", err)
}

// Object returns what the server has of the generator as an object. What is left
// of a block stays with the generator. One that is deleted starts again, and
// gives out the same ids.
func (g *IDGenerator) Object() *Object { return g.asObject() }
