package script_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

func takePermits(n int, request string) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		_, err := script.Acquire(ctx, d, script.NewSemaphore(name, n), script.Claim{Owner: request, Count: 1})
		return err
	}
}

// measure runs a call that is answered by a number.
func measure(ctx context.Context, d driver.Driver, c driver.Call) error {
	r, err := d.Do(ctx, c)
	if err == nil {
		_, err = script.DecodeInt(r)
	}
	return err
}

func undoPermits(n int, request string) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		return measure(ctx, d, script.NewSemaphore(name, n).Free(request))
	}
}

func givePermits(n int, request string) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		return measure(ctx, d, script.NewSemaphore(name, n).Release(request, false))
	}
}

func giveIfExists(n int, request string) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		return measure(ctx, d, script.NewSemaphore(name, n).Release(request, true))
	}
}

func setPermits(n int, request string, ttl int) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		return measure(ctx, d, script.NewSemaphore(name, n).Set(request, seconds(ttl)))
	}
}

func drainPermits(request string) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		return measure(ctx, d, script.NewSemaphore(name, 0).Drain(request))
	}
}

func available(ctx context.Context, d driver.Driver, name string) error {
	_, err := script.NewSemaphore(name, 0).Available(ctx, d)
	return err
}

// remembered is the line of the mark that a request in the lane a:1 leaves.
func remembered(what string) string { return "holdfast:once:a:1 string " + what + ", TTL 600s" }

// marked is the command that leaves such a mark.
func marked(what string) string { return "SET mark:a:1 " + what + " PX 600000" }

