package script_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A request is sent twice, and the second copy is answered: there was nothing
// to do. The world changes, and the first copy arrives. Nobody waits for it, so
// it must do nothing.
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
