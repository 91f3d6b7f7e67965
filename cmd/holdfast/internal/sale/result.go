package sale

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// A Result is what the books say after a sale.
type Result struct {
	Way     Way
	Crowd   Crowd
	Sold    int // orders
	People  int // who have at least one
	Left    int // coupons, by the books
	Refused int // late writes that the guard has refused

	Took  time.Duration // until the last order
	times []time.Duration

	Paused    int           // the shop that was stopped, from 1; 0: none
	Pause     time.Duration // for so long
	Meanwhile int           // orders at the other shops
}

// Oversold is how many were sold that did not exist.
func (r Result) Oversold() int { return max(0, r.Sold-r.Crowd.Stock) }

// Unsold is how many were not sold although somebody wanted them.
func (r Result) Unsold() int { return max(0, min(r.Crowd.Stock, r.Crowd.Buyers)-r.Sold) }

// Double is how many orders were not the first of a person.
func (r Result) Double() int { return r.Sold - r.People }

// Lost is how many orders have left no trace in the stock.
func (r Result) Lost() int { return r.Sold - (r.Crowd.Stock - r.Left) }

// Spotless reports whether all is as it should be.
func (r Result) Spotless() bool { return r.Faults() == "" }

// Faults says what is wrong, or nothing.
func (r Result) Faults() string {
	var faults []string
	for _, f := range []struct {
		n    int
		what string
	}{{r.Oversold(), "oversold"}, {r.Unsold(), "unsold despite demand"}, {r.Double(), "double orders"}, {r.Lost(), "lost updates"}} {
		if f.n != 0 {
			faults = append(faults, fmt.Sprintf("%d %s", f.n, f.what))
		}
	}
	return strings.Join(faults, ", ")
}

// PerSecond is how many orders there were in a second.
func (r Result) PerSecond() float64 {
	if r.Took <= 0 {
		return 0
	}
	return float64(r.Sold) / r.Took.Seconds()
}

// Quantile is how long the given share of the orders took at most, from the
// click on.
func (r Result) Quantile(q float64) time.Duration {
	if len(r.times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(r.times))
	return sorted[int(math.Ceil(q*float64(len(sorted))))-1]
}

// Why says in a sentence or two why it has come out as it has.
func (r Result) Why() string {
	switch {
	case r.Way.Ours && !r.Spotless():
		return "This must not happen: " + r.Faults() + ". Please report it with this output."
	case r.Spotless() && !r.Way.Ours:
		return "Nothing went wrong this time, by luck. Run it again, or with more coupons and buyers."
	}
	switch r.Way.Name {
	case "none":
		return r.whyNone()
	case "setnx":
		return fmt.Sprintf("SET NX PX, DEL. Some payments take longer than the lock lasts (%d ms). The lock expires, another shop acquires it, and the slow shop then deletes the lock of the other.", SETNXExpiry.Milliseconds())
	case "mutex":
		return "One purchase at a time, including the payment: buyers wait, so there are fewer orders per second. A watchdog renews the lock while its shop runs, however slow the payment is."
	case "paused":
		return r.whyPaused()
	}
	if r.Refused == 0 {
		return "A shop was stopped before its write, but no other shop wrote in the meantime: there was nothing to refuse."
	}
	return fmt.Sprintf("Shop %d was stopped for %.1f s before its write. Each new holder of the lock has a higher token, and the database stores the highest token that it has seen. It refused the late write (%d).", r.Paused, r.Pause.Seconds(), r.Refused)
}

func (r Result) whyNone() string {
	why := "Shops that read the same stock write the same new stock: updates are lost"
	if r.Oversold() > 0 {
		why += ", and more coupons are sold than exist"
	}
	why += "."
	if r.Double() > 0 {
		why += " When one person clicks twice, neither purchase sees the other order."
	}
	return why
}

func (r Result) whyPaused() string {
	after := "so those sales are missing from it"
	if r.Oversold() > 0 {
		after = "and coupons were sold a second time"
	}
	return fmt.Sprintf("Shop %d was stopped for %.1f s between its last check of the lock and its write. Its lease of %g s expired, and the other shops sold %d. Then it wrote the new stock from its old reading, %s. No lock can prevent a write that is already on its way.", r.Paused, r.Pause.Seconds(), r.Way.lease().Seconds(), r.Meanwhile, after)
}
