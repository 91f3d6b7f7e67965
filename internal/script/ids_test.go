package script_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

func initIDs(first, block int64) op {
	return calling(func(name string) driver.Call { return script.NewIDGenerator(name).Init(request, first, block) })
}

func fetchIDs(last script.Block) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		_, err := script.NewIDGenerator(name).Fetch(ctx, d, last)
		return err
	}
}

func nextTimeIDs(last script.Stamp, n int) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		_, err := script.NewTimeID(name).Next(ctx, d, last, n)
		return err
	}
}

var none script.Block

// Replies of time ids are written as lab does numbers of ms: 2147480000 s after
// the epoch of the ids, a day that is long to come, is 2147480s.
var idRows = []row{
	{title: "ids/init", do: initIDs(100, 10), reply: "1", state: []string{"N string 100", "allocation string 10", once("set")}},
	{title: "ids/init what is used", given: []string{"SET N 7"}, do: initIDs(100, 10), reply: "0", state: []string{"N string 7", once("before")}},
	{title: "ids/init what has a size", given: []string{"SET {N}:allocation 7"}, do: initIDs(100, 10), reply: "0", state: []string{"allocation string 7", once("before")}},
	{
		title: "ids/first block", do: fetchIDs(none), reply: `["1" "5000"]`, state: []string{"N string 5001", "allocation string 5000"},
		again: `["5001" "5000"]`, twice: []string{"N string 10001", "allocation string 5000"},
	},
	{
		title: "ids/next block", given: []string{"SET N 9007199254740993", "SET {N}:allocation 3"},
		do: fetchIDs(none), reply: `["9007199254740993" "3"]`, state: []string{"N string 9007199254740996", "allocation string 3"},
		again: `["9007199254740996" "3"]`, twice: []string{"N string 9007199254740999", "allocation string 3"},
	},
	{
		title: "ids/forgotten", do: fetchIDs(script.Block{First: 9007199254740993, Size: 8}),
		reply: `["9007199254741001" "5000"]`, state: []string{"N string 9007199254746001", "allocation string 5000"},
		again: `["9007199254746001" "5000"]`, twice: []string{"N string 9007199254751001", "allocation string 5000"},
	},
	{
		title: "ids/half forgotten", given: []string{"SET N -12 EX 60", "SET {N}:allocation 2"}, do: fetchIDs(script.Block{First: -12, Size: 4}),
		reply: `["-8" "2"]`, state: []string{"N string -6, TTL 60s", "allocation string 2"},
		again: `["-6" "2"]`, twice: []string{"N string -4, TTL 60s", "allocation string 2"},
	},
	{
		title: "ids/others are ahead", given: []string{"SET N 100", "SET {N}:allocation 2"}, do: fetchIDs(script.Block{First: 10, Size: 30}),
		reply: `["100" "2"]`, state: []string{"N string 102", "allocation string 2"},
		again: `["102" "2"]`, twice: []string{"N string 104", "allocation string 2"},
	},
	{title: "ids/no more", given: []string{"SET N 9223372036854775800", "SET {N}:allocation 8"}, do: fetchIDs(none), reply: "ERR", state: []string{"N string 9223372036854775800", "allocation string 8"}},
	{title: "ids/no size", given: []string{"SET N 1", "SET {N}:allocation 0"}, do: fetchIDs(none), reply: "ERR", state: []string{"N string 1", "allocation string 0"}},
	{title: "ids/negative size", given: []string{"SET N 1", "SET {N}:allocation -5"}, do: fetchIDs(none), reply: "ERR", state: []string{"N string 1", "allocation string -5"}},
	{title: "ids/no number", given: []string{"SET N a"}, do: fetchIDs(none), reply: "ERR", state: []string{"N string a"}},
	{title: "ids/another type", given: []string{"HSET N a 1"}, do: fetchIDs(none), reply: "WRONGTYPE", state: []string{"N hash a=1"}},
	{
		title: "time/ahead of the clock", given: []string{"HSET N sec 2147480000 seq 5"}, do: nextTimeIDs(script.Stamp{}, 3),
		reply: "[2147480s 6]", state: []string{"N hash sec=2147480000 seq=8, TTL 172800s"},
		again: "[2147480s 9]", twice: []string{"N hash sec=2147480000 seq=11, TTL 172800s"},
	},
	{
		title: "time/forgotten", do: nextTimeIDs(script.Stamp{Sec: 2147480000, Seq: 5}, 3),
		reply: "[2147480s 6]", state: []string{"N hash sec=2147480000 seq=8, TTL 172800s"},
		again: "[2147480s 9]", twice: []string{"N hash sec=2147480000 seq=11, TTL 172800s"},
	},
	{
		title: "time/half forgotten", given: []string{"HSET N sec 2147480000 seq 2"}, do: nextTimeIDs(script.Stamp{Sec: 2147480000, Seq: 5}, 1),
		reply: "[2147480s 6]", state: []string{"N hash sec=2147480000 seq=6, TTL 172800s"},
		again: "[2147480s 7]", twice: []string{"N hash sec=2147480000 seq=7, TTL 172800s"},
	},
	{
		title: "time/others are ahead", given: []string{"HSET N sec 2147480000 seq 2"}, do: nextTimeIDs(script.Stamp{Sec: 2147479999, Seq: 5}, 1),
		reply: "[2147480s 3]", state: []string{"N hash sec=2147480000 seq=3, TTL 172800s"},
		again: "[2147480s 4]", twice: []string{"N hash sec=2147480000 seq=4, TTL 172800s"},
	},
	{
		title: "time/last of the day", given: []string{"HSET N sec 2147480000 seq 4294967294"}, do: nextTimeIDs(script.Stamp{}, 1),
		reply: "[2147480s 4294970s]", state: []string{"N hash sec=2147480000 seq=4294967295, TTL 172800s"}, again: "ERR",
	},
	{title: "time/no more on this day", given: []string{"HSET N sec 2147480000 seq 4294967294"}, do: nextTimeIDs(script.Stamp{}, 2), reply: "ERR", state: []string{"N hash sec=2147480000 seq=4294967294"}},
	{title: "time/beyond the range", given: []string{"HSET N sec 2147483648 seq 1"}, do: nextTimeIDs(script.Stamp{}, 2), reply: "ERR", state: []string{"N hash sec=2147483648 seq=1"}},
	{title: "time/another type", given: []string{"SET N a"}, do: nextTimeIDs(script.Stamp{}, 2), reply: "WRONGTYPE", state: []string{"N string a"}},
	{title: "time/out of memory", full: true, do: nextTimeIDs(script.Stamp{}, 2), reply: "OOM"},
}

