package memory

import (
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"
)

// attacks are commands, each of which must fail with an error, soon and without much memory.
var attacks = []struct {
	name, want string
	args       []string
}{
	{"a table that contains itself", "reached lua stack limit", eval(`local t = {}; t[1] = t; return t`)},
	{"a table that contains itself by a field", "reached lua stack limit", eval(`local t = {}; local u = {t}; t[1] = u; return u`)},
	{"a reply that doubles with each level", "ended", eval(`local t = {'x'}; for _ = 1, 60 do t = {t, t} end; return t`)},
	{"a long reply of one long text", "ended", eval(`local s, t = string.rep('x', 1e6), {}; for i = 1, 1e4 do t[i] = s end; return t`)},
	{"unary minuses", "levels", eval("return " + strings.Repeat("- ", 100_000) + "1")},
	{"millions of unary minuses", "bytes", eval("return " + strings.Repeat("- ", 3_000_000) + "1")},
	{"nots", "levels", eval("return " + strings.Repeat("not ", 60_000) + "1")},
	{"parentheses", "levels", eval("return " + strings.Repeat("(-", 50_000) + "1" + strings.Repeat(")", 50_000))},
	{"nested tables", "levels", eval("return " + strings.Repeat("{", 100_000) + strings.Repeat("}", 100_000))},
	{"nested functions", "levels", eval(strings.Repeat("do local f = function() ", 8000) + strings.Repeat(" end end", 8000))},
	{"nested blocks", "levels", eval(strings.Repeat("do ", 30_000) + strings.Repeat("end ", 30_000))},
	{"a long sum", "levels", eval("return 1" + strings.Repeat("+x", 100_000))},
	{"a long concatenation in concatenations", "levels", eval("return " + strings.Repeat("#('x'..", 20_000) + "'x'" + strings.Repeat(")", 20_000))},
	{"a long chain of calls", "levels", eval("return f" + strings.Repeat("()", 100_000))},
	{"a long chain of fields", "levels", eval("return a" + strings.Repeat(".b", 100_000))},
	{"a long chain of conditions", "levels", eval("if a then" + strings.Repeat(" elseif a then", 15_000) + " end")},
	{"recursion", "stack overflow", eval(`local function f() return 1 + f() end; return f()`)},
	{"recursion of a metamethod", "overflow", eval(`local t = {}; setmetatable(t, {__index = function(t, k) return t[k + 1] end}); return t[1]`)},
	{"recursion of tostring", "overflow", eval(`local t = {}; setmetatable(t, {__tostring = function(t) return tostring(t) end}); return tostring(t)`)},
	{"recursion of a replacement", "overflow", eval(`local function f() return (string.gsub('x', 'x', f)) end; return f()`)},
	{"a loop of tables", "too many recursions", eval(`local t, u = {}, {}; setmetatable(t, {__index = u}); setmetatable(u, {__index = t}); return t.x`)},

	{"an endless loop", "ended", eval(`while true do end`)},
	{"an endless loop that catches errors", "ended", eval(`while true do pcall(function() while true do end end) end`)},
	{"an endless loop that handles errors", "ended", eval(`local function f() while true do xpcall(f, f) end end; f()`)},
	{"an endless loop of commands", "ended", eval(`while true do redis.call('ping') end`)},
	{"a pattern", "ended", eval(`return string.find(string.rep('a', 5000), '.-.-.-.-.-b')`)},
	{"a pattern with greedy repetitions", "ended", eval(`return string.match(string.rep('a', 5000), 'a*a*a*a*a*b')`)},
	{"a pattern of a replacement", "ended", eval(`return string.gsub(string.rep('a', 5000), 'a*a*a*a*a*b', '')`)},
	{"a pattern of a loop", "ended", eval(`for _ in string.gmatch(string.rep('a', 5000), 'a*a*a*a*a*b') do end`)},
	{"a pattern with balance", "ended", eval(`return string.find(string.rep('(', 50000), '%b()')`)},
	{"a pattern with a large set", "ended", eval(`return string.find(string.rep('a', 10000), '[' .. string.rep('b', 10000) .. ']')`)},
	{"a long pattern", "pattern too complex", eval(`return string.find(string.rep('a', 1e6), string.rep('a?', 1e6))`)},
	{"nested captures", "too", eval(`return string.find('x', string.rep('(', 1e6))`)},

	{"a repetition", "ended", eval(`return #string.rep('x', 4e9)`)},
	{"a repetition that overflows", "too large", eval(`return #string.rep('xxxx', 2^62)`)},
	{"doubled texts", "ended", eval(`local s = 'x'; while true do s = s .. s end`)},
	{"doubled texts in a table", "ended", eval(`local s = 'x'; while true do s = table.concat({s, s}) end`)},
	{"doubled texts by a format", "ended", eval(`local s = 'x'; while true do s = string.format('%s%s', s, s) end`)},
	{"doubled texts by a replacement", "ended", eval(`local s = 'x'; while true do s = string.gsub(s, '.+', '%0%0') end`)},
	{"doubled texts by a function", "ended", eval(`local s = 'x'; while true do s = string.gsub(s, '.+', function(m) return m .. m end) end`)},
	{"doubled texts by struct", "ended", eval(`local s = 'x'; while true do s = struct.pack('c0c0', s, s) end`)},
	{"doubled texts by a metamethod", "ended", eval(`local s = 'x'; local t = setmetatable({}, {__concat = function(a, b) return 'x' end}); while true do s = s .. s .. t .. s; s = s .. s .. s .. s end`)},
	{"a text that grows", "ended", eval(`local s = ''; while true do s = s .. 'xxxxxxxxxxxxxxxx' end`)},
	{"a wide format", "invalid format", eval(`return string.format('%99999999d', 1)`)},
	{"a precise format", "invalid format", eval(`return string.format('%.99999999f', 1)`)},
	{"a separator", "ended", eval(`return table.concat({1, 2, 3, 4, 5, 6}, string.rep('x', 6e7))`)},
	{"a list that grows", "ended", eval(`local t = {}; while true do t[#t + 1] = 1 end`)},
	{"a list that grows by the library", "ended", eval(`local t = {}; while true do table.insert(t, 1) end`)},
	{"a list that grows by values that are left out", "ended", eval(`local t, i = {}, 0; while true do i = i + 1; t[i] = i, i end`)},
	{"a table that grows", "ended", eval(`local t, i = {}, 0; while true do i = i + 1; t[-i] = i end`)},
	{"a table of functions", "ended", eval(`local t, i = {}, 0; while true do i = i + 1; local u = {}; function u.a() end; function u:b() end; t[i] = u end`)},
	{"a table of tables", "ended", eval(`local t, i = {}, 0; while true do i = i + 1; t[i] = {a = i, b = {}} end`)},
	{"a chain of functions", "ended", eval(`local f; while true do local g = f; f = function() return g end end`)},
	{"a large index", "ended", eval(`local t = {}; t[67108863] = 1`)},
	{"a large index in a constructor", "ended", eval(`local t = {[67108863] = 1}`)},
	{"a large index of a multiple assignment", "ended", eval(`local t = {}; t[1], t[67108863] = 1, 2`)},
	{"a large index by rawset", "ended", eval(`rawset({}, 67108863, 1)`)},
	{"a large index by insert", "ended", eval(`table.insert({}, 67108863, 1)`)},
	{"many results", "too many results", eval(`return unpack({}, 1, 2^53)`)},
	{"many results of a large range", "too many results", eval(`return unpack({}, -2^62, 2^62)`)},
	{"many bytes", "overflow", eval(`return string.byte(string.rep('x', 1e7), 1, -1)`)},
	{"values of many arguments", "ended", eval(`local t = {}; for i = 1, 4000 do t[i] = i end; while true do redis.call('rpush', 'large', unpack(t)) end`)},
	{"a long format of struct", "ended", eval(`return struct.size(string.rep('B', 2e8))`)},
	{"a long error", "ended", eval(`error(string.rep('x ', 1e8))`)},

	{"a global", "readonly", eval(`x = 1`)},
	{"a global function", "readonly", eval(`function tostring() end`)},
	{"a global that does not exist", "nonexistent global variable 'x'", eval(`return x`)},
	{"a field of a library", "readonly", eval(`string.rep = nil`)},
	{"a field of redis", "readonly", eval(`redis.call = nil`)},
	{"a global by _G", "readonly", eval(`_G.x = 1`)},
	{"a global by rawset", "readonly", eval(`rawset(_G, 'x', 1)`)},
	{"an element of a library", "readonly", eval(`table.insert(math, 1)`)},
	{"the metatable of the globals", "readonly", eval(`setmetatable(_G, {})`)},
	{"the metatable of a library", "readonly", eval(`setmetatable(string, nil)`)},
	{"the metatable of numbers", "table expected", eval(`setmetatable(1, {__index = function() return 1 end})`)},
	{"the metatable of texts", "ERR", eval(`getmetatable('').__index = function() return 1 end`)},
	{"the metatable of texts by setmetatable", "table expected", eval(`setmetatable('', {})`)},

	{"many fields of a hash at random", "out of range", []string{"HRANDFIELD", "hash", "-9223372036854775808"}},
	{"a score that is no number", "not a number", []string{"ZINCRBY", "infinite", "-inf", "a"}},
	{"a sum that overflows", "overflow", []string{"HINCRBY", "hash", "most", "9223372036854775807"}},
	{"an empty payload", "DUMP payload", []string{"RESTORE", "x", "0", ""}},
	{"a payload of another server", "DUMP payload", []string{"RESTORE", "x", "0", "\x00\x01a\x0b\x00"}},
	{"a payload with a large length", "DUMP payload", []string{"RESTORE", "x", "0", payload("list", "a") + "\xff\xff\xff\xff"}},
	{"a payload that ends early", "DUMP payload", []string{"RESTORE", "x", "0", payload("list", "a") + "\x00\x00"}},
	{"a payload without a value", "DUMP payload", []string{"RESTORE", "x", "0", payload("list")}},
	{"a payload of no type", "DUMP payload", []string{"RESTORE", "x", "0", payload("stream", "a")}},
	{"a payload without a score", "DUMP payload", []string{"RESTORE", "x", "0", payload("zset", "a", "1", "b")}},
	{"a payload with a score that is no number", "DUMP payload", []string{"RESTORE", "x", "0", payload("zset", "a", "nan")}},
	{"a payload of gob", "DUMP payload", []string{"RESTORE", "x", "0", "holdfast-memory 1\n\xf8\x7f\xff\xff\xff\xff\xff\xff\xff"}},
}

