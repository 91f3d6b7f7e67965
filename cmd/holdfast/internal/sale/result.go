package sale

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// A Result is the outcome of a sale.
type Result struct {
	Way     Way
	Crowd   Crowd
	Sold    int // number of orders
	People  int // number of people with at least one order
	Left    int // stock in the database
	Refused int // number of late writes that the guard refused

	Took  time.Duration   // time until the last order
	times []time.Duration // latencies of the orders

	Paused    int           // number of the stopped shop, from 1; 0: none
	Pause     time.Duration // how long it was stopped
	Meanwhile int           // orders of the other shops during the pause
}

// Oversold returns how many orders exceed the stock.
func (r Result) Oversold() int { return max(0, r.Sold-r.Crowd.Stock) }

// Unsold returns how many coupons were not sold although there was demand.
func (r Result) Unsold() int { return max(0, min(r.Crowd.Stock, r.Crowd.Buyers)-r.Sold) }

// Double returns how many orders were not the first of their buyer.
func (r Result) Double() int { return r.Sold - r.People }

// Lost returns how many orders are missing from the stock.
func (r Result) Lost() int { return r.Sold - (r.Crowd.Stock - r.Left) }

// Spotless reports whether the result has no faults.
func (r Result) Spotless() bool { return r.Faults() == "" }

// Faults lists what is wrong. It returns "" if nothing is.
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

// PerSecond returns the number of orders per second.
func (r Result) PerSecond() float64 {
	if r.Took <= 0 {
		return 0
	}
	return float64(r.Sold) / r.Took.Seconds()
}

// Quantile returns the q-quantile of the time from click to order.
func (r Result) Quantile(q float64) time.Duration {
	if len(r.times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(r.times))
	return sorted[int(math.Ceil(q*float64(len(sorted))))-1]
}

// Why explains the result in a few sentences.
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
