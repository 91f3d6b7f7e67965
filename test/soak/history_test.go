package soak_test

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// A span is a time from one instant to another.
type span struct{ from, to int64 }

func (s span) meets(o span) bool { return s.from < o.to && o.from < s.to }

// A call is one call of a worker, as far as it is recorded. A time is 0 if the event did not
// happen.
type call struct {
	process  string
	number   int
	want     want
	began    int64
	failed   int64
	err      string
	got      int64 // the lease was valid then, if valid is not 0
	tokens   []int64
	valid    int64 // the last time at which the lease is known to be valid
	alive    int64 // the last time at which its context was not done
	told     int64
	reason   string
	deadline int64 // when it was told
	released int64
	freed    string // class of the error of the release
}

// A history is what is known of a round.
type history struct {
	calls   []*call          // in the order in which they began
	killed  map[string]int64 // by process
	stops   map[string][]span
	stalls  map[string][]span // of processes; those of servers and the conductor have the name ""
	faults  []record
	leaks   []record
	strange []record // what no call can have recorded
	end     int64
}

// newHistory puts the records of a round together.
func newHistory(records []record) *history {
	h := &history{killed: make(map[string]int64), stops: make(map[string][]span), stalls: make(map[string][]span)}
	slices.SortStableFunc(records, func(a, b record) int { return cmp.Compare(a.At, b.At) })
	type id struct {
		process string
		number  int
	}
	calls := make(map[id]*call)
	for _, r := range records { // evValid and others may be older than a record that follows
		if r.Event == evCall {
			c := &call{process: r.Process, number: r.Call, want: *r.Want, began: r.At}
			calls[id{r.Process, r.Call}] = c
			h.calls = append(h.calls, c)
		}
	}
	for _, r := range records {
		h.end = max(h.end, r.At)
		switch r.Event {
		case evCall:
		case evStall:
			h.stalls[r.Process] = append(h.stalls[r.Process], span{r.At, r.To})
		case evStop:
			h.stops[r.Process] = append(h.stops[r.Process], span{r.At, r.To})
		case evKill:
			h.killed[r.Process] = r.At
		case evFault:
			h.faults = append(h.faults, r)
		case evLeak:
			h.leaks = append(h.leaks, r)
		default:
			if c := calls[id{r.Process, r.Call}]; c == nil || !c.add(r) {
				h.strange = append(h.strange, r)
			}
		}
	}
	return h
}

// add adds what a record says. It reports whether the record belongs to such a call.
func (c *call) add(r record) bool {
	switch {
	case r.Event == evFailed && c.failed == 0 && c.got == 0:
		c.failed, c.err = r.At, r.Text
	case r.Event == evGot && c.failed == 0 && c.got == 0:
		c.got, c.tokens = r.At, r.Tokens
	case r.Event == evValid && c.released == 0:
		c.valid, c.alive = max(c.valid, r.At), max(c.alive, r.To)
	case r.Event == evTold && c.released == 0:
		c.told, c.reason, c.deadline = r.At, r.Text, r.To
	case r.Event == evReleased && c.released == 0 && c.got > 0:
		c.released, c.freed = r.At, r.Text
	default:
		return false
	}
	return true
}

// waits returns the time in which the call waited.
func (h *history) waits(c *call) span {
	end := int64(math.MaxInt64)
	for _, t := range []int64{c.got, c.failed, h.killed[c.process]} {
		if t > 0 {
			end = min(end, t)
		}
	}
	return span{c.began, min(end, h.end)}
}

// longest is the longest lease of any call.
const longest = 4 * time.Second

// holds returns the time in which the call held its locks, or the server may have kept them for
// it. It is empty for a call without a lease.
func (h *history) holds(c *call) span {
	if c.got == 0 {
		return span{}
	}
	lease, end := int64(longest), int64(math.MaxInt64) // it may have been handed over by a call with a longer lease
	switch {
	case c.released > 0 && c.freed == "":
		end = c.released
	case c.released > 0:
		end = c.released + lease
	case h.killed[c.process] > 0:
		end = h.killed[c.process] + lease
	}
	for _, s := range h.stops[c.process] {
		if c.got <= s.from && s.from < end {
			end = min(end, s.from+lease)
		}
	}
	return span{c.got, max(end, c.got+int64(c.want.Keep))}
}

// stalled returns for how long a process, a server or the conductor had no processor in a time.
func (h *history) stalled(process string, in span) time.Duration {
	var spans []span
	for _, s := range slices.Concat(h.stalls[process], h.stalls[""]) {
		if s.meets(in) {
			spans = append(spans, s)
		}
	}
	total := in.to - in.from
	for _, s := range subtract(in, spans) {
		total -= s.to - s.from
	}
	return time.Duration(total)
}

// byName returns calls by the names that they want.
func (h *history) byName(has func(*call) bool) map[string][]*call {
	m := make(map[string][]*call)
	for _, c := range h.calls {
		if has(c) {
			for _, name := range c.want.Names {
				m[name] = append(m[name], c)
			}
		}
	}
	return m
}
