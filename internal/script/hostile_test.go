package script_test

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

var (
	hostileSeed   = flag.Uint64("hostile.seed", 0, "seed of the contents in TestHostileData; 0: a new one")
	hostileLong   = flag.Bool("hostile.long", false, "try all contents in TestHostileData, and not only most of the small and some of the large ones")
	hostileRounds = flag.Int("hostile.rounds", 300, "random combinations of contents in TestHostileData")
)

// longestScript is how much processor time of the server a script may take.
const longestScript = 100 * time.Millisecond

// TestHostileData runs every script against every kind of key with contents
// that no client of ours has written: wrong types, numbers that are none or too
// large, deep queues, big elements, and data that belongs to others. Each call
// must be answered soon, by a reply that other calls do not contradict or by an
// error that names the key, and must leave data of others alone.
func TestHostileData(t *testing.T) {
	seed := *hostileSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("run with -args -hostile.seed=%d to repeat this", seed)
	h := newHostile(t, seed)
	covered := make(map[string]bool)
	for _, g := range targets {
		covered[g.script] = true
		h.rand = rand.New(rand.NewPCG(seed, uint64(len(covered))))
		t.Run(g.script, func(t *testing.T) {
			h.T = t
			h.every(g)
		})
	}
	t.Run("combined", func(t *testing.T) {
		h.T = t
		for i := range *hostileRounds {
			h.rand = rand.New(rand.NewPCG(seed, uint64(1000+i)))
			h.combined(targets[h.rand.IntN(len(targets))])
		}
	})
	for _, name := range script.Names() {
		if !covered[name] && !strings.HasPrefix(name, "probe") { // these read no key
			t.Errorf("script %s has no target", name)
		}
	}
}

// A target is a script, the keys that it works on, by what they should hold, and
// a call of it that judges the reply.
type target struct {
	script string
	keys   map[string]string
	do     func(h *hostile, name string) error
	typed  bool // whatever has the type of a key belongs to it
}

// A content is what a key holds.
type content struct {
	what     string
	commands [][]string
	foreign  bool   // it belongs to others, and must stay as it is
	typed    bool   // which shows by its type
	value    string // of a string
}

// hostile is one case after another on one server.
type hostile struct {
	*testing.T
	s      *redistest.Server
	d      driver.Driver
	rand   *rand.Rand
	frozen map[string]bool // scripts that have frozen the server

	what   string             // the case
	held   map[string]content // by key
	called []driver.Call
}

func newHostile(t *testing.T, seed uint64) *hostile {
	t.Helper()
	h := &hostile{T: t, s: redistest.Start(t, "--lua-time-limit", "300"), frozen: make(map[string]bool), rand: rand.New(rand.NewPCG(seed, 0))}
	h.d = connect(t, h.s.URL())
	return h
}

// Do runs a call and notes it.
func (h *hostile) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	h.called = append(h.called, c)
	return h.d.Do(ctx, c)
}

// A caller is a driver that notes calls.
type caller struct {
	driver.Driver
	h *hostile
}

func (c caller) Do(ctx context.Context, call driver.Call) (driver.Reply, error) {
	return c.h.Do(ctx, call)
}

func (h *hostile) driver() driver.Driver { return caller{h.d, h} }

// wrong reports what is wrong with the case.
func (h *hostile) wrong(format string, args ...any) {
	h.Helper()
	h.Errorf("%s: %s", h.what, fmt.Sprintf(format, args...))
}

// every attacks each key of a target with each content, beside keys that are as
// they should be and beside none.
func (h *hostile) every(g target) {
	for _, key := range slices.Sorted(maps.Keys(g.keys)) {
		contents := h.contents(key, g.keys[key])
		large := slices.DeleteFunc(slices.Clone(contents), func(c content) bool { return !c.costly() })
		if !*hostileLong && len(large) > 0 {
			contents = slices.DeleteFunc(contents, content.costly)
			if h.rand.IntN(2) == 0 {
				contents = append(contents, large[h.rand.IntN(len(large))])
			}
		}
		for _, c := range contents {
			besides := []bool{true, false}
			if !*hostileLong {
				if !c.typed && !c.costly() && h.rand.IntN(3) == 0 {
					continue // of what is alike, most is enough
				}
				besides = []bool{h.rand.IntN(3) > 0 || c.costly() || len(g.keys) == 1}
			}
			for _, beside := range besides {
				if !beside && (len(g.keys) == 1 || c.costly()) {
					continue
				}
				held := map[string]content{key: c}
				for other, role := range g.keys {
					if beside && other != key {
						held[other] = h.sound(other, role)
					}
				}
				h.attack(g, key, held)
			}
		}
	}
}