var semaphoreRows = []row{
	{
		title: "permits/take/more than enough",
		given: []string{"SET N 5"},
		do:    takePermits(2, "a:1:7"), reply: "1",
		state: []string{"N string 3", remembered("7 taken")},
	},
	{
		title: "permits/take/just enough",
		given: []string{"SET N 2"},
		do:    takePermits(2, "a:1:7"), reply: "1",
		state: []string{"N string 0", remembered("7 taken")},
	},
	{
		title: "permits/take/not enough",
		given: []string{"SET N 1"},
		do:    takePermits(2, "a:1:7"), reply: "0",
		state: []string{"N string 1"},
	},
	{
		title: "permits/take/less than none",
		given: []string{"SET N -1"},
		do:    takePermits(1, "a:1:7"), reply: "0",
		state: []string{"N string -1"},
	},
	{title: "permits/take/no semaphore", do: takePermits(1, "a:1:7"), reply: "held past"},
	{
		title: "permits/take/the TTL stays",
		given: []string{"SET N 5 PX 100000"},
		do:    takePermits(1, "a:1:7"), reply: "1",
		state: []string{"N string 4, TTL 100s", remembered("7 taken")},
	},
	{
		title: "permits/take/the lane goes on",
		given: []string{"SET N 5", "SET mark:a:1 6~taken PX 90000"},
		do:    takePermits(1, "a:1:7"), reply: "1",
		state: []string{"N string 4", remembered("7 taken")},
	},
	{
		title: "permits/take/a number with more digits is the higher one",
		given: []string{"SET N 5", marked("9~taken")},
		do:    takePermits(1, "a:1:10"), reply: "1",
		state: []string{"N string 4", remembered("10 taken")},
	},
	{
		title: "permits/take/marks of other lanes do not matter",
		given: []string{"SET N 5", "SET mark:a:11 7~taken", "SET mark:b:1 9~taken"},
		do:    takePermits(1, "a:1:7"), reply: "1",
		state: []string{"N string 4", remembered("7 taken"), "holdfast:once:a:11 string 7 taken", "holdfast:once:b:1 string 9 taken"},
	},
	{
		title: "permits/take/was taken",
		given: []string{"SET N 3", marked("7~taken")},
		do:    takePermits(2, "a:1:7"), reply: "1",
		state: []string{"N string 3", remembered("7 taken")},
	},
	{
		title: "permits/take/was taken, and all are gone",
		given: []string{marked("7~taken")},
		do:    takePermits(2, "a:1:7"), reply: "1",
		state: []string{remembered("7 taken")},
	},
	{
		title: "permits/take/was undone",
		given: []string{"SET N 3", marked("7~undone")},
		do:    takePermits(2, "a:1:7"), reply: "0",
		state: []string{"N string 3", remembered("7 undone")},
	},
	{
		title: "permits/take/late",
		given: []string{"SET N 3", marked("8~taken")},
		do:    takePermits(2, "a:1:7"), reply: "0",
		state: []string{"N string 3", remembered("8 taken")},
	},
	{
		title: "permits/take/the mark makes no sense",
		given: []string{"SET N 3", marked("x")},
		do:    takePermits(2, "a:1:7"), reply: "ERR",
		state: []string{"N string 3", remembered("x")},
	},
	{
		title: "permits/take/the mark is of another type",
		given: []string{"SET N 3", "RPUSH mark:a:1 x"},
		do:    takePermits(2, "a:1:7"), reply: "WRONGTYPE",
		state: []string{"N string 3", "holdfast:once:a:1 list x"},
	},
	{
		title: "permits/take/another type",
		given: []string{"HSET N a:1 1"},
		do:    takePermits(2, "a:1:7"), reply: "WRONGTYPE",
		state: []string{"N hash a:1=1"},
	},
	{
		title: "permits/take/no number",
		given: []string{"SET N x"},
		do:    takePermits(2, "a:1:7"), reply: "ERR",
		state: []string{"N string x"},
	},
	{
		title: "permits/take/no whole number",
		given: []string{"SET N 2.5"},
		do:    takePermits(2, "a:1:7"), reply: "ERR",
		state: []string{"N string 2.5"},
	},
	{
		title: "permits/take/memory full", full: true,
		given: []string{"SET N 5"},
		do:    takePermits(2, "a:1:7"), reply: "OOM",
		state: []string{"N string 5"},
	},
	{
		title: "permits/take/was taken, memory full", full: true,
		given: []string{"SET N 3", marked("7~taken")},
		do:    takePermits(2, "a:1:7"), reply: "1",
		state: []string{"N string 3", remembered("7 taken")},
	},
	{
		title: "permits/undo/was taken",
		given: []string{"SET N 1", marked("7~taken")},
		do:    undoPermits(2, "a:1:7"), reply: "1", again: "0",
		state: []string{"N string 3", remembered("7 undone")},
		heard: "3 on sc",
	},
	{
		title: "permits/undo/was not taken, or comes yet",
		given: []string{"SET N 1"},
		do:    undoPermits(2, "a:1:7"), reply: "0",
		state: []string{"N string 1", remembered("7 undone")},
	},
	{
		title: "permits/undo/an earlier request has taken",
		given: []string{"SET N 1", marked("6~taken")},
		do:    undoPermits(2, "a:1:7"), reply: "0",
		state: []string{"N string 1", remembered("7 undone")},
	},
	{
		title: "permits/undo/was undone",
		given: []string{"SET N 3", marked("7~undone")},
		do:    undoPermits(2, "a:1:7"), reply: "0",
		state: []string{"N string 3", remembered("7 undone")},
	},
	{
		title: "permits/undo/less than none are left",
		given: []string{"SET N -3", marked("7~taken")},
		do:    undoPermits(2, "a:1:7"), reply: "1", again: "0",
		state: []string{"N string -1", remembered("7 undone")},
		heard: "-1 on sc",
	},
	{
		title: "permits/undo/no semaphore any more",
		given: []string{marked("7~taken")},
		do:    undoPermits(2, "a:1:7"), reply: "0",
		state: []string{remembered("7 undone")},
	},
	{
		title: "permits/undo/the TTL stays",
		given: []string{"SET N 1 PX 100000", marked("7~taken")},
		do:    undoPermits(2, "a:1:7"), reply: "1", again: "0",
		state: []string{"N string 3, TTL 100s", remembered("7 undone")},
		heard: "3 on sc",
	},
	{
		title: "permits/undo/memory full", full: true,
		given: []string{"SET N 1", marked("7~taken")},
		do:    undoPermits(2, "a:1:7"), reply: "1", again: "0",
		state: []string{"N string 3", remembered("7 undone")},
		heard: "3 on sc",
	},
	{
		title: "permits/undo/was not taken, memory full", full: true,
		given: []string{"SET N 1"},
		do:    undoPermits(2, "a:1:7"), reply: "0",
		state: []string{"N string 1", remembered("7 undone")},
	},
	{
		title: "permits/undo/another type",
		given: []string{"RPUSH N x", marked("7~taken")},
		do:    undoPermits(2, "a:1:7"), reply: "WRONGTYPE",
		state: []string{"N list x", remembered("7 taken")},
	},
}

func TestSemaphore(t *testing.T) { check(t, semaphoreRows) }

