package script_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

func walk(pattern string, i int) op {
	return func(ctx context.Context, d driver.Driver, _ string) error {
		_, _, err := script.Walks(pattern)[i].Step(ctx, d, script.Routes(d)[0], "0", 1000)
		return err
	}
}

func walkLimiters(ctx context.Context, d driver.Driver, _ string) error {
	_, _, err := script.LimiterWalk("*").Step(ctx, d, script.Routes(d)[0], "0", 1000)
	return err
}

func lookAtLimiter(ctx context.Context, d driver.Driver, name string) error {
	r, err := d.Do(ctx, script.LookAtLimiter(d, name))
	if err == nil {
		_, _, _, err = script.DecodeLimiter(r)
	}
	return err
}

// look lists three of each, and no more.
func look(ctx context.Context, d driver.Driver, name string) error {
	r, err := d.Do(ctx, script.Look(d, name, 3))
	if err == nil {
		_, err = script.DecodeSight(r)
	}
	return err
}

// breaks frees a lock that was seen with those holders, "a:1 read".
func breaks(kind string, holders ...[2]string) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		s := script.Sight{Kind: kind}
		for _, h := range holders {
			s.Holders = append(s.Holders, script.Holder{Owner: h[0], Mode: h[1]})
		}
		_, err := s.Break(ctx, d, name, "me:0:1")
		return err
	}
}

// reading is a lock of readers, of which c:1 is dead.
var reading = slices.Concat(reads("a:1", 60), reads("b:1", 100), []string{"HSET N c:1 1"})

var readingState = []string{"N hash a:1=1 b:1=1 c:1=1 mode=read, TTL 100s", "a:1#1 string 1, TTL 60s", "b:1#1 string 1, TTL 100s"}

// writing is a writer that reads.
var writing = []string{"HSET N mode write a:1:write 2 a:1 1", "EXPIRE N 60", "SET a:1#1 1 EX 60"}

var writingState = []string{"N hash a:1=1 a:1:write=2 mode=write, TTL 60s", "a:1#1 string 1, TTL 60s"}