// costly reports whether it takes long to bring about.
func (c content) costly() bool {
	return len(c.commands) > 0 && strings.HasPrefix(c.commands[0][0], "!")
}

// combined attacks all keys of a target at once.
func (h *hostile) combined(g target) {
	held := make(map[string]content)
	for _, key := range slices.Sorted(maps.Keys(g.keys)) {
		cs := slices.DeleteFunc(h.contents(key, g.keys[key]), content.costly)
		switch n := h.rand.IntN(len(cs) + len(cs)/4 + 1); {
		case n < len(cs):
			held[key] = cs[n]
		case n > len(cs):
			held[key] = h.sound(key, g.keys[key])
		}
	}
	h.attack(g, "", held)
}

// attack brings a state about and runs the target on it.
func (h *hostile) attack(g target, attacked string, held map[string]content) {
	if h.frozen[g.script] || h.Failed() && testing.Short() {
		return
	}
	h.held = held
	h.what = g.script
	var foreign, words []string
	for _, key := range slices.Sorted(maps.Keys(held)) {
		c := held[key]
		h.what += fmt.Sprintf("; %s: %s", key, c.what)
		if c.foreign && (!g.typed || c.typed) {
			foreign = append(foreign, key)
		}
		for _, cmd := range c.commands {
			words = append(append(words, strconv.Itoa(len(cmd))), cmd...)
		}
	}
	var least time.Duration
	for try := range 3 {
		began, before, ok := h.look(prepare, foreign, words)
		if !ok {
			return
		}
		h.called = h.called[:0]
		err := h.call(g)
		if h.frozen[g.script] {
			return
		}
		ended, after, ok := h.look(digests, foreign, nil)
		if !ok {
			return
		}
		if took := ended - began; try == 0 || took < least {
			least = took
		}
		if try == 0 {
			h.judge(err, attacked)
			for i, key := range foreign {
				if before[i] != after[i] {
					h.wrong("%s belongs to others and has changed: %s, was %s", key, after[i], before[i])
				}
			}
			h.known(g)
		}
		if least <= longestScript {
			return
		}
		// The machine may be busy: a script that is slow is slow again.
	}
	h.wrong("took %v of the server", least)
}

// known checks that the target names every key that its script was given.
func (h *hostile) known(g target) {
	for _, c := range h.called {
		for _, key := range c.Keys {
			if _, ok := g.keys[key]; !ok && !unkept.MatchString(key) {
				h.wrong("the target does not name the key %q", key)
			}
		}
	}
}

// unkept begin what is given to scripts as keys and is none: channels, the
// beginnings of names, and keys by which to find a server.
var unkept = regexp.MustCompile(`^(redisson_(lock__channel|rwlock|sc):.*|holdfast:(leader|scan|restore):.*|\{N[34]?\}|\{N[34]?\}:.*:rwlock_timeout)$`)

// judge checks the error of a call.
func (h *hostile) judge(err error, attacked string) {
	h.Helper()
	var typed *driver.Error
	switch {
	case err == nil:
	case !errors.As(err, &typed):
		h.wrong("the error has no class: %v", err)
	case strings.Contains(err.Error(), "unexpected reply"):
		h.wrong("the reply was not understood: %v", err)
	case typed.Class != driver.Fatal:
		h.wrong("the error is %v: %v", typed.Class, err)
	case strings.Contains(err.Error(), "user_script"), strings.Contains(err.Error(), "attempt to"):
		h.wrong("the script failed by accident: %v", err)
	case attacked != "" && typed.Code == "ERR" && !strings.Contains(err.Error(), attacked):
		h.wrong("the error does not name %s: %v", attacked, err)
	}
}