var permitRows = []row{
	{
		title: "permits/give/some are free",
		given: []string{"SET N 1"},
		do:    givePermits(2, "a:1:7"), reply: "2", again: "1",
		state: []string{"N string 3", remembered("7 done")},
		heard: "3 on sc",
	},
	{
		title: "permits/give/no semaphore",
		do:    givePermits(2, "a:1:7"), reply: "2", again: "1",
		state: []string{"N string 2", remembered("7 done")},
		heard: "2 on sc",
	},
	{
		title: "permits/give/less than none are left",
		given: []string{"SET N -5"},
		do:    givePermits(2, "a:1:7"), reply: "2", again: "1",
		state: []string{"N string -3", remembered("7 done")},
		heard: "-3 on sc",
	},
	{
		title: "permits/give/fewer",
		given: []string{"SET N 1"},
		do:    givePermits(-3, "a:1:7"), reply: "2", again: "1",
		state: []string{"N string -2", remembered("7 done")},
		heard: "-2 on sc",
	},
	{
		title: "permits/give/the TTL stays",
		given: []string{"SET N 1 PX 100000"},
		do:    givePermits(2, "a:1:7"), reply: "2", again: "1",
		state: []string{"N string 3, TTL 100s", remembered("7 done")},
		heard: "3 on sc",
	},
	{
		title: "permits/give/the lane goes on",
		given: []string{"SET N 1", "SET mark:a:1 6~taken PX 90000"},
		do:    givePermits(2, "a:1:7"), reply: "2", again: "1",
		state: []string{"N string 3", remembered("7 done")},
		heard: "3 on sc",
	},
	{
		title: "permits/give/was given",
		given: []string{"SET N 3", marked("7~done")},
		do:    givePermits(2, "a:1:7"), reply: "1",
		state: []string{"N string 3", remembered("7 done")},
	},
	{
		title: "permits/give/was given, and taken since",
		given: []string{marked("7~done")},
		do:    givePermits(2, "a:1:7"), reply: "1",
		state: []string{remembered("7 done")},
	},
	{
		title: "permits/give/late",
		given: []string{"SET N 3", marked("8~taken")},
		do:    givePermits(2, "a:1:7"), reply: "0",
		state: []string{"N string 3", remembered("8 taken")},
	},
	{
		title: "permits/give/memory full", full: true,
		given: []string{"SET N 1", marked("6~taken")},
		do:    givePermits(2, "a:1:7"), reply: "2", again: "1",
		state: []string{"N string 3", remembered("7 done")},
		heard: "3 on sc",
	},
	{
		title: "permits/give/no semaphore, memory full", full: true,
		do: givePermits(2, "a:1:7"), reply: "2", again: "1",
		state: []string{"N string 2", remembered("7 done")},
		heard: "2 on sc",
	},
	{
		title: "permits/give/another type",
		given: []string{"RPUSH N x"},
		do:    givePermits(2, "a:1:7"), reply: "WRONGTYPE",
		state: []string{"N list x"},
	},
	{
		title: "permits/give/no number",
		given: []string{"SET N x"},
		do:    givePermits(2, "a:1:7"), reply: "ERR",
		state: []string{"N string x"},
	},
	{
		title: "permits/give/more than the server can count",
		given: []string{"SET N 9223372036854775806"},
		do:    givePermits(2, "a:1:7"), reply: "ERR",
		state: []string{"N string 9223372036854775806"},
	},
	{
		title: "permits/give if/exists",
		given: []string{"SET N 0"},
		do:    giveIfExists(2, "a:1:7"), reply: "2", again: "1",
		state: []string{"N string 2", remembered("7 done")},
		heard: "2 on sc",
	},
	{
		title: "permits/give if/exists, memory full", full: true,
		given: []string{"SET N 0"},
		do:    giveIfExists(2, "a:1:7"), reply: "2", again: "1",
		state: []string{"N string 2", remembered("7 done")},
		heard: "2 on sc",
	},
	{
		title: "permits/give if/was given, and is gone",
		given: []string{marked("7~done")},
		do:    giveIfExists(2, "a:1:7"), reply: "1",
		state: []string{remembered("7 done")},
	},
	{
		title: "permits/give if/late",
		given: []string{"SET N 3", marked("8~taken")},
		do:    giveIfExists(2, "a:1:7"), reply: "0",
		state: []string{"N string 3", remembered("8 taken")},
	},
	{
		title: "permits/give if/another type",
		given: []string{"RPUSH N x"},
		do:    giveIfExists(2, "a:1:7"), reply: "WRONGTYPE",
		state: []string{"N list x"},
	},
	{
		title: "permits/set/new",
		do:    setPermits(5, "a:1:7", 0), reply: "1",
		state: []string{"N string 5", remembered("7 set")},
		heard: "5 on sc",
	},
	{
		title: "permits/set/for a time",
		do:    setPermits(5, "a:1:7", 100), reply: "1",
		state: []string{"N string 5, TTL 100s", remembered("7 set")},
		heard: "5 on sc",
	},
	{
		title: "permits/set/to none",
		do:    setPermits(0, "a:1:7", 0), reply: "1",
		state: []string{"N string 0", remembered("7 set")},
		heard: "0 on sc",
	},
	{
		title: "permits/set/the lane goes on",
		given: []string{"SET mark:a:1 6~taken PX 90000"},
		do:    setPermits(5, "a:1:7", 0), reply: "1",
		state: []string{"N string 5", remembered("7 set")},
		heard: "5 on sc",
	},
	{
		title: "permits/set/was set by another", given: []string{"SET N 0 PX 100000"},
		do: setPermits(5, "a:1:7", 0), reply: "0", state: []string{"N string 0, TTL 100s", remembered("7 exists")},
	},
	{
		title: "permits/set/another type", given: []string{"RPUSH N x"},
		do: setPermits(5, "a:1:7", 0), reply: "0", state: []string{"N list x", remembered("7 exists")},
	},
	{
		title: "permits/set/was set by this one",
		given: []string{"SET N 3", marked("7~set")},
		do:    setPermits(5, "a:1:7", 100), reply: "1",
		state: []string{"N string 3", remembered("7 set")},
	},
	{
		title: "permits/set/was set by this one, and is gone",
		given: []string{marked("7~set")},
		do:    setPermits(5, "a:1:7", 0), reply: "1",
		state: []string{remembered("7 set")},
	},
	{
		title: "permits/set/late", given: []string{marked("8~taken")},
		do: setPermits(5, "a:1:7", 0), reply: "0", state: []string{remembered("8 taken")},
	},
	{title: "permits/set/memory full", full: true, do: setPermits(5, "a:1:7", 0), reply: "OOM"},
	{
		title: "permits/drain/some",
		given: []string{"SET N 5"},
		do:    drainPermits("a:1:7"), reply: "5",
		state: []string{"N string 0", remembered("7 5")},
	},
	{
		title: "permits/drain/the TTL stays",
		given: []string{"SET N 5 PX 100000", "SET mark:a:1 6~taken PX 90000"},
		do:    drainPermits("a:1:7"), reply: "5",
		state: []string{"N string 0, TTL 100s", remembered("7 5")},
	},
	{title: "permits/drain/none", given: []string{"SET N 0"}, do: drainPermits("a:1:7"), reply: "0", state: []string{"N string 0", remembered("7 0")}},
	{title: "permits/drain/less than none", given: []string{"SET N -2"}, do: drainPermits("a:1:7"), reply: "0", state: []string{"N string -2", remembered("7 0")}},
	{title: "permits/drain/no semaphore", do: drainPermits("a:1:7"), reply: "0", state: []string{remembered("7 0")}},
	{
		title: "permits/drain/was drained",
		given: []string{"SET N 2", marked("7~5")},
		do:    drainPermits("a:1:7"), reply: "5",
		state: []string{"N string 2", remembered("7 5")},
	},
	{
		title: "permits/drain/late",
		given: []string{"SET N 2", marked("8~taken")},
		do:    drainPermits("a:1:7"), reply: "0",
		state: []string{"N string 2", remembered("8 taken")},
	},
	{
		title: "permits/drain/memory full", full: true,
		given: []string{"SET N 5"},
		do:    drainPermits("a:1:7"), reply: "OOM",
		state: []string{"N string 5"},
	},
	{title: "permits/drain/another type", given: []string{"RPUSH N x"}, do: drainPermits("a:1:7"), reply: "WRONGTYPE", state: []string{"N list x"}},
	{title: "permits/drain/no number", given: []string{"SET N x"}, do: drainPermits("a:1:7"), reply: "ERR", state: []string{"N string x"}},
	{title: "permits/available/no semaphore", do: available, reply: "0"},
	{title: "permits/available/some", given: []string{"SET N 5"}, do: available, reply: "5", state: []string{"N string 5"}},
	{title: "permits/available/another type", given: []string{"RPUSH N x"}, do: available, reply: "WRONGTYPE", state: []string{"N list x"}},
	{title: "permits/available/no number", given: []string{"SET N x"}, do: available, reply: "ERR", state: []string{"N string x"}},
	{title: "permits/available/memory full", full: true, given: []string{"SET N 5"}, do: available, reply: "5", state: []string{"N string 5"}},
}

func TestPermits(t *testing.T) { check(t, permitRows) }

// A semaphore that was deleted is not made anew by a request that is undone.
func TestUndoDoesNotCreate(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	l := newLab(t, s, d, "N")
	l.run("SET N 5")
	l.call(d, takePermits(2, "a:1:7"))
	l.run("DEL N")
	l.call(d, undoPermits(2, "a:1:7"))
	l.run("DEL mark:a:1")
	l.has()
}
