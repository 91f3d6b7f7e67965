package soak_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// expired is the reason of a loss at the end of a lease.
const expired = "expired"

// A finding is a promise that was broken.
type finding struct {
	Promise string
	Name    string // of the lock
	At      int64
	Text    string
}

func (f finding) String() string { return fmt.Sprintf("%s %s: %s", f.Promise, f.Name, f.Text) }

func (c *call) String() string {
	return fmt.Sprintf("call %d of %s (%s)", c.number, c.process, c.want.Kind)
}

// judge judges a round. It returns what it has found, and how far it looked.
func judge(h *history) ([]finding, figures) {
	found := judgeExclusion(h)
	late, longest := judgeLiveness(h)
	found = slices.Concat(found, late, judgeCalls(h), judgeLosses(h))
	for _, r := range h.leaks {
		found = append(found, finding{"P7", r.Process, r.At, r.Text})
	}
	for _, r := range h.strange {
		found = append(found, finding{"records", r.Process, r.At, fmt.Sprintf("call %d cannot have recorded %q", r.Call, r.Event)})
	}
	slices.SortStableFunc(found, func(a, b finding) int { return cmp.Compare(a.At, b.At) })
	f := count(h)
	f.LongestFree = longest
	return found, f
}

// judgeCalls judges P8: calls that may wait for a limited time return in time, and errors are of
// the expected kinds.
func judgeCalls(h *history) (found []finding) {
	const late = time.Second + 5*time.Second // for the last request, and for a machine that is busy
	for _, c := range h.calls {
		for _, text := range []string{c.err, c.freed} {
			if strings.HasPrefix(text, unexpected) {
				found = append(found, finding{"P8", c.want.Names[0], max(c.failed, c.released), fmt.Sprintf("%v: %s", c, text)})
			}
		}
		w := h.waits(c)
		if c.want.Limit == 0 || slices.ContainsFunc(h.stops[c.process], w.meets) {
			continue
		}
		if over := time.Duration(w.to-w.from) - h.stalled(c.process, w) - c.want.Limit; over > late {
			found = append(found, finding{"P8", c.want.Names[0], w.to, fmt.Sprintf("%v waits %v longer than it may", c, over)})
		}
	}
	return found
}

// judgeLosses judges that no lease that is renewed is lost while its process runs and the server
// can be reached.
func judgeLosses(h *history) (found []finding) {
	for _, c := range h.calls {
		if c.told == 0 || c.want.Fixed {
			continue
		}
		since := span{c.told - int64(c.want.Lease) - int64(settle), c.told}
		harmed := slices.ContainsFunc(h.stops[c.process], since.meets) || slices.ContainsFunc(h.faults, func(f record) bool {
			return (f.Process == "" || f.Process == workerOf(c.process)) && since.meets(span{f.At, f.To + 1})
		})
		if !harmed && h.stalled(c.process, since) < moment {
			found = append(found, finding{"P2", c.want.Names[0], c.told, fmt.Sprintf("%v has lost its lease without a fault (%s)", c, c.reason)})
		}
	}
	return found
}

// timeline returns the records about a name or of a process, and the faults, around a time.
func timeline(records []record, name string, at int64) string {
	about := make(map[string]bool) // calls that want the name
	for _, r := range records {
		if r.Event == evCall && slices.Contains(r.Want.Names, name) {
			about[fmt.Sprint(r.Process, "/", r.Call)] = true
		}
	}
	var b strings.Builder
	for _, r := range records {
		when := time.Duration(r.At - at)
		if when < -12*time.Second || when > 3*time.Second || r.Event == evValid || r.Call > 0 && r.Process != name && !about[fmt.Sprint(r.Process, "/", r.Call)] {
			continue
		}
		fmt.Fprintf(&b, "%12.3fms %-7s", float64(when)/1e6, r.Process)
		if r.Call > 0 {
			fmt.Fprintf(&b, " #%-5d", r.Call)
		}
		fmt.Fprintf(&b, " %s", r.Event)
		if r.Want != nil {
			fmt.Fprintf(&b, " %+v", *r.Want)
		}
		if r.To > 0 {
			fmt.Fprintf(&b, " until %.3fms", float64(r.To-at)/1e6)
		}
		if r.Text != "" {
			fmt.Fprintf(&b, " %s", r.Text)
		}
		if r.Tokens != nil {
			fmt.Fprintf(&b, " tokens %d", r.Tokens)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