// call runs the target. A script that does not end is ended, if need be with the
// server.
func (h *hostile) call(g target) error {
	var frozen, ended atomic.Bool
	over := make(chan struct{})
	guard := time.AfterFunc(frozenAfter, func() {
		defer close(over)
		frozen.Store(true)
		if _, err := h.s.Try("SCRIPT", "KILL"); err != nil {
			ended.Store(true)
			_, _ = h.s.Try("SHUTDOWN", "NOSAVE")
		}
	})
	defer guard.Stop()
	err := g.do(h, "N")
	if !guard.Stop() {
		<-over
	}
	if !frozen.Load() {
		return err
	}
	h.frozen[g.script] = true
	if ended.Load() {
		h.s.Restart()
	}
	h.wrong("froze the server, beyond SCRIPT KILL: %v", ended.Load())
	return nil
}

// frozenAfter is how long a call may take before its script is ended. Other work
// on the machine may make it slow; processor time is what is judged.
const frozenAfter = 5 * time.Second

// look runs a script of the test and returns the processor time that the server
// has used, before or after that, and what the foreign keys hold.
func (h *hostile) look(source string, keys, args []string) (cpu time.Duration, held []string, ok bool) {
	h.Helper()
	words := append(append([]string{"EVAL", source, strconv.Itoa(len(keys))}, keys...), args...)
	reply, err := h.s.Try(words...)
	list, good := reply.([]any)
	if err != nil || !good || len(list) != len(keys)+1 {
		h.Errorf("%s: %v: %v", h.what, reply, err)
		return 0, nil, false
	}
	for _, e := range list[1:] {
		held = append(held, fmt.Sprint(e))
	}
	return processorTime(fmt.Sprint(list[0])), held, true
}

// processorTime returns what INFO cpu says of the thread that runs scripts, or,
// before Redis 7, of all.
func processorTime(info string) time.Duration {
	var all, main float64
	for line := range strings.SplitSeq(info, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		v, _ := strconv.ParseFloat(value, 64)
		switch name {
		case "used_cpu_sys", "used_cpu_user":
			all += v
		case "used_cpu_sys_main_thread", "used_cpu_user_main_thread":
			main += v
		}
	}
	if main == 0 {
		main = all
	}
	return time.Duration(main * float64(time.Second))
}

// digest is what is seen of the keys of others: their contents, and whether they
// end.
const digest = `
local function digest(key)
  local dump, ttl = redis.call('dump', key), redis.call('pttl', key)
  return (dump and redis.sha1hex(dump) or 'gone') .. (ttl < 0 and '' or ttl > 1000000 and ', ends late' or ', ends soon')
end
`

// digests looks at the processor time and then at the keys.
const digests = digest + `
local seen = { redis.call('info', 'cpu') }
for i, key in ipairs(KEYS) do seen[1 + i] = digest(key) end
return seen
`

