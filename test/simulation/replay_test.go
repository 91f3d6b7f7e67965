package simulation_test

import (
	"slices"
	"strings"
	"testing"
)

// A seed replays: the same happens at the same times. Where goroutines of one client run at
// the same instant, the scheduler of Go decides, which seldom makes a difference.
func TestReplay(t *testing.T) {
	oneProcessor(t)
	for n := uint64(0); n < uint64(len(profiles)); n += 3 { // a third of them: each takes seconds
		one := schedule(t, planNumber(t, n)).text()
		var other []string
		for range 3 {
			if other = schedule(t, planNumber(t, n)).text(); slices.Equal(one, other) {
				break
			}
		}
		i := 0
		for i < min(len(one), len(other)) && one[i] == other[i] {
			i++
		}
		if i < max(len(one), len(other)) {
			t.Errorf("%v differs at line %d of %d:\n%s\nand\n%s", planNumber(t, n), i, len(one),
				strings.Join(one[max(i-8, 0):min(i+4, len(one))], "\n"), strings.Join(other[max(i-8, 0):min(i+4, len(other))], "\n"))
		}
	}
}

// A smaller plan breaks the same promise, and can be replayed by its name.
func TestShrink(t *testing.T) {
	oneProcessor(t)
	k := known[slices.IndexFunc(known, func(k finding) bool { return k.promise == "P7" })]
	p, err := parsePlan(k.plan)
	if err != nil {
		t.Fatal(err)
	}
	w := schedule(t, p)
	small := shrink(t, w, k.promise, 100)
	if users, faults := p.size(); !small.broke(k.promise) {
		t.Errorf("%v breaks nothing", small.plan)
	} else if u, f := small.plan.size(); u >= users || f >= faults {
		t.Errorf("%v has %d users and %d faults, no fewer than %v", small.plan, u, f, p)
	}
	again, err := parsePlan(small.plan.String())
	if err != nil || again.String() != small.plan.String() {
		t.Errorf("%v is read as %v: %v", small.plan, again, err)
	}
	for _, bad := range []string{"", "17", "nothing:1", "fair:x", "fair:1/2"} {
		if _, err := parsePlan(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