func TestIDScripts(t *testing.T) { checkNamed(t, idRows, "N") }

// The key of the size is derived as Redisson does it.
func TestIDGeneratorKeys(t *testing.T) {
	for name, want := range map[string]string{"N": "{N}:allocation", "x{N}y": "x{N}y:allocation"} {
		if got := script.NewIDGenerator(name).Init(request, 1, 2).Keys[1]; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// lonely returns a lab for the object N, and its driver.
func lonely(t *testing.T) (*lab, driver.Driver) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	return newLab(t, s, d, "N"), d
}

// What the clock has to do with it: a new row begins in the next second, at the
// nanosecond of this one; the sequence goes on in a later second, and starts
// anew on a later day.
func TestTimeIDClock(t *testing.T) {
	l, d := lonely(t)
	draw := func() script.Stamp {
		t.Helper()
		s, err := script.NewTimeID("N").Next(t.Context(), d, script.Stamp{}, 2)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	clock := func() (micros int64) {
		t.Helper()
		now := l.s.Strings(t, "TIME")
		sec, _ := strconv.ParseInt(now[0], 10, 64)
		usec, _ := strconv.ParseInt(now[1], 10, 64)
		return (sec-script.TimeIDEpoch)*1e6 + usec
	}
	const day = 86400
	today := func() int64 { return clock() / 1e6 / day }
	before := clock()
	s := draw() // two numbers
	after := clock()
	if got := (s.Sec-1)*1e6 + (s.Seq-1)/1000; got < before || got > after {
		t.Errorf("begun as %v between %d and %d", s, before, after)
	}
	plant := func(sec int64) {
		l.s.Do(t, "HSET", "N", "sec", strconv.FormatInt(sec, 10), "seq", "41")
	}
	var now, midnight int64
	var first, next, same script.Stamp
	for {
		now, midnight = clock()/1e6, today()*day
		first, next = draw(), draw()
		plant(midnight) // this very day
		same = draw()
		if today()*day == midnight {
			break // the day has not ended meanwhile
		}
	}
	if next.Seq != first.Seq+2 || next.Sec < first.Sec {
		t.Errorf("%v comes after %v", next, first)
	}
	if same.Seq != 42 || same.Sec < now {
		t.Errorf("later on the same day: %v", same)
	}
	plant(midnight - 1)
	if s := draw(); s.Seq != 1 || s.Sec < now {
		t.Errorf("on a new day: %v", s)
	}
}

var idGeneratorWire = []step{
	{"set the start and the size", initIDs(1000, 100)},
	{"reserve a block", fetchIDs(none)},
	{"reserve another", fetchIDs(script.Block{First: 1000, Size: 100})},
	{"reserve one above what is known", fetchIDs(script.Block{First: 9000, Size: 100})},
}

var timeIDWire = []step{
	{"draw an id above one in a day to come", nextTimeIDs(script.Stamp{Sec: 2147480000, Seq: 5}, 1)},
	{"draw three", nextTimeIDs(script.Stamp{}, 3)},
}