// prepare runs commands on an empty server. Those that begin with ! make a key
// large.
const prepare = digest + `
redis.call('flushall', 'async')
local function rows(n, row)
  for from = 1, n, 1000 do
    local words = {}
    for i = from, math.min(from + 999, n) do row(words, i) end
    redis.call(unpack(words))
  end
end
local function start(words, ...) if #words == 0 then for _, w in ipairs({...}) do words[#words + 1] = w end end end
local deep = {
  ['!list'] = function(key, n) rows(n, function(w, i)
    start(w, 'rpush', key)
    w[#w + 1] = 'dead:' .. i
  end) end,
  ['!zset'] = function(key, n, kind, score) rows(n, function(w, i)
    start(w, 'zadd', key)
    w[#w + 1] = score
    local id = string.format('%016d', i)
    w[#w + 1] = kind == 'id' and id or kind == 'log' and struct.pack('Bc0I', 16, id, 1) or 'dead:' .. i
  end) end,
  ['!hash'] = function(key, n, value)
    rows(n, function(w, i)
      start(w, 'hset', key)
      w[#w + 1] = '00000000-1111-4222-8333-444444444444:' .. i
      w[#w + 1] = value
    end)
    redis.call('hset', key, 'mode', 'read')
    redis.call('pexpire', key, 60000)
  end,
  ['!big'] = function(key, kind)
    local bytes = string.rep('x', 5 * 1024 * 1024)
    for i = 1, 12 do
      if kind == 'list' then redis.call('rpush', key, bytes .. ':' .. i)
      elseif kind == 'zset' then redis.call('zadd', key, 1e15, bytes .. ':' .. i)
      elseif kind == 'hash' then redis.call('hset', key, bytes .. ':' .. i, 1) end
    end
    if kind == 'hash' then redis.call('hset', key, 'mode', 'read') end
  end,
}
local i = 1
while i <= #ARGV do
  local n = tonumber(ARGV[i])
  local cmd = { unpack(ARGV, i + 1, i + n) }
  if deep[cmd[1]] then deep[cmd[1]](unpack(cmd, 2)) else redis.call(unpack(cmd)) end
  i = i + n + 1
end
local seen = {}
for i, key in ipairs(KEYS) do seen[1 + i] = digest(key) end
seen[1] = redis.call('info', 'cpu')
return seen
`

// numbers are texts where a number should be. The first few are numbers.
var numbers = []string{
	"1", "0", "-1", "3", "2000000", "9007199254740992", "9007199254740993", "9223372036854775806", "9223372036854775807",
	"9000000000000000000", "-9223372036854775808",
	"9223372036854775808", "99999999999999999999999", "1.5", "-0.5", "1e3", "1e400", "-1e400", "inf", "-inf", "nan", "0x10", "", " 5", "05", "-0", "hello",
}

// scores are those of sorted sets.
var scores = []string{"-1", "0", "1.5", "-9e18", "-inf", "inf", "+soon", "1e15", "9007199254740993", "922337203685477", "9223372036854775807", "1e300"}

func whole(s string) bool {
	n, err := strconv.ParseInt(s, 10, 64)
	return err == nil && strconv.FormatInt(n, 10) == s
}