func eval(script string) []string { return []string{"EVAL", script, "0"} }

// payload returns what DUMP would return.
func payload(parts ...string) string {
	b := []byte(dumpMark)
	for _, p := range parts {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(p))), p...)
	}
	return string(b)
}

// maxTaken is what one attack may allocate, counted from the start: what is freed counts, too.
const maxTaken = 2 << 30

// No command ends the process, hangs it, takes much memory, or changes what others see.
func TestAttacks(t *testing.T) {
	_, addr := served(t)
	other := dial(t, addr)
	for _, c := range [][]string{{"HSET", "hash", "most", "1"}, {"ZADD", "infinite", "inf", "a"}} {
		if got := other.do(c...); got != ":1" {
			t.Fatal(got)
		}
	}
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got := dial(t, addr).do(a.args...)
			runtime.ReadMemStats(&after)
			if !strings.HasPrefix(got, "-") || !strings.Contains(got, a.want) || strings.Contains(got, errInternal.Error()) {
				t.Errorf("the reply is %.200q, want an error with %q", got, a.want)
			}
			if taken := after.TotalAlloc - before.TotalAlloc; taken > maxTaken {
				t.Errorf("%d MB allocated", taken>>20)
			}
			other.tb = t
			if got := other.do("PING"); got != "+PONG" {
				t.Errorf("another client gets %q", got)
			}
			if got := other.do("EVAL", untouched, "0"); got != "+sound" {
				t.Errorf("another script gets %q", got)
			}
		})
	}
}

