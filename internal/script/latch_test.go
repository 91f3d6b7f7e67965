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

func setCount(n int, request string) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		return measure(ctx, d, script.NewLatch(name).Set(request, n, false))
	}
}

func resetCount(ctx context.Context, d driver.Driver, name string) error {
	return measure(ctx, d, script.NewLatch(name).Set("a:1:7", 3, true))
}

func countDown(request string) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		return measure(ctx, d, script.NewLatch(name).CountDown(request))
	}
}

func awaitLatch(ctx context.Context, d driver.Driver, name string) error {
	_, err := script.Acquire(ctx, d, script.NewLatch(name), script.Claim{Owner: "a:1"})
	return err
}

func count(ctx context.Context, d driver.Driver, name string) error {
	_, err := script.NewLatch(name).Count(ctx, d)
	return err
}

var latchRows = []row{
	{
		title: "latch/set/open",
		do:    setCount(3, "a:1:7"), reply: "1",
		state: []string{"N string 3", remembered("7 set")},
		heard: "1 on latch",
	},
	{
		title: "latch/reset/open",
		do:    resetCount, reply: "1",
		state: []string{"N string 3", remembered("7 set")},
		heard: "1 on latch",
	},
	{
		title: "latch/reset/closed",
		given: []string{"SET N 9 PX 60000"},
		do:    resetCount, reply: "1",
		state: []string{"N string 3", remembered("7 set")},
		heard: "1 on latch",
	},
	{
		title: "latch/reset/other data",
		given: []string{"SET N x"},
		do:    resetCount, reply: "ERR",
		state: []string{"N string x"},
	},
	{
		title: "latch/reset/another type",
		given: []string{"HSET N a:1 1"},
		do:    resetCount, reply: "WRONGTYPE",
		state: []string{"N hash a:1=1"},
	},
	{
		title: "latch/set/the lane goes on",
		given: []string{"SET mark:a:1 6~0 PX 90000"},
		do:    setCount(3, "a:1:7"), reply: "1",
		state: []string{"N string 3", remembered("7 set")},
		heard: "1 on latch",
	},
	{title: "latch/set/closed", given: []string{"SET N 1"}, do: setCount(3, "a:1:7"), reply: "0", state: []string{"N string 1", remembered("7 exists")}},
	{title: "latch/set/another type", given: []string{"RPUSH N x"}, do: setCount(3, "a:1:7"), reply: "0", state: []string{"N list x", remembered("7 exists")}},
	{
		title: "latch/set/was set, and counted down since",
		given: []string{"SET N 1", marked("7~set")},
		do:    setCount(3, "a:1:7"), reply: "1",
		state: []string{"N string 1", remembered("7 set")},
	},
	{
		title: "latch/set/was set, and is open again",
		given: []string{marked("7~set")},
		do:    setCount(3, "a:1:7"), reply: "1",
		state: []string{remembered("7 set")},
	},
	{
		title: "latch/set/late", given: []string{marked("8~0")},
		do: setCount(3, "a:1:7"), reply: "0", state: []string{remembered("8 0")},
	},
	{title: "latch/set/memory full", full: true, do: setCount(3, "a:1:7"), reply: "OOM"},
	{
		title: "latch/count down/some are left",
		given: []string{"SET N 3"},
		do:    countDown("a:1:7"), reply: "2",
		state: []string{"N string 2", remembered("7 2")},
	},
	{
		title: "latch/count down/the last",
		given: []string{"SET N 1"},
		do:    countDown("a:1:7"), reply: "0",
		state: []string{remembered("7 0")},
		heard: "0 on latch",
	},
	{
		title: "latch/count down/the TTL stays",
		given: []string{"SET N 3 PX 100000", "SET mark:a:1 6~3 PX 90000"},
		do:    countDown("a:1:7"), reply: "2",
		state: []string{"N string 2, TTL 100s", remembered("7 2")},
	},
	{
		title: "latch/count down/a zero that was left",
		given: []string{"SET N 0"},
		do:    countDown("a:1:7"), reply: "0",
		state: []string{remembered("7 0")},
		heard: "0 on latch",
	},
	{title: "latch/count down/open", do: countDown("a:1:7"), reply: "0", state: []string{remembered("7 0")}},
	{
		title: "latch/count down/was counted",
		given: []string{"SET N 2", marked("7~2")},
		do:    countDown("a:1:7"), reply: "2",
		state: []string{"N string 2", remembered("7 2")},
	},
	{
		title: "latch/count down/was counted, and others have since",
		given: []string{"SET N 1", marked("7~2")},
		do:    countDown("a:1:7"), reply: "2",
		state: []string{"N string 1", remembered("7 2")},
	},
	{
		title: "latch/count down/was the last, and it is closed again",
		given: []string{"SET N 3", marked("7~0")},
		do:    countDown("a:1:7"), reply: "0",
		state: []string{"N string 3", remembered("7 0")},
	},
	{
		title: "latch/count down/late",
		given: []string{"SET N 2", marked("8~2")},
		do:    countDown("a:1:7"), reply: "0",
		state: []string{"N string 2", remembered("8 2")},
	},
	{
		title: "latch/count down/some are left, memory full", full: true,
		given: []string{"SET N 3"},
		do:    countDown("a:1:7"), reply: "2",
		state: []string{"N string 2", remembered("7 2")},
	},
	{
		title: "latch/count down/the last, memory full", full: true,
		given: []string{"SET N 1", marked("6~3")},
		do:    countDown("a:1:7"), reply: "0",
		state: []string{remembered("7 0")},
		heard: "0 on latch",
	},
	{title: "latch/count down/another type", given: []string{"RPUSH N x"}, do: countDown("a:1:7"), reply: "WRONGTYPE", state: []string{"N list x"}},
	{title: "latch/count down/no number", given: []string{"SET N x"}, do: countDown("a:1:7"), reply: "ERR", state: []string{"N string x"}},
	{title: "latch/wait/open", do: awaitLatch, reply: "0"},
	{title: "latch/wait/closed", given: []string{"SET N 3"}, do: awaitLatch, reply: "3", state: []string{"N string 3"}},
	{title: "latch/wait/another type", given: []string{"RPUSH N x"}, do: awaitLatch, reply: "WRONGTYPE", state: []string{"N list x"}},
	{title: "latch/wait/no number", given: []string{"SET N x"}, do: awaitLatch, reply: "ERR", state: []string{"N string x"}},
	{title: "latch/wait/memory full", full: true, given: []string{"SET N 3"}, do: awaitLatch, reply: "3", state: []string{"N string 3"}},
	{title: "latch/count/closed", given: []string{"SET N 3"}, do: count, reply: "3", state: []string{"N string 3"}},
}

func TestLatch(t *testing.T) { check(t, latchRows) }

// A script that publishes in a slot that may be another one does so at the end:
// see lib/tell.lua.
func TestLatchTellsLast(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	for _, tt := range []struct {
		title string
		do    op
	}{
		{"set", setCount(1, "a:1:7")},
		{"count down", countDown("a:1:8")},
		{"set again", setCount(1, "a:1:9")},
		{"delete", deleted("latch", false)},
	} {
		var commands []string
		stop := s.Monitor(t, func(command string) { commands = append(commands, command) })
		if err := tt.do(t.Context(), d, "N"); err != nil {
			t.Errorf("%s: %v", tt.title, err)
		}
		stop()
		told := slices.IndexFunc(commands, func(c string) bool { return strings.HasPrefix(strings.ToUpper(c), "PUBLISH ") })
		if told < 0 || told != len(commands)-1 {
			t.Errorf("%s: the message is command %d of %q", tt.title, told, commands)
		}
	}
}
