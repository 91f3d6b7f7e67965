package soak_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// judgeExclusion judges P1, P2 and P3 for each name.
func judgeExclusion(h *history) (found []finding) {
	held := h.byName(func(c *call) bool { return c.valid > 0 })
	for _, name := range slices.Sorted(maps.Keys(held)) {
		calls := held[name]
		slices.SortStableFunc(calls, func(a, b *call) int { return cmp.Compare(a.got, b.got) })
		if calls[0].want.Capacity > 0 {
			found = append(found, judgePermits(name, calls)...)
			continue
		}
		found = append(found, judgeAlone(name, calls)...)
		found = append(found, judgeTold(h, name, calls)...)
		found = append(found, judgeTokens(name, calls)...)
	}
	return found
}

// kept returns until when the lock of a call was certainly held.
func (c *call) kept() int64 {
	if c.want.Keep > 0 && c.released > 0 && c.freed == "" && c.told == 0 {
		const rounded = int64(2 * time.Millisecond)
		return max(c.valid, c.began+int64(c.want.Keep)-rounded) // it was granted after it began
	}
	return c.valid
}

// judgeAlone judges that leases are not valid at the same time, unless both are shared. It
// compares each with the one that lasts longest among those that began before.
func judgeAlone(name string, calls []*call) (found []finding) {
	var shared, alone *call
	for _, c := range calls {
		before := alone
		if !c.want.Shared && shared != nil && (before == nil || shared.kept() > before.kept()) {
			before = shared
		}
		if before != nil && c.got < before.kept() {
			found = append(found, finding{"P1", name, c.got, fmt.Sprintf("%v and %v hold it together for %v",
				before, c, time.Duration(min(before.kept(), c.kept())-c.got))})
		}
		last := &alone
		if c.want.Shared {
			last = &shared
		}
		if *last == nil || c.kept() > (*last).kept() {
			*last = c
		}
	}
	return found
}

// judgePermits judges that no more permits are held than there are.
func judgePermits(name string, calls []*call) (found []finding) {
	var holders []*call
	for _, c := range calls {
		holders = slices.DeleteFunc(holders, func(o *call) bool { return o.valid <= c.got })
		holders = append(holders, c)
		taken := 0
		for _, o := range holders {
			taken += o.want.Permits
		}
		if taken > c.want.Capacity {
			found = append(found, finding{"P1", name, c.got, fmt.Sprintf("%d of %d permits are taken: %v", taken, c.want.Capacity, holders)})
		}
	}
	return found
}

// judgeTold judges that the context of a lease that expires ends before another owner gets the
// lock, if the process runs.
func judgeTold(h *history, name string, calls []*call) (found []finding) {
	const before = int64(2 * time.Second) // it did not run when it should have ended the context
	var last *call
	for _, c := range calls {
		if last != nil && last.valid <= c.got && c.got < last.alive && excludes(last, c) && (last.reason == "" || last.reason == expired) {
			in := span{c.got - before, last.alive}
			stopped := slices.ContainsFunc(h.stops[last.process], in.meets)
			if over := time.Duration(last.alive - c.got); !stopped && over > h.stalled(last.process, in) {
				found = append(found, finding{"P2", name, c.got, fmt.Sprintf("the context of %v is not done %v after %v has it", last, over, c)})
			}
		}
		if last == nil || c.alive > last.alive {
			last = c
		}
	}
	return found
}

// judgeTokens judges that each grant has a higher token than all before it. Grants are ordered by
// times at which their leases were valid.
func judgeTokens(name string, calls []*call) (found []finding) {
	var last *call
	for _, c := range calls {
		i := slices.Index(c.want.Names, name)
		if c.want.Shared || i >= len(c.tokens) {
			continue
		}
		if last != nil && c.tokens[i] <= last.token(name) {
			found = append(found, finding{"P3", name, c.got, fmt.Sprintf("%v has token %d, and %v before it had %d", c, c.tokens[i], last, last.token(name))})
		}
		if last == nil || c.tokens[i] > last.token(name) {
			last = c
		}
	}
	return found
}

func (c *call) token(name string) int64 { return c.tokens[slices.Index(c.want.Names, name)] }