const untouched = `
local ok = pcall(function() return x end)
if ok or (5 .. '') ~= '5' or ('x'):rep(2) ~= 'xx' or #string ~= 0 or pcall(function() return (1).x end) then return 'changed' end
return redis.status_reply('sound')`

// A meter ends work after a number of steps, and after a time.
func TestMeter(t *testing.T) {
	m := meter{limit: patience}
	m.reset()
	n := 0
	for ; n <= 2*maxSteps && m.Done() == nil; n++ {
	}
	if n != maxSteps || m.Err() == nil {
		t.Errorf("%d instructions, %v", n, m.Err())
	}
	m.limit = time.Hour
	m.reset()
	m.began = time.Now().Add(-2 * time.Hour)
	if m.use(checkSteps + 1) {
		t.Error("the time does not end a script")
	}
}

// Instructions that take long end after a time.
func TestSlowInstructions(t *testing.T) {
	s := New()
	s.meter.limit = time.Second
	for _, script := range []string{
		`local t = {}; for i = 1, 1e5 do t[i] = i end; for i = 1, 1e5 do t[i] = nil end; local n; while true do n = #t end`,
		`local t = {}; for i = 1, 1e5 do t[i] = -i end; while true do table.sort(t) end`,
		`local a, b = string.rep('x', 1e7), string.rep('x', 1e7); while true do local c = a < b end`,
	} {
		tx := s.begin(0)
		_, err := tx.eval(sha1Hex(script), script, nil, nil)
		tx.end()
		if err == nil || !strings.Contains(err.Error(), "longer than 1s") {
			t.Errorf("%s: %v", script, err)
		}
	}
}