var lookRows = []row{
	{title: "look/nothing", do: look, reply: `["mutex" "0" "" 1 0 [] [] 0]`},
	{
		title: "look/mutex",
		given: []string{"HSET N a:1 2", "EXPIRE N 60"},
		do:    look, reply: `["mutex" "0" "" 1 0 ["a:1" "exclusive" 2 60s] [] 0]`,
		state: []string{"N hash a:1=2, TTL 60s"},
	},
	{
		title: "look/mutex without end",
		given: []string{"HSET N " + me + " 1"},
		do:    look, reply: `["mutex" "0" "" 1 0 ["` + me + `" "exclusive" 1 -1] [] 0]`,
		state: []string{"N hash " + me + "=1"},
	},
	{
		title: "look/fenced",
		given: []string{"HSET N a:1 1", "EXPIRE N 60", "SET token 9007199254740993"},
		do:    look, reply: `["fenced" "9007199254740993" "" 1 0 ["a:1" "exclusive" 1 60s] [] 0]`,
		state: []string{"N hash a:1=1, TTL 60s", "token string 9007199254740993"},
	},
	{
		title: "look/a counter that counts nothing",
		given: []string{"HSET N a:1 1", "EXPIRE N 60", "SET token x"},
		do:    look, reply: `["mutex" "0" "" 1 0 ["a:1" "exclusive" 1 60s] [] 0]`,
		state: []string{"N hash a:1=1, TTL 60s", "token string x"},
	},
	{
		title: "look/election",
		given: leads,
		do:    look, reply: `["election" "41" "A" 1 0 ["a:1" "exclusive" 1 60s] [] 0]`,
		state: []string{"N hash a:1=1 leader=A, TTL 60s", "token string 41"},
	},
	{
		title: "look/fair, more wait than are listed",
		given: append(queue("a:1 300 -", "c:1 300 -", "j:7 300 -", "x:1 300 -"), taken...),
		do:    look, reply: `["fair" "0" "" 5 1 ["b:1" "exclusive" 1 60s] ["a:1" "fair" -1 0 "c:1" "fair" -1 0 "j:7" "fair" -1 0] 4]`,
		state: []string{"N hash b:1=1, TTL 60s", "limits zset a:1+300s c:1+300s j:7+300s x:1+300s", "queue list a:1 c:1 j:7 x:1"},
	},
	{
		title: "look/fair and free",
		given: queue("a:1 300 -"),
		do:    look, reply: `["fair" "0" "" 2 0 [] ["a:1" "fair" -1 0] 1]`,
		state: []string{"limits zset a:1+300s", "queue list a:1"},
	},
	{
		title: "look/readers, one of them dead",
		given: reading,
		do:    look, reply: `["rw" "0" "" 1 0 ["a:1" "read" 1 60s "b:1" "read" 1 100s] [] 0]`,
		state: readingState,
	},
	{
		title: "look/a reader without end",
		given: []string{"HSET N mode read a:1 2", "EXPIRE N 60", "SET a:1#1 1", "SET a:1#2 1 EX 60"},
		do:    look, reply: `["rw" "0" "" 1 0 ["a:1" "read" 2 -1] [] 0]`,
		state: []string{"N hash a:1=2 mode=read, TTL 60s", "a:1#1 string 1", "a:1#2 string 1, TTL 60s"},
	},
	{
		title: "look/more holds of a reader than are looked at", // ten for each that is listed
		given: []string{"HSET N mode read a:1 90 b:1 1", "EXPIRE N 60"},
		do:    look, reply: `["rw" "0" "" 1 0 ["a:1" "read" 90 60s "b:1" "read" 1 60s] [] 0]`,
		state: []string{"N hash a:1=90 b:1=1 mode=read, TTL 60s"},
	},
	{
		title: "look/a writer that reads",
		given: writing,
		do:    look, reply: `["rw" "0" "" 1 0 ["a:1" "write" 2 60s "a:1" "read" 1 60s] [] 0]`,
		state: writingState,
	},
	{
		title: "look/permits",
		given: []string{"SET N 3", "ZADD timeout +60 a:1.0 -5 b:1.0 " + endless + " c:1.0"},
		do:    look, reply: fmt.Sprintf(`["semaphore" "0" "" 1 0 [%q "permit" 1 60s %q "permit" 1 -1] [] 0]`, permitIDs["a:1.0"], permitIDs["c:1.0"]),
		state: []string{"N string 3", "timeout zset a:1.0+60s b:1.0+past c:1.0+never"},
	},
}

// soon is a score in the queue of waiting clients: a time in µs. It is after the
// time of these tests, so that its owner has waited for no time.
const soon = "4000000000000000"