// contents returns what a key with that role may hold.
func (h *hostile) contents(key, role string) []content {
	cs := []content{
		{what: "a list", commands: [][]string{{"RPUSH", key, "x:1", "y"}}, foreign: role != "queue"},
		{what: "a set", commands: [][]string{{"SADD", key, "x:1", "1"}}, foreign: true},
		{what: "a stream", commands: [][]string{{"XADD", key, "1-1", "mode", "read"}}, foreign: true},
	}
	add := func(foreign bool, what string, commands ...[]string) {
		cs = append(cs, content{what: what, commands: commands, foreign: foreign})
	}
	text := func(foreign bool, s string) {
		cs = append(cs, content{what: fmt.Sprintf("%q", s), commands: [][]string{{"SET", key, s}}, foreign: foreign, value: s})
	}
	big := func(kind string) { add(false, "a big "+kind, []string{"!big", key, kind}) }
	isString, isHash, isZset := false, false, false
	switch role {
	case "count", "long":
		isString = true
		for _, n := range numbers {
			text(!whole(n), n)
		}
	case "free", "basis", "token", "size":
		isString = true
		for _, n := range numbers {
			text(!whole(n), n)
		}
	case "mark":
		isString = true
		for _, n := range numbers {
			text(!strings.Contains(n, " "), n)
			text(false, n+" "+numbers[h.rand.IntN(len(numbers))])
			text(false, "7 "+n)
		}
	case "hold", "value":
		isString = true
		text(false, "hello")
		text(false, strings.Repeat("x", 1<<20))
	case "lock", "rw":
		isHash = true
		for _, f := range foreignHashes {
			for _, ttl := range []bool{false, true} {
				cmds := [][]string{append([]string{"HSET", key}, f...)}
				if ttl {
					cmds = append(cmds, []string{"PEXPIRE", key, "60000"})
				}
				add(true, fmt.Sprintf("a hash %.60q, TTL %v", f, ttl), cmds...)
			}
		}
		for _, n := range numbers {
			add(false, "a lock held "+n+" times", []string{"HSET", key, javaOwner, n}, []string{"PEXPIRE", key, "60000"})
			add(false, "a read lock held "+n+" times", []string{"HSET", key, "mode", "read", javaOwner, n}, []string{"PEXPIRE", key, "60000"})
			add(false, "a read lock that a:1 holds "+n+" times", []string{"HSET", key, "mode", "read", "a:1", n, javaOwner, "1"}, []string{"PEXPIRE", key, "60000"})
			add(false, "a write lock held "+n+" times", []string{"HSET", key, "mode", "write", javaOwner + ":write", n}, []string{"PEXPIRE", key, "60000"})
			add(false, "a lock that a:1 holds "+n+" times", []string{"HSET", key, "a:1", n}, []string{"PEXPIRE", key, "60000"})
			add(false, "a write lock that a:1 holds "+n+" times", []string{"HSET", key, "mode", "write", "a:1:write", n, "a:1", n}, []string{"PEXPIRE", key, "60000"})
		}
		add(false, "a lock for ages", []string{"HSET", key, javaOwner, "1"}, []string{"PEXPIRE", key, "9000000000000000000"})
		add(false, "many dead readers", []string{"!hash", key, "30000", "1"})
		add(false, "many readers that entered often", []string{"!hash", key, "300", "1000000"})
		big("hash")
	case "queue":
		add(false, "a queue", []string{"RPUSH", key, "x:1", "", "y"})
		add(false, "a deep queue", []string{"!list", key, "30000"})
		big("list")
	case "times", "leases", "log":
		isZset = true
		kind := map[string]string{"times": "owner", "leases": "id", "log": "log"}[role]
		members := map[string][]string{
			"times": {javaOwner, "", "a:1", "a:1:write"}, "leases": {"0123456789abcdef", permitIDs["a:1.0"], permitIDs["j:7.0"]},
			"log": {longEntry("@j:7*1"), longEntry("@j:7*10"), longEntry("@a:1*1")},
		}[role]
		for _, s := range scores {
			if s == "+soon" {
				s = strconv.FormatInt(time.Now().UnixMilli()+60_000, 10)
			}
			for _, m := range members {
				add(false, fmt.Sprintf("%x at %s", m, s), []string{"ZADD", key, s, m})
			}
			if role != "times" {
				add(true, "others' member at "+s, []string{"ZADD", key, s, "hello"}, []string{"ZADD", key, s, ""})
			}
		}
		for _, s := range []string{"0", strconv.FormatInt(time.Now().UnixMilli()-1000, 10), strconv.FormatInt(time.Now().UnixMilli()+3_600_000, 10)} {
			add(false, "a deep set at "+s, []string{"!zset", key, "20000", kind, s})
			if role == "log" {
				add(false, "a deep log at "+s+", and one entry now", []string{"!zset", key, "40000", kind, s}, []string{"ZADD", key, strconv.FormatInt(time.Now().UnixMilli(), 10), longEntry("@j:7*1")})
			}
		}
		big("zset")
	case "rate":
		isHash = true
		for _, n := range numbers {
			for _, field := range []string{"rate", "interval", "keepAliveTime", "type"} {
				f := map[string]string{"rate": "10", "interval": "60000", "type": "0", "keepAliveTime": "0"}
				f[field] = n
				cmd := []string{"HSET", key}
				for _, k := range slices.Sorted(maps.Keys(f)) {
					cmd = append(cmd, k, f[k])
				}
				add(false, "a rate with "+field+" "+n, cmd)
			}
		}
		for _, f := range foreignHashes {
			add(true, fmt.Sprintf("a hash %.60q", f), append([]string{"HSET", key}, f...))
		}
		add(true, "others' hash with a rate", []string{"HSET", key, "rate", "5", "currency", "EUR"})
	case "stamp":
		isHash = true
		for _, n := range numbers {
			add(!whole(n), "sec "+n, []string{"HSET", key, "sec", n, "seq", "1"})
			add(!whole(n), "seq "+n, []string{"HSET", key, "sec", "1", "seq", n})
		}
		for _, f := range foreignHashes {
			add(true, fmt.Sprintf("a hash %.60q", f), append([]string{"HSET", key}, f...))
		}
	default:
		panic("no such role: " + role)
	}
	if !isString {
		text(true, "hello")
		text(true, "1")
	}
	if !isHash {
		add(true, "a hash", []string{"HSET", key, "mode", "read", "x:1", "1"})
	}
	if !isZset {
		add(true, "a sorted set", []string{"ZADD", key, "1", "x:1"})
	}
	for i := range cs {
		of := map[bool]string{isString: "SET", isHash: "HSET", isZset: "ZADD"}[true]
		cs[i].typed = cs[i].commands[0][0] != of || role == "rate"
	}
	return cs
}

