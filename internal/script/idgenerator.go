package script

import (
	"context"
	"math"

	"github.com/holdfast-go/holdfast/driver"
)

var (
	idGeneratorInit = load("idgenerator_init")
	idGeneratorNext = load("idgenerator_next")
)

// blockSize is Redisson's default number of ids per block.
const blockSize = "5000"

// A Block is a range of ids that no other caller gets. The zero Block is empty.
type Block struct{ First, Size int64 }

// An IDGenerator is the wire format of Redisson's RIdGenerator: the next id and
// the block size.
type IDGenerator struct{ name, size string }

// NewIDGenerator returns the IDGenerator with that name.
func NewIDGenerator(name string) *IDGenerator {
	return &IDGenerator{name, suffixed(name, "allocation")}
}

// Init returns the call that sets the first id and the block size, unless the
// generator has started. The reply says whether it did.
func (g *IDGenerator) Init(request string, first, block int64) driver.Call {
	c := numbered(idGeneratorInit, g.name, request, decimal(first), decimal(block))
	c.Keys = []string{g.name, g.size, c.Keys[1]}
	return c
}

// Fetch reserves a block above the caller's last one.
func (g *IDGenerator) Fetch(ctx context.Context, d driver.Driver, last Block) (Block, error) {
	least := ""
	if last.Size > 0 {
		least = decimal(last.First + last.Size)
	}
	r, err := d.Do(ctx, driver.Call{Script: idGeneratorNext, Keys: []string{g.name, g.size}, Args: []string{least, blockSize}})
	if err != nil {
		return Block{}, err
	}
	if r.Type != driver.List || len(r.List) != 2 {
		return Block{}, unexpected(idGeneratorNext, r)
	}
	var b Block
	if b.First, err = DecodeInt64(r.List[0]); err == nil {
		b.Size, err = DecodeInt64(r.List[1])
	}
	switch {
	case err != nil:
		return Block{}, err
	case b.Size < 1 || b.First > math.MaxInt64-b.Size || last.Size > 0 && b.First < last.First+last.Size:
		return Block{}, unexpected(idGeneratorNext, r)
	}
	return b, nil
}