// lookQueueRows are looks at the queue of waiting clients, which is the key line.
var lookQueueRows = []row{
	{
		title: "look/one of each kind waits",
		given: append([]string{"ZADD line " + soon + " a:1:short3 " + soon + " b:2:fenced " + soon + " c:1:write"}, taken...),
		do:    look, reply: `["mutex" "0" "" 1 0 ["b:1" "exclusive" 1 60s] ["a:1" "mutex" 0 0 "b:2" "fenced" 0 0 "c:1" "rw" 0 0] 3]`,
		state: []string{"N hash b:1=1, TTL 60s", "line zset a:1:short3+never b:2:fenced+never c:1:write+never"},
	},
	{
		title: "look/more wait than are listed",
		given: append([]string{"ZADD line 1 e:1 2 a:1 3 b:1 4 c:1 5 d:1"}, taken...),
		do:    look, reply: `["mutex" "0" "" 1 2 ["b:1" "exclusive" 1 60s] ["e:1" "mutex" -1 0 "a:1" "mutex" -1 0 "b:1" "mutex" -1 0] 5]`,
		state: []string{"N hash b:1=1, TTL 60s", "line zset a:1+past b:1+past c:1+past d:1+past e:1+past"},
	},
	{
		title: "look/two queues",
		given: slices.Concat(queue("a:1 300 -"), []string{"ZADD line " + soon + " c:1"}, taken),
		do:    look, reply: `["fair" "0" "" 2 0 ["b:1" "exclusive" 1 60s] ["a:1" "fair" -1 0 "c:1" "mutex" 0 0] 2]`,
		state: []string{"N hash b:1=1, TTL 60s", "limits zset a:1+300s", "line zset c:1+never", "queue list a:1"},
	},
	{
		title: "look/free, a writer waits",
		given: []string{"ZADD line " + soon + " a:1:write"},
		do:    look, reply: `["rw" "0" "" 1 0 [] ["a:1" "rw" 0 0] 1]`,
		state: []string{"line zset a:1:write+never"},
	},
	{
		title: "look/readers, a writer waits",
		given: append([]string{"ZADD line " + soon + " c:1:write"}, reading...),
		do:    look, reply: `["rw" "0" "" 1 0 ["a:1" "read" 1 60s "b:1" "read" 1 100s] ["c:1" "rw" 0 0] 1]`,
		state: append(slices.Clone(readingState), "line zset c:1:write+never"),
	},
	{
		title: "look/entries of no client",
		given: append([]string{"ZADD line 1 x 2 a:1:read 3 :1:write"}, taken...),
		do:    look, reply: `["mutex" "0" "" 1 0 ["b:1" "exclusive" 1 60s] ["x" "" -1 0 "a:1:read" "" -1 0 ":1:write" "" -1 0] 3]`,
		state: []string{"N hash b:1=1, TTL 60s", "line zset :1:write+past a:1:read+past x+past"},
	},
	{
		title: "look/free, and an entry of no client",
		given: []string{"ZADD line 1 x"},
		do:    look, reply: `["mutex" "0" "" 1 0 [] ["x" "" -1 0] 1]`,
		state: []string{"line zset x+past"},
	},
	{
		title: "look/a queue of another type",
		given: append([]string{"SET line x"}, taken...),
		do:    look, reply: `["mutex" "0" "" 1 0 ["b:1" "exclusive" 1 60s] [] 0]`,
		state: []string{"N hash b:1=1, TTL 60s", "line string x"},
	},
	{
		title: "look/clients wait for permits",
		given: []string{"SET N 0", "ZADD timeout +60 a:1.0", "ZADD line " + soon + " a:2:permits1 " + soon + " b:10:permits12"},
		do:    look, reply: fmt.Sprintf(`["semaphore" "0" "" 1 0 [%q "permit" 1 60s] ["a:2" "semaphore" 0 1 "b:10" "semaphore" 0 12] 2]`, permitIDs["a:1.0"]),
		state: []string{"N string 0", "line zset a:2:permits1+never b:10:permits12+never", "timeout zset a:1.0+60s"},
	},
	{
		title: "look/more wait for permits than are listed", // and hold them
		given: []string{"SET N 0", "ZADD timeout +60 a:1.0 +70 b:1.0 +80 c:1.0 +90 j:7.0", "ZADD line 1 d:1:permits1 2 e:1:permits2 3 f:1 4 a:2:permits1"},
		do:    look, reply: fmt.Sprintf(`["semaphore" "0" "" 1 2 [%q "permit" 1 60s %q "permit" 1 70s %q "permit" 1 80s] ["d:1" "semaphore" -1 1 "e:1" "semaphore" -1 2 "f:1" "mutex" -1 0] 4]`, permitIDs["a:1.0"], permitIDs["b:1.0"], permitIDs["c:1.0"]),
		state: []string{"N string 0", "line zset a:2:permits1+past d:1:permits1+past e:1:permits2+past f:1+past", "timeout zset a:1.0+60s b:1.0+70s c:1.0+80s j:7.0+90s"},
	},
	{
		title: "look/no permits are taken", // the client wants more than there are
		given: []string{"SET N 3", "ZADD line " + soon + " x " + soon + " a:1:permits5"},
		do:    look, reply: `["semaphore" "0" "" 1 0 [] ["a:1" "semaphore" 0 5 "x" "" -1 0] 2]`,
		state: []string{"N string 3", "line zset a:1:permits5+never x+never"},
	},
	{
		title: "look/all leases are over",
		given: []string{"SET N -1", "ZADD timeout -5 b:1.0", "ZADD line " + soon + " a:1:permits1"},
		do:    look, reply: `["semaphore" "0" "" 1 0 [] ["a:1" "semaphore" 0 1] 1]`,
		state: []string{"N string -1", "line zset a:1:permits1+never", "timeout zset b:1.0+past"},
	},
	{
		title: "look/no semaphore", // it was deleted
		given: []string{"ZADD line " + soon + " a:1:permits1"},
		do:    look, reply: `["semaphore" "0" "" 1 0 [] ["a:1" "semaphore" 0 1] 1]`,
		state: []string{"line zset a:1:permits1+never"},
	},
	{
		title: "look/a client waits for permits, and a lock is held",
		given: append([]string{"ZADD line " + soon + " a:1:permits2"}, taken...),
		do:    look, reply: `["mutex" "0" "" 1 0 ["b:1" "exclusive" 1 60s] ["a:1" "semaphore" 0 2] 1]`,
		state: []string{"N hash b:1=1, TTL 60s", "line zset a:1:permits2+never"},
	},
	{
		title: "look/numbers that no client writes",
		given: append([]string{"ZADD line 1 a:1:permits 2 a:1:permits0 3 a:1:permits1000000000"}, taken...),
		do:    look, reply: `["mutex" "0" "" 1 0 ["b:1" "exclusive" 1 60s] ["a:1:permits" "" -1 0 "a:1:permits0" "" -1 0 "a:1:permits1000000000" "" -1 0] 3]`,
		state: []string{"N hash b:1=1, TTL 60s", "line zset a:1:permits+past a:1:permits0+past a:1:permits1000000000+past"},
	},
	{
		title: "look/numbers after other kinds",
		given: append([]string{"ZADD line 1 a:1:fenced7 2 a:1:write0 3 a:1:7"}, taken...),
		do:    look, reply: `["mutex" "0" "" 1 0 ["b:1" "exclusive" 1 60s] ["a:1:fenced7" "" -1 0 "a:1:write0" "" -1 0 "a:1:7" "" -1 0] 3]`,
		state: []string{"N hash b:1=1, TTL 60s", "line zset a:1:7+past a:1:fenced7+past a:1:write0+past"},
	},
	{
		title: "look/permits, and a queue of another type",
		given: []string{"SET N 0", "ZADD timeout +60 a:1.0", "SET line x"},
		do:    look, reply: fmt.Sprintf(`["semaphore" "0" "" 1 0 [%q "permit" 1 60s] [] 0]`, permitIDs["a:1.0"]),
		state: []string{"N string 0", "line string x", "timeout zset a:1.0+60s"},
	},
	{
		title: "look/permits, without the queue",
		given: []string{"SET N 0", "ZADD timeout +60 a:1.0", "ZADD line " + soon + " a:1:permits1"},
		do:    lookWithoutQueue, reply: fmt.Sprintf(`["semaphore" "0" "" 1 0 [%q "permit" 1 60s] [] -1]`, permitIDs["a:1.0"]),
		state: []string{"N string 0", "line zset a:1:permits1+never", "timeout zset a:1.0+60s"},
	},
	{
		title: "look/no permits are taken, without the queue",
		given: []string{"SET N 3", "ZADD line " + soon + " a:1:permits5"},
		do:    lookWithoutQueue, reply: `[""]`,
		state: []string{"N string 3", "line zset a:1:permits5+never"},
	},
	{
		title: "look/without the queue",
		given: append([]string{"ZADD line " + soon + " c:1"}, taken...),
		do:    lookWithoutQueue, reply: `["mutex" "0" "" 1 0 ["b:1" "exclusive" 1 60s] [] -1]`,
		state: []string{"N hash b:1=1, TTL 60s", "line zset c:1+never"},
	},
	{
		title: "look/fair, without the second queue",
		given: append(queue("a:1 300 -", "c:1 300 -", "j:7 300 -", "x:1 300 -"), taken...),
		do:    lookWithoutQueue, reply: `["fair" "0" "" 4 1 ["b:1" "exclusive" 1 60s] ["a:1" "fair" -1 0 "c:1" "fair" -1 0 "j:7" "fair" -1 0] 4]`,
		state: []string{"N hash b:1=1, TTL 60s", "limits zset a:1+300s c:1+300s j:7+300s x:1+300s", "queue list a:1 c:1 j:7 x:1"},
	},
}