// javaOwner is an owner as Java names it.
const javaOwner = "00000000-1111-4222-8333-444444444444:7"

// foreignHashes look like locks at first sight and are none: a field is no
// owner, or its value no count.
var foreignHashes = [][]string{
	{"mode", "dark", "name", "bob"},
	{"mode", "read", "name", "bob"},
	{"mode", "write", "name", "bob"},
	{"mode", "read", "x:1", "hello", "name", "bob"},
	{"leader", "bob", "x:1", "1", "name", "bob"},
	{"leader", "bob", "team", "red"},
	{"name", "bob"},
	{"mode", "read", "x:1", "1", "y", "2"},
	{"mode", "dark", "x:1", "1", "y", "2"},
	{"x:1", "1", "y:2", "2", "z", "3"},
	{"x", "1"},
}

// sound returns what a key with that role holds when all is well.
func (h *hostile) sound(key, role string) content {
	soon := strconv.FormatInt(time.Now().UnixMilli()+60_000, 10)
	c := content{what: "as it should be"}
	one := func(words ...string) { c.commands = append(c.commands, words) }
	switch role {
	case "count", "long":
		c.value = "1"
		one("SET", key, "1")
	case "free":
		one("SET", key, "9")
	case "basis":
		one("SET", key, "10")
	case "token":
		one("SET", key, "41")
	case "size":
		one("SET", key, "5000")
	case "mark":
		one("SET", key, "6 done", "PX", "600000")
	case "hold":
		one("SET", key, "1", "PX", "60000")
	case "value":
		one("SET", key, "v")
	case "lock":
		one("HSET", key, javaOwner, "1")
		one("PEXPIRE", key, "60000")
	case "rw":
		one("HSET", key, "mode", "read", "a:1", "1", "b:1", "1")
		one("PEXPIRE", key, "60000")
	case "queue":
		one("RPUSH", key, "x:1", "y:1")
	case "times":
		one("ZADD", key, soon, "x:1", soon, "y:1")
	case "leases":
		one("ZADD", key, soon, permitIDs["a:1.0"])
	case "log":
		one("ZADD", key, strconv.FormatInt(time.Now().UnixMilli(), 10), longEntry("@j:7*1"))
	case "rate":
		one("HSET", key, "rate", "10", "interval", "60000", "type", "0", "keepAliveTime", "0")
	case "stamp":
		one("HSET", key, "sec", "1", "seq", "1")
	}
	return c
}

// got returns what the server answers to a command, or what is wrong with it.
func (h *hostile) got(words ...string) string {
	reply, err := h.s.Try(words...)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(reply)
}

// list returns what the server lists, or nothing.
func (h *hostile) list(words ...string) (list []string) {
	reply, _ := h.s.Try(words...)
	elements, _ := reply.([]any)
	for _, e := range elements {
		list = append(list, fmt.Sprint(e))
	}
	return list
}

// verdict checks a verdict, and reports whether it is a grant.
func (h *hostile) verdict(v script.Verdict, err error) bool {
	h.Helper()
	if err != nil {
		return false
	}
	if !v.Granted() {
		if v.TTL < -time.Millisecond {
			h.wrong("not granted, and %v are left", v.TTL)
		}
		return false
	}
	return true
}

