package sale

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// A Crowd is the size of a sale. The same Crowd makes the same clicks in the same
// order. Their timing depends on the machine.
type Crowd struct {
	Seed   uint64
	Shops  int
	Buyers int
	Stock  int
}

// A Click is one attempt to buy.
type Click struct {
	Buyer int
	Pay   time.Duration // duration of the payment
}

// Times are a hundredth of realistic ones, to keep the demo short.
const (
	quickPay  = 2 * time.Millisecond   // a quick payment takes 1 to 3 times this
	slowPay   = 120 * time.Millisecond // added to slow payments
	slowEvery = 20                     // one payment in slowEvery is slow
	clickGap  = 0.01                   // maximum time to the second click, as a share of the sale
)

// Queues returns the clicks of each shop in order. A buyer clicks up to three
// times in quick succession, each time in another shop.
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
			at += clickGap * r.Float64() * float64(i+1)
		}
	}
	slices.SortStableFunc(all, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	queues := make([][]Click, c.Shops)
	for n := r.IntN(slowEvery); n < len(all); n += slowEvery { // slow payments are spread evenly, so that every sale has some
		all[n].Pay += slowPay + time.Duration(r.Int64N(int64(slowPay/2)))
	}
	for _, a := range all {
		queues[a.shop] = append(queues[a.shop], a.Click)
	}
	return queues
}

// Clicks returns the number of clicks.
func (c Crowd) Clicks() (n int) {
	for _, q := range c.Queues() {
		n += len(q)
	}
	return n
}

// pauseAt returns the number of the order at which a shop pauses. It is small, so
// that at least one shop reaches it and most of the sale follows.
func (c Crowd) pauseAt() int {
	return 1 + rand.New(rand.NewPCG(c.Seed, 1)).IntN(min(3, max(1, min(c.Stock, c.Buyers)/(2*c.Shops))))
}