// lookWithoutQueue looks as a user that may not read the queue.
func lookWithoutQueue(ctx context.Context, d driver.Driver, name string) error {
	call, ok := script.LookAgain(script.Look(d, name, 3), driver.ServerError("NOPERM No permissions to access a key"))
	if !ok {
		return errors.New("there is no call without the queue")
	}
	r, err := d.Do(ctx, call)
	if err == nil {
		_, err = script.DecodeSight(r)
	}
	return err
}

// decoys are what is not a lock, with a server's state that is not to change.
var decoys = map[string][]string{
	"a hash":                       {"HSET N name Ann"},
	"a hash of many":               {"HSET N a:1 1 b:1 1 c:1 1", "EXPIRE N 60"},
	"two owners":                   {"HSET N a:1 1 b:1 1", "EXPIRE N 60"},
	"an owner and something else":  {"HSET N a:1 1 name Ann", "EXPIRE N 60"},
	"only a leader":                {"HSET N leader Ann", "EXPIRE N 60"},
	"a field without end":          {"HSET N user:42 7"},
	"no count":                     {"HSET N a:1 x", "EXPIRE N 60"},
	"none":                         {"HSET N a:1 0", "EXPIRE N 60"},
	"less than none":               {"HSET N a:1 -1", "EXPIRE N 60"},
	"more than the highest count":  {"HSET N a:1 100000", "EXPIRE N 60"},
	"a word":                       {"HSET N a:one 1", "EXPIRE N 60"},
	"a writer without a mode":      {"HSET N a:1:write 1", "EXPIRE N 60"},
	"a writer among readers":       {"HSET N mode read a:1:write 1", "EXPIRE N 60"},
	"another mode":                 {"HSET N mode fast a:1 1", "EXPIRE N 60"},
	"only a mode":                  {"HSET N mode read", "EXPIRE N 60"},
	"a mode and something else":    {"HSET N mode read a:1 1 name Ann", "EXPIRE N 60"},
	"a rate":                       {"HSET N rate 1 interval 1000 type 0"},
	"the last id":                  {"HSET N sec 1 seq 1", "EXPIRE N 60"},
	"a number":                     {"SET N 7"},
	"a text with a sorted set":     {"SET N x", "ZADD timeout +60 a:1.0"},
	"a sorted set of other things": {"SET N 7", "ZADD timeout +60 x"},
	"a list":                       {"RPUSH N a:1"},
	"a number others wait for":     {"SET N 7", "ZADD line 1 a:1 2 b:1:write 3 x 4 c:1:permits1"}, // of which three are read
	"a number that is too long":    {"SET N 100000000000000000000", "ZADD line 1 a:1:permits1"},
	"a text that is waited for":    {"SET N x", "ZADD line 1 a:1:permits1"},
	"a number with other data":     {"SET N 7", "SADD timeout x", "ZADD line 1 a:1:permits1"},
}

