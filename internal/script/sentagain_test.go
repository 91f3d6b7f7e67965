package script_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A call that was executed and whose reply was lost is sent again: the second
// time it must change nothing, and its answer must be as good as the first.
func TestSentAgain(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	d, through := connect(t, s.URL()), connect(t, p.URL())
	seen := make(map[string]bool)
	for _, r := range slices.Concat(mutexRows, fencedRows, fairRows, rwRows, groupRows, voteRows, atomicLongRows, bucketRows, idRows, electionRows, objectRows, semaphoreRows, permitRows, latchRows, leasedRows, limiterRows, inspectRows) {
		// The script must be known, or the lost reply would be that of NOSCRIPT.
		spy := &recorder{Driver: d}
		_ = r.do(t.Context(), spy, "N")
		seen[spy.call.Script.Name] = true
		t.Run(r.title, func(t *testing.T) {
			inAMoment(t, s, d, "N", func(l *lab) {
				defer r.prepare(l)()
				dropped := p.DropReply(1, redistest.Script(spy.call.Script.SHA))
				if got := l.call(through, r.do); got != "ambiguous" {
					t.Fatalf("reply lost: %s", got)
				}
				<-dropped
				want := r.reply
				if r.again != "" {
					want = r.again
				}
				if got := l.call(through, r.do); got != want && (r.or == "" || got != r.or) {
					l.wrong("sent again: reply %s, want %s", got, want)
				}
				state := r.state
				if r.twice != nil {
					state = r.twice
				}
				l.has(state...)
				l.hears(r.heard)
			})
		})
	}
	for _, name := range script.Names() {
		if !seen[name] && !strings.HasPrefix(name, "probe") { // see TestProbeLeavesNothing
			t.Errorf("script %s has no row", name)
		}
	}
}