// Patterns of keys that would take forever.
func TestGlob(t *testing.T) {
	s := New()
	long := strings.Repeat("a", 100_000)
	if _, err := s.Do("SET", long, "1"); err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]string{
		strings.Repeat("a*", 50) + "b":                     "[]",
		strings.Repeat("*a", 50) + "*":                     fmt.Sprint([]any{long}),
		strings.Repeat("*?", 20_000) + "b":                 "[]",
		"*" + strings.Repeat("a", 90_000) + "b":            "more than",
		"*" + strings.Repeat("["+long[:100]+"]", 90) + "b": "more than",
	} {
		r, err := s.Do("KEYS", pattern)
		if got := fmt.Sprint(r); got != want && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("KEYS %.20s: %.100s, %v, want %.20s", pattern, got, err, want)
		}
	}
	var m meter
	m.reset()
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"a", "", false},
		{"**", "abc", true},
		{"a*c", "abc", true},
		{"a*c", "abcd", false},
		{"a*b*c", "aXbXbXc", true},
		{"*.txt", "a.txt.txt", true},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"?", "", false},
		{"[a-c]x", "bx", true},
		{"[^a]", "a", false},
		{"[^a]", "b", true},
		{"[a", "a", true},
		{"\\*", "*", true},
		{"\\*", "a", false},
		{"a\\", "a\\", true},
		{"*[bc]", "aab", true},
		{"h[a\\]]llo", "h]llo", true},
		{"*a", "ba", true},
		{"a*", "b", false},
	} {
		if got := m.matches(c.pattern, c.text); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.text, got)
		}
	}
}

// Commands with many arguments do not take the square of their number.
func TestManyArguments(t *testing.T) {
	_, addr := served(t)
	w := dial(t, addr)
	const n = 400_000
	front, scores, fields := []string{"LPUSH", "list"}, []string{"ZADD", "zset"}, []string{"HSET", "hash"}
	members, names := []string{"ZREM", "zset"}, []string{"HDEL", "hash"}
	for i := range n {
		name := fmt.Sprint(n - i)
		front = append(front, name)
		scores, members = append(scores, name, name), append(members, name)
		fields, names = append(fields, name, name), append(names, name)
	}
	for _, args := range [][]string{front, scores, fields, names, members} {
		if got := w.do(args...); got != fmt.Sprint(":", n) {
			t.Errorf("%s: %s", args[0], got)
		}
	}
	if got := w.do(append([]string{"ZADD", "zset"}, scores[2:]...)...); got != fmt.Sprint(":", n) {
		t.Error(got)
	}
	_, _ = io.WriteString(w, resp("ZRANGE", "zset", "0", "0"))
	if got := w.line() + w.line() + w.line(); got != "*1$11" {
		t.Error(got)
	}
}