// Data that is not a lock is not mistaken for one, neither by look nor by walk.
func TestDecoys(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	for title, given := range decoys {
		t.Run(title, func(t *testing.T) {
			l := newLab(t, s, d, "N")
			l.run(given...)
			if got := l.call(d, look); got != `[""]` {
				t.Errorf("looks like %s", got)
			}
			if got := l.call(d, walk("*", 0)); got != `["0" []]` {
				t.Errorf("listed: %s", got)
			}
		})
	}
}

var breakRows = []row{
	{title: "break/free", do: breaks("mutex", [2]string{"a:1", "exclusive"}), reply: "0"},
	{
		title: "break/mutex",
		given: []string{"HSET N a:1 2", "EXPIRE N 60"},
		do:    breaks("mutex", [2]string{"a:1", "exclusive"}), reply: "1", again: "0",
		heard: "0 on channel",
	},
	{
		title: "break/newer hold",
		given: []string{"HSET N b:1 1", "EXPIRE N 60"},
		do:    breaks("mutex", [2]string{"a:1", "exclusive"}), reply: "0",
		state: []string{"N hash b:1=1, TTL 60s"},
	},
	{
		title: "break/election",
		given: leads,
		do:    breaks("election", [2]string{"a:1", "exclusive"}), reply: "1", again: "0",
		state: []string{"token string 41"},
		heard: "0 on channel",
	},
	{
		title: "break/others wait, who came since", // it was a mutex when it was seen
		given: append(queue("j:7 300 -", "c:1 300 -"), taken...),
		do:    breaks("mutex", [2]string{"b:1", "exclusive"}), reply: "1", again: "0",
		state: []string{"limits zset c:1+300s j:7+300s", "queue list j:7 c:1"},
		heard: "0 on channel, 0 on channel:j:7",
	},
	{
		title: "break/another type",
		given: []string{"SET N x"},
		do:    breaks("mutex", [2]string{"a:1", "exclusive"}), reply: "0",
		state: []string{"N string x"},
	},
	{
		title: "break/no lock any more",
		given: []string{"HSET N a:1 1 name Ann"},
		do:    breaks("mutex", [2]string{"a:1", "exclusive"}), reply: "0",
		state: []string{"N hash a:1=1 name=Ann"},
	},
	{
		title: "break/read now, exclusive before",
		given: reads("a:1", 60),
		do:    breaks("mutex", [2]string{"a:1", "exclusive"}), reply: "0",
		state: []string{"N hash a:1=1 mode=read, TTL 60s", "a:1#1 string 1, TTL 60s"},
	},
	{
		title: "break/readers",
		given: reading,
		do:    breaks("rw", [2]string{"a:1", "read"}, [2]string{"b:1", "read"}), reply: "1", again: "0",
		heard: "0 on rw",
	},
	{
		title: "break/a reader has left",
		given: reads("b:1", 60),
		do:    breaks("rw", [2]string{"a:1", "read"}, [2]string{"b:1", "read"}), reply: "1", again: "0",
		heard: "0 on rw",
	},
	{
		title: "break/a reader has come",
		given: reading,
		do:    breaks("rw", [2]string{"a:1", "read"}), reply: "0",
		state: readingState,
	},
	{
		title: "break/only a dead reader",
		given: []string{"HSET N mode read a:1 1", "EXPIRE N 60"},
		do:    breaks("rw", [2]string{"a:1", "read"}), reply: "0",
		state: []string{"N hash a:1=1 mode=read, TTL 60s"},
	},
	{
		title: "break/more holds than can be looked at", // of which any may be alive
		given: []string{"HSET N mode read a:1 1 b:1 100000", "EXPIRE N 60", "SET a:1#1 1 EX 60", "SET b:1#100000 1 EX 60"},
		do:    breaks("rw", [2]string{"a:1", "read"}), reply: "0",
		state: []string{"N hash a:1=1 b:1=100000 mode=read, TTL 60s", "a:1#1 string 1, TTL 60s", "b:1#100000 string 1, TTL 60s"},
	},
	{
		title: "break/a writer that reads",
		given: writing,
		do:    breaks("rw", [2]string{"a:1", "read"}, [2]string{"a:1", "write"}), reply: "1", again: "0",
		heard: "1 on rw, 0 on rw",
	},
	{
		title: "break/a writer that reads meanwhile",
		given: writing,
		do:    breaks("rw", [2]string{"a:1", "write"}), reply: "0",
		state: writingState,
	},
	{
		title: "break/written now, read before",
		given: []string{"HSET N mode write a:1:write 1", "EXPIRE N 60"},
		do:    breaks("rw", [2]string{"a:1", "read"}), reply: "0",
		state: []string{"N hash a:1:write=1 mode=write, TTL 60s"},
	},
	{
		title: "break/memory full", full: true,
		given: []string{"HSET N a:1 1", "EXPIRE N 60"},
		do:    breaks("mutex", [2]string{"a:1", "exclusive"}), reply: "1", again: "0",
		heard: "0 on channel",
	},
}