func (h *hostile) clockToken(token int64) {
	h.Helper()
	if d := time.Since(time.UnixMicro(token)).Abs(); d > time.Hour {
		h.wrong("the token %d is %v off the clock", token, d)
	}
}

// exclusive checks a grant of a lock that one owner holds.
func (h *hostile) exclusive(name, field string) {
	h.Helper()
	for _, f := range h.list("HKEYS", name) {
		if f != field && f != "mode" && f != "leader" && f != strings.TrimSuffix(field, ":write") {
			h.wrong("granted to %s beside %.60q", field, f)
		}
	}
	if h.got("HEXISTS", name, field) != "1" {
		h.wrong("granted, and %s does not hold it", field)
	}
}

// before returns the number that a key held.
func (h *hostile) before(key string) (n int64, ok bool) {
	c, exists := h.held[key]
	if !exists || c.value == "" {
		return 0, !exists
	}
	if !whole(c.value) {
		return 0, false
	}
	n, err := strconv.ParseInt(c.value, 10, 64)
	return n, err == nil
}

const newcomer = "n:9"

func grabs(k func(string) kind, c script.Claim, field string) func(*hostile, string) error {
	return func(h *hostile, name string) error {
		v, err := script.Acquire(h.Context(), h.driver(), k(name), c)
		if h.verdict(v, err) {
			h.exclusive(name, field)
			h.clockToken(v.Token)
		}
		return err
	}
}

func grabFenced(h *hostile, name string) error {
	v, err := script.Acquire(h.Context(), h.driver(), script.NewFenced(name), try(newcomer))
	if !h.verdict(v, err) {
		return err
	}
	h.exclusive(name, newcomer)
	key := "redisson_lock_token:{" + name + "}"
	if was, ok := h.before(key); ok && v.Token <= was {
		h.wrong("the token is %d, and it was %d before", v.Token, was)
	}
	if now := h.got("GET", key); now != strconv.FormatInt(v.Token, 10) {
		h.wrong("the token is %d, and the counter %s", v.Token, now)
	}
	return nil
}

func grabRead(h *hostile, name string) error {
	v, err := script.Acquire(h.Context(), h.driver(), script.NewRead(name), try(newcomer))
	if !h.verdict(v, err) {
		return err
	}
	h.clockToken(v.Token)
	fields := h.list("HKEYS", name)
	if !slices.Contains(fields, newcomer) || h.got("HGET", name, "mode") != "read" || slices.ContainsFunc(fields, func(f string) bool { return strings.HasSuffix(f, ":write") }) {
		h.wrong("granted to a reader: %.200q", fields)
	}
	return nil
}

func grabPermits(n int, owner string) func(*hostile, string) error {
	return func(h *hostile, name string) error {
		p := script.NewLeased(name, n)
		v, err := script.Acquire(h.Context(), h.driver(), p, try(owner))
		if !h.verdict(v, err) {
			return err
		}
		h.clockToken(v.Token)
		free, err := strconv.ParseInt(h.got("GET", name), 10, 64)
		if owner != newcomer {
			return nil // it has been granted before, whatever has become of the rest
		}
		if err != nil || free < 0 {
			h.wrong("granted, and %d are free (%v)", free, err)
		}
		for _, id := range p.IDs(owner) {
			raw, _ := hex.DecodeString(id)
			if ends, err := strconv.ParseFloat(h.got("ZSCORE", "{"+name+"}:timeout", string(raw)), 64); err != nil || ends < float64(time.Now().UnixMilli()) {
				h.wrong("granted, and the permit ends at %v (%v)", ends, err)
			}
		}
		if over := h.s.Int(h, "ZCOUNT", "{"+name+"}:timeout", "-inf", strconv.FormatInt(now(h, h.s)+1000, 10)); over == 0 && free < 1000 {
			if v, err := script.Acquire(h.Context(), h.d, script.NewLeased(name, int(free)+1), try("z:9")); err == nil && v.Granted() {
				h.wrong("granted %d of %d free permits", free+1, free)
			}
		}
		return nil
	}
}

