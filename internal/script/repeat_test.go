package script_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
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
	for _, r := range slices.Concat(mutexRows, queuedRows, fencedRows, fairRows, rwRows, groupRows, voteRows, atomicLongRows, bucketRows, idRows, electionRows, objectRows, semaphoreRows, permitRows, latchRows, leasedRows, limiterRows, inspectRows, plainRows) {
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
		if !seen[name] && !strings.HasPrefix(name, "probe") && name != "batch" { // see TestProbeLeavesNothing and TestBatchedCalls
			t.Errorf("script %s has no row", name)
		}
	}
}

// A request is sent twice. The reply to the second copy says that there was
// nothing to do. Then the data changes, and the first copy arrives. Its caller is
// gone, so it must do nothing.
func TestLateCopyOfRefusedRequest(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	for _, r := range []struct {
		title string
		given []string
		do    op
		then  string
		state string // "": none but the mark
	}{
		{"give back if it exists", nil, giveIfExists(2, "a:1:7"), "SET N 5", "N string 5"},
		{"set the permits", []string{"SET N 0"}, setPermits(5, "a:1:7", 0), "DEL N", ""},
		{"drain", []string{"SET N 0"}, drainPermits("a:1:7"), "SET N 5", "N string 5"},
		{"count down", nil, countDown("a:1:7"), "SET N 2", "N string 2"},
		{"close", []string{"SET N 1"}, setCount(5, "a:1:7"), "DEL N", ""},
	} {
		t.Run(r.title, func(t *testing.T) {
			l := newLab(t, s, d, "N")
			l.run(r.given...)
			if got := l.call(d, r.do); got != "0" {
				t.Fatalf("reply %s", got)
			}
			l.run(r.then)
			if got := l.call(d, r.do); got != "0" {
				t.Errorf("the late copy: reply %s", got)
			}
			l.run("DEL mark:a:1")
			if r.state == "" {
				l.has()
			} else {
				l.has(r.state)
			}
			l.hears("")
		})
	}
}

// The mark of a lane keeps late copies from running. A request that fails, or
// comes late itself, must leave it.
func TestMarkStays(t *testing.T) {
	check(t, []row{
		{
			title: "permits/undo/late",
			given: []string{"SET N 3", marked("8~taken")},
			do:    undoPermits(2, "a:1:7"), reply: "0",
			state: []string{"N string 3", remembered("8 taken")},
		},
		{
			title: "permits/give/another type",
			given: []string{"RPUSH N x", marked("6~done")},
			do:    givePermits(2, "a:1:7"), reply: "WRONGTYPE",
			state: []string{"N list x", remembered("6 done")},
		},
		{
			title: "permits/give/no number",
			given: []string{"SET N x", marked("6~done")},
			do:    givePermits(2, "a:1:7"), reply: "ERR",
			state: []string{"N string x", remembered("6 done")},
		},
		{
			title: "latch/count down/another type",
			given: []string{"RPUSH N x", marked("6~2")},
			do:    countDown("a:1:7"), reply: "WRONGTYPE",
			state: []string{"N list x", remembered("6 2")},
		},
	})
}

// The same as TestLateCopyOfRefusedRequest, for what is refused without a note.
func TestLateCopyOfOtherRefusals(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	giveLimiter := func(ctx context.Context, d driver.Driver, name string) error {
		_, err := d.Do(ctx, script.NewRateLimiter(name, "c", 1).Release("a:1:7"))
		return err
	}
	for _, r := range []struct {
		title string
		given []string
		do    op
		then  []string
		state []string
	}{
		{"delete", nil, deleted(one, false), []string{"SET N 5"}, []string{"N string 5"}},
		{"rename", []string{"SET N 5", "SET to 6"}, renamed(one, false), []string{"DEL to"}, []string{"N string 5"}},
		{"copy", []string{"SET N 5", "SET to 6"}, copied(one, false), []string{"DEL to"}, []string{"N string 5"}},
		{"expire", nil, expired(one, 60), []string{"SET N 5"}, []string{"N string 5"}},
		{"persist", []string{"SET N 5"}, persisted(one), []string{"SET N 5 PX 60000"}, []string{"N string 5, TTL 60s"}},
		{"give back to a limiter", nil, giveLimiter, []string{"HSET N rate 1 interval 1000 type 0"}, []string{"N hash interval=1000 rate=1 type=0"}},
	} {
		t.Run(r.title, func(t *testing.T) {
			l := newLab(t, s, d, "N")
			l.run(r.given...)
			first := l.call(d, r.do)
			l.run(r.then...)
			if got := l.call(d, r.do); got != first {
				t.Errorf("the late copy: reply %s, the first was %s", got, first)
			}
			l.run("DEL mark:a:1", "DEL mark:c:0")
			l.has(r.state...)
		})
	}
}