// scanRows go through all keys of a server.
var scanRows = []row{
	{title: "scan/nothing", do: walk("*", 0), reply: `["0" []]`},
	{
		title: "scan/a lock among others",
		given: []string{"HSET N a:1 1", "EXPIRE N 60", "HSET hash name Ann", "SET x 1", "ZADD z:timeout 1 m"},
		do:    walk("*", 0), reply: `["0" ["N"]]`,
		state: []string{"N hash a:1=1, TTL 60s", "hash hash name=Ann", "x string 1", "z:timeout zset 6d+past"},
	},
	{
		title: "scan/leases",
		given: []string{"HSET N a:1 1", "EXPIRE N 60", "ZADD z:timeout 1 m"},
		do:    walk("*", 1), reply: `["0" ["z:timeout"]]`,
		state: []string{"N hash a:1=1, TTL 60s", "z:timeout zset 6d+past"},
	},
	{
		title: "scan/queues",
		given: []string{"HSET N a:1 1", "EXPIRE N 60", "ZADD line 1 m", "ZADD z:timeout 1 m"},
		do:    walk("*", 2), reply: `["0" ["holdfast:queue:{N}"]]`,
		state: []string{"N hash a:1=1, TTL 60s", "line zset m+past", "z:timeout zset 6d+past"},
	},
	{
		title: "scan/limiters",
		given: []string{rated(ten), "HSET lock a:1 1", "HSET few rate 1 interval 1", "SET x 1"},
		do:    walkLimiters, reply: `["0" ["N"]]`,
		state: []string{rate(ten), "few hash interval=1 rate=1", "lock hash a:1=1", "x string 1"},
	},
	{
		title: "scan/by a pattern",
		given: []string{"HSET N a:1 1", "EXPIRE N 60", "HSET other a:1 1", "EXPIRE other 60"},
		do:    walk("o[st]*", 0), reply: `["0" ["other"]]`,
		state: []string{"N hash a:1=1, TTL 60s", "other hash a:1=1, TTL 60s"},
	},
}

