package simulation_test

import (
	"bytes"
	"os/exec"
	"slices"
	"testing"
)

// A seed replays: with the fingerprint of a run, it is that run again. The race detector shuffles
// the goroutines, so the test then runs in a process without it.
func TestReplay(t *testing.T) {
	if raced {
		cmd := exec.CommandContext(t.Context(), "go", "test", "-race=false", "-count=1", "-v", "-run", "^TestReplay$", ".")
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("--- PASS: TestReplay")) {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	oneProcessor(t)
	all := 0
	for n := uint64(0); n < uint64(len(profiles)); n += 3 { // a third of them: each takes seconds
		p := planNumber(t, n)
		p.print = schedule(t, p).fingerprint()
		again, err := parsePlan(p.String())
		if err != nil || again.String() != p.String() {
			t.Fatalf("%v is read as %v: %v", p, again, err)
		}
		w, runs := replay(t, again)
		if w == nil {
			t.Errorf("%d runs of %v differ from the first", runs, p)
		}
		all += runs
	}
	t.Logf("%d runs", all)
	p := planNumber(t, 0)
	p.print = "none"
	if w, runs := replay(t, p); w != nil || runs != maxReplays {
		t.Errorf("a run has a fingerprint that does not exist, after %d runs", runs)
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
	} else if u, f := small.plan.size(); u > users || f > faults || u+f == users+faults {
		t.Errorf("%v has %d users and %d faults, and is not smaller than %v", small.plan, u, f, p)
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

// Calls of one client at the same moment share a script.
func TestCombined(t *testing.T) {
	oneProcessor(t)
	batches := 0
	for n := range uint64(4) {
		w := schedule(t, planOf(n, profileOf("combined")))
		batches += w.batches
		t.Logf("%v: %d grants, %d batches%v", w.plan.users, w.grants, w.batches, w)
	}
	if batches < 10 {
		t.Errorf("%d batches were sent", batches)
	}
}
