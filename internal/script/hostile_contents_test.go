package script_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

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
			"times": {javaOwner, "", "a:1", "a:1:write", "a:1:permits3"}, "leases": {"0123456789abcdef", permitIDs["a:1.0"], permitIDs["j:7.0"]},
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
			add(false, "a deep set at "+s, []string{"!zset", key, "40000", kind, s})
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
		if role == "hold" {
			cs[i].foreign = false // the name of the key says whose it is
		}
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