// lookLimiterRows read rate limiters, and change nothing.
var lookLimiterRows = []row{
	{title: "look at a limiter/none", do: lookAtLimiter, reply: "[]"},
	{
		title: "look at a limiter/unused",
		given: []string{rated(keptFor(ten, 120))},
		do:    lookAtLimiter, reply: "[10 60s 0 120s 0]",
		state: []string{rate(keptFor(ten, 120))},
	},
	{
		title: "look at a limiter/used",
		given: []string{rated(ten), "SET ./value 6", "ZADD ./permits +-25 @j:7*4"},
		do:    lookAtLimiter, reply: "[10 60s 0 0 4]",
		state: []string{rate(ten), "permits zset @j:7*4+past", "value string 6"},
	},
	{
		title: "look at a limiter/used before the last interval",
		given: []string{rated(ten), "SET ./value 6", "ZADD ./permits +-65 @j:7*4"},
		do:    lookAtLimiter, reply: "[10 60s 0 0 0]",
		state: []string{rate(ten), "permits zset @j:7*4+past", "value string 6"},
	},
	{
		title: "look at a limiter/of each client",
		given: []string{rated(tenOfEach)},
		do:    lookAtLimiter, reply: "[10 60s 1 0 -1]",
		state: []string{rate(tenOfEach)},
	},
	{
		title: "look at a limiter/a log of another type",
		given: []string{rated(ten), "SET ./permits x"},
		do:    lookAtLimiter, reply: "[10 60s 0 0 -1]",
		state: []string{rate(ten), "permits string x"},
	},
	{
		title: "look at a limiter/another type",
		given: []string{"SET N x"},
		do:    lookAtLimiter, reply: "[]", state: []string{"N string x"},
	},
	{
		title: "look at a limiter/a lock",
		given: []string{"HSET N a:1 1"},
		do:    lookAtLimiter, reply: "[]", state: []string{"N hash a:1=1"},
	},
}