func grabSemaphore(h *hostile, name string) error {
	v, err := script.Acquire(h.Context(), h.driver(), script.NewSemaphore(name, 1), script.Claim{Owner: "a:1:7", Count: 1})
	if mark, ok := h.held["holdfast:once:{"+name+"}:a:1"]; h.verdict(v, err) && (!ok || !strings.HasPrefix(mark.value, "7 ")) {
		was, ok := h.before(name)
		if now := h.got("GET", name); !ok || was < 1 || now != strconv.FormatInt(was-1, 10) {
			h.wrong("granted: %s free permits, %d before (%v)", now, was, ok)
		}
	}
	return err
}

func grabLatch(h *hostile, name string) error {
	v, err := script.Acquire(h.Context(), h.driver(), script.NewLatch(name), script.Claim{})
	if h.verdict(v, err) {
		if n, ok := h.before(name); !ok || n > 0 {
			h.wrong("open")
		}
	}
	return err
}

func grabRate(longest time.Duration) func(*hostile, string) error {
	return func(h *hostile, name string) error {
		v, err := script.Acquire(h.Context(), h.driver(), limiter(name, 3), script.Claim{Owner: newcomer, Longest: longest})
		if v.Err != nil {
			return nil // without a rate, or less than that
		}
		if err == nil && (v.After < 0 || v.After > math.MaxInt64/2) {
			h.wrong("granted in %v", v.After)
		}
		if !h.verdict(v, err) || v.After > 0 {
			return err
		}
		// The permits of the last interval are no more than the rate.
		rate, _ := strconv.ParseFloat(h.got("HGET", name, "rate"), 64)
		interval, _ := strconv.ParseFloat(h.got("HGET", name, "interval"), 64)
		log := "{" + name + "}:permits"
		if h.got("HGET", name, "type") == "1" {
			log += ":c"
		}
		if _, counted := h.held[strings.Replace(log, "permits", "value", 1)]; counted || h.s.Int(h, "ZCARD", log) > 1000 {
			return nil // the count is believed
		}
		sum, past := 0.0, float64(now(h, h.s))-interval
		for i, entries := 0, h.list("ZRANGE", log, "0", "-1", "WITHSCORES"); i < len(entries); i += 2 {
			e := entries[i]
			if at, _ := strconv.ParseFloat(entries[i+1], 64); at > past && len(e) == 21 {
				sum += float64(uint32(e[17]) | uint32(e[18])<<8 | uint32(e[19])<<16 | uint32(e[20])<<24)
			}
		}
		if sum > rate {
			h.wrong("granted: %v permits in an interval, the rate is %v", sum, rate)
		}
		return nil
	}
}

// decoded runs a call whose reply is decoded.
func decoded[T any](call func(name string) driver.Call, decode func(driver.Reply) (T, error)) func(*hostile, string) error {
	return func(h *hostile, name string) error {
		r, err := h.Do(h.Context(), call(name))
		if err == nil {
			_, err = decode(r)
		}
		return err
	}
}

// plain runs an op whose reply nothing contradicts.
func plain(do op) func(*hostile, string) error {
	return func(h *hostile, name string) error { return do(h.Context(), h.driver(), name) }
}

func decodeFlag(r driver.Reply) (int, error) {
	n, err := script.DecodeInt(r)
	if err == nil && (n < 0 || n > 1) {
		err = fmt.Errorf("%d is neither yes nor no", n)
	}
	return n, err
}

func decodeMoved(r driver.Reply) (bool, error) {
	_, done, err := script.DecodeMoved(r)
	return done, err
}

func renewal(hs ...script.LockRef) func(*hostile, string) error {
	return decoded(func(string) driver.Call {
		return script.Renew(slices.Repeat([]time.Duration{time.Minute}, len(hs)), hs)
	}, func(r driver.Reply) ([]bool, error) { return script.Renewed(r, len(hs)) })
}

func object(kind string, call func(o *script.Object) driver.Call) func(*hostile, string) error {
	return decoded(func(name string) driver.Call { return call(script.NewObject(kind, name, "c")) }, decodeMoved)
}
