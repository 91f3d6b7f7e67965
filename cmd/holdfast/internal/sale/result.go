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
	}{{r.Oversold(), "oversold"}, {r.Unsold(), "not sold although somebody wanted them"}, {r.Double(), "double orders"}, {r.Lost(), "lost updates"}} {
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
		return "This must not happen: " + r.Faults() + ". Please report it, with all that is printed here."
	case r.Spotless() && !r.Way.Ours:
		return "Nothing went wrong on this machine this time, by luck. Run it again, or with more coupons and buyers."
	}
	switch r.Way.Name {
	case "none":
		return r.whyNone()
	case "setnx":
		return fmt.Sprintf("SET NX PX, DEL. Some payments take longer than the lock lasts, %d ms here: it expires, another shop enters, and the late one deletes that one's lock.", SETNXExpiry.Milliseconds())
	case "mutex":
		return "One purchase at a time, payment and all: buyers wait, and fewer orders fit into a second. However slow the bank is, a watchdog renews the lock while its shop lives."
	case "paused":
		return r.whyPaused()
	}
	if r.Refused == 0 {
		return "A shop was stopped before its write, but nobody has overtaken it: there was nothing to refuse."
	}
	return fmt.Sprintf("Shop %d was stopped before its write for %.1f s. But here the database remembers the highest token that it was shown, and each new holder of the lock has a higher one: it refused the late write (%d).", r.Paused, r.Pause.Seconds(), r.Refused)
}

func (r Result) whyNone() string {
	why := "Shops that read the same stock write the same rest: updates are lost"
	if r.Oversold() > 0 {
		why += ", and more is sold than there was"
	}
	why += "."
	if r.Double() > 0 {
		why += " Of two clicks of one person, neither sees the other's order."
	}
	return why
}

func (r Result) whyPaused() string {
	after := "as if those were still there"
	if r.Oversold() > 0 {
		after = "and coupons were sold again"
	}
	return fmt.Sprintf("Shop %d was stopped for %.1f s between its last check of the lock and its write. Its lease of %g s ran out, and the others sold %d. Then it wrote the stock that it had read before, %s. No lock can call back a write.", r.Paused, r.Pause.Seconds(), r.Way.lease().Seconds(), r.Meanwhile, after)
}