var inspectRows = slices.Concat(lookRows, lookQueueRows, lookLimiterRows, breakRows, scanRows, clientRows)

func TestInspect(t *testing.T) {
	check(t, slices.Concat(lookRows, lookQueueRows, lookLimiterRows, breakRows))
	checkNamed(t, scanRows, "N")
}

// The name of a leased semaphore is derived from the key of its leases, also if
// the name has a hash tag.
func TestLeasedNames(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	s.Do(t, "ZADD", "{sem}:timeout", "1", "x")
	s.Do(t, "ZADD", "a{sem}b:timeout", "1", "x")
	s.Do(t, "ZADD", "sem:timeout", "1", "x") // its semaphore does not exist
	for pattern, want := range map[string][]string{
		"*":     {"a{sem}b", "sem", "{sem}"},
		"s*":    {"sem"},
		"a*":    {"a{sem}b"},
		"{sem}": {"{sem}"},
		"x":     nil,
	} {
		var got []string
		for _, w := range script.Walks(pattern)[1:] { // those of queues find nothing
			_, names, err := w.Step(t.Context(), d, script.Routes(d)[0], "0", 1000)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, names...)
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
}

// The name of a lock is derived from the key of its queue, also if the name has a hash tag. A
// key that Holdfast does not write is not that of a lock.
func TestQueuedNames(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	for _, rest := range []string{
		"{job}", "a{job}b", "job", "{job}:readers", "{}", "", "{a\nb}", "{a\xffb}", "{" + strings.Repeat("x", script.MaxName+1) + "}", "{job", "job}",
	} {
		s.Do(t, "ZADD", "holdfast:queue:"+rest, "1", "x")
	}
	s.Do(t, "SET", "holdfast:queue:{text}", "x")
	for pattern, want := range map[string][]string{
		"*":     {"a{job}b", "job", "{job}:readers"},
		"j*":    {"job"},
		"a*":    {"a{job}b"},
		"{job}": {"{job}"},
		"x":     nil,
	} {
		var got []string
		for _, w := range script.Walks(pattern)[1:] {
			_, names, err := w.Step(t.Context(), d, script.Routes(d)[0], "0", 1000)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, names...)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
	for name, want := range map[string]string{"job": "{job}", "{job}": "job", "a{job}": "", "{job}a": "", "{a}{b}": ""} {
		if got := script.Twin(name); got != want {
			t.Errorf("the twin of %q is %q, want %q", name, got, want)
		}
	}
}

var inspectWire = []step{
	{"go through the keys", walk("*", 0)},
	{"go on through the leases of permits", walk("jo*", 1)},
	{"go on through the queues", walk("jo*", 3)},
	{"look at what is free", look},
	{"take it", acquire(fenced, again(me, 1, 30))},
	{"go through the keys", walk("*", 0)},
	{"look at it", look},
	{"break what another held", breaks("fenced", [2]string{other, "exclusive"})},
	{"break it", breaks("fenced", [2]string{me, "exclusive"})},
	{"take it to read", acquire(read, again(me, 1, 30))},
	{"let another read, too", acquire(read, again(other, 1, 60))},
	{"look at it", look},
	{"break what one has read", breaks("rw", [2]string{me, "read"})},
	{"break it", breaks("rw", [2]string{me, "read"}, [2]string{other, "read"})},
	{"write", acquire(write, again(me, 1, 30))},
	{"look at it", look},
	{"break it", breaks("rw", [2]string{me, "write"})},
	{"set the number of permits", setPermits(5, me+":2", 0)},
	{"take one", acquire(leased(1), again(me, 1, 30))},
	{"look at it", look},
	{"break it", breaks("semaphore", [2]string{script.NewLeased("", 1).Ref(me).IDs()[0], "permit"})},
}
