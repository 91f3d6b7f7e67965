package sale

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// A Crowd is how many want what, and how often. The same one clicks in the same
// order every time; only what overlaps with what is up to the machine.
type Crowd struct {
	Seed   uint64
	Shops  int
	Buyers int
	Stock  int
}

// A Click is one attempt to buy.
type Click struct {
	Buyer int
	Pay   time.Duration // how long the bank takes
}

// Times are a hundredth of those in real life, or nobody would want to watch.
const (
	quickPay = 2 * time.Millisecond // to three times that
	slowPay  = 120 * time.Millisecond
	slowEach = 20 // one payment in so many is slow
	patience = 0.01
)

// Queues returns the clicks in front of each shop, in their order. Buyers are
// impatient: they click up to three times, soon after each other, each time at
// another shop.
func (c Crowd) Queues() [][]Click {
	r := rand.New(rand.NewPCG(c.Seed, 0))
	type arrival struct {
		Click
		at   float64
		shop int
	}
	var all []arrival
	for buyer := range c.Buyers {
		at, shop := r.Float64(), r.IntN(c.Shops)
		for i := range 1 + r.IntN(3) {
			pay := quickPay + time.Duration(r.Int64N(int64(2*quickPay)))
			all = append(all, arrival{Click{buyer, pay}, at, (shop + i) % c.Shops})
			at += patience * r.Float64() * float64(i+1)
		}
	}
	slices.SortStableFunc(all, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	queues := make([][]Click, c.Shops)
	for n := r.IntN(slowEach); n < len(all); n += slowEach { // slow banks are spread evenly, so that none of the ways is spared
		all[n].Pay += slowPay + time.Duration(r.Int64N(int64(slowPay/2)))
	}
	for _, a := range all {
		queues[a.shop] = append(queues[a.shop], a.Click)
	}
	return queues
}

// Clicks returns how many there are.
func (c Crowd) Clicks() (n int) {
	for _, q := range c.Queues() {
		n += len(q)
	}
	return n
}

// pauseAt is which of a shop's own orders a pause comes to: an early one, so
// that most of the sale is still ahead, and that one of the shops gets there.
func (c Crowd) pauseAt() int {
	return 1 + rand.New(rand.NewPCG(c.Seed, 1)).IntN(min(3, max(1, min(c.Stock, c.Buyers)/(2*c.Shops))))
}
