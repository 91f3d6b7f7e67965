package soak_test

import (
	"maps"
	"time"
)

// Figures say how much happened in a round, or in several.
type figures struct {
	Calls, Grants, Waits int
	Kinds                map[string]int // grants
	Errors               map[string]int // of calls
	Releases             map[string]int // that failed
	Losses               map[string]int // by reason
	Faults               map[string]int
	LongestWait          time.Duration // that ended with a grant
	LongestFree          time.Duration // of what was free, wanted and within reach
	LongestTold          time.Duration // after the deadline of its lease, in a process that ran
	Starved              time.Duration // of all processes, and of the servers
	Stalled              time.Duration // the longest such time
	Memory               int64         // of the masters, after the round
}

func newFigures() figures {
	return figures{Kinds: map[string]int{}, Errors: map[string]int{}, Releases: map[string]int{}, Losses: map[string]int{}, Faults: map[string]int{}}
}

// count counts what happened in a round.
func count(h *history) figures {
	f := newFigures()
	for _, c := range h.calls {
		f.Calls++
		if c.failed > 0 {
			f.Errors[c.err]++
		}
		if c.got > 0 {
			f.Grants++
			f.Kinds[c.want.Kind]++
			wait := time.Duration(c.got - c.began)
			f.LongestWait = max(f.LongestWait, wait)
			if wait > moment {
				f.Waits++
			}
		}
		if c.released > 0 && c.freed != "" {
			f.Releases[c.freed]++
		}
		if c.told > 0 {
			f.Losses[c.reason]++
			if h.stalled(c.process, span{c.deadline, c.told}) == 0 && len(h.stops[c.process]) == 0 {
				f.LongestTold = max(f.LongestTold, time.Duration(c.told-c.deadline))
			}
		}
	}
	for _, r := range h.faults {
		f.Faults[r.Text]++
	}
	f.Faults["worker killed"] += len(h.killed)
	for _, stops := range h.stops {
		f.Faults["worker stopped"] += len(stops)
	}
	for _, stalls := range h.stalls {
		for _, s := range stalls {
			f.Starved += time.Duration(s.to - s.from)
			f.Stalled = max(f.Stalled, time.Duration(s.to-s.from))
		}
	}
	return f
}

// add adds the figures of another round.
func (f *figures) add(o figures) {
	f.Calls += o.Calls
	f.Grants += o.Grants
	f.Waits += o.Waits
	for to, from := range map[*map[string]int]map[string]int{&f.Kinds: o.Kinds, &f.Errors: o.Errors, &f.Releases: o.Releases, &f.Losses: o.Losses, &f.Faults: o.Faults} {
		for name, n := range maps.All(from) {
			(*to)[name] += n
		}
	}
	f.LongestWait = max(f.LongestWait, o.LongestWait)
	f.LongestFree = max(f.LongestFree, o.LongestFree)
	f.LongestTold = max(f.LongestTold, o.LongestTold)
	f.Starved += o.Starved
	f.Stalled = max(f.Stalled, o.Stalled)
}
