package memory

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A reply of a command is nil, an int64, a string, a status, an error or a []any of these.
type status string

// pairs are names and values. RESP3 has a type for them.
type pairs []any

// A failure is an error reply. It begins with a code.
type failure string

func (f failure) Error() string { return string(f) }

const (
	errType    = failure("WRONGTYPE Operation against a key holding the wrong kind of value")
	errInteger = failure("ERR value is not an integer or out of range")
	errFloat   = failure("ERR value is not a valid float")
	errSyntax  = failure("ERR syntax error")
	errNoKey   = failure("ERR no such key")
)

// A command is a command of Redis. Its arguments begin after its name.
type command struct {
	least, most int // number of arguments; most is negative if there is no limit
	run         func(t *tx, args []string) (any, error)
}

// A known command has its name, and what it does to the memory.
type known struct {
	command
	name           string
	grows, changes bool
}

// commands are all commands, by name in lower and in upper case.
var commands = merge(stringCommands, hashCommands, listCommands, zsetCommands, keyCommands, serverCommands)

func merge(groups ...map[string]command) map[string]*known {
	all := make(map[string]*known)
	for _, g := range groups {
		for name, c := range g {
			k := &known{c, name, growing[name], growing[name] || writing[name]}
			all[name], all[strings.ToUpper(name)] = k, k
		}
	}
	return all
}

// commandOf returns the command with a name, or nil.
func commandOf(name string) *known {
	if c := commands[name]; c != nil {
		return c
	}
	return commands[strings.ToLower(name)]
}

// do runs a command.
func (t *tx) do(args []string) (r any, err error) {
	defer rescue(&err)
	c := commandOf(args[0])
	if c == nil {
		return nil, failure(fmt.Sprintf("ERR unknown command '%.128s'", args[0]))
	}
	args = args[1:]
	if len(args) < c.least || c.most >= 0 && len(args) > c.most {
		return nil, failure(fmt.Sprintf("ERR wrong number of arguments for '%s' command", c.name))
	}
	if c.grows && t.s.full && !t.dirty {
		return nil, failure("OOM command not allowed when used memory > 'maxmemory'.")
	}
	t.s.calls[c.name]++
	if t.script && len(t.s.monitors) > 0 {
		t.s.show(t.db, "lua", append([]string{c.name}, args...))
	}
	t.dirty = t.dirty || c.changes
	if r, err = c.run(t, args); t.s.meter.err != nil {
		return nil, failure("ERR " + t.s.meter.err.Error())
	}
	return r, err
}

// growing are the commands that a server refuses when its memory is full, unless the script
// has already written. writing are the other commands that write.
var (
	growing = nameSet("set setnx incr decr incrby decrby hset hincrby rpush lpush zadd zincrby copy restore")
	writing = nameSet("del unlink pexpire pexpireat expire expireat persist rename move hdel lpop lrem zrem zremrangebyrank zremrangebyscore flushall flushdb")
)

func nameSet(names string) map[string]bool {
	all := make(map[string]bool)
	for name := range strings.FieldsSeq(names) {
		all[name] = true
	}
	return all
}

// integer parses an integer as Redis does.
func integer(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text {
		return 0, errInteger
	}
	return n, nil
}

// float parses a score.
func float(text string) (float64, error) {
	switch strings.ToLower(text) {
	case "inf", "+inf":
		return math.Inf(1), nil
	case "-inf":
		return math.Inf(-1), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if (err != nil && !errors.Is(err, strconv.ErrRange)) || math.IsNaN(f) || strings.ContainsAny(text, " _pP") {
		return 0, errFloat
	}
	return f, nil
}

// score writes a score.
func score(f float64) string {
	return formatNumber(f, 17)
}

// limits parses the ends of a range of scores.
func limits(low, high string) (from, to bound, err error) {
	parse := func(text string) (b bound, err error) {
		text, b.exclusive = strings.CutPrefix(text, "(")
		if b.score, err = float(text); err != nil {
			err = failure("ERR min or max is not a float")
		}
		return b, err
	}
	if from, err = parse(low); err == nil {
		to, err = parse(high)
	}
	return from, to, err
}

// span returns the part of a range of n items that an index range of Redis means.
func span(start, stop int64, n int) (from, to int) {
	if start < 0 {
		start = max(start+int64(n), 0)
	}
	if stop < 0 {
		stop += int64(n)
	}
	stop = min(stop, int64(n)-1)
	if start > stop {
		return 0, 0
	}
	return int(start), int(stop) + 1
}

func integers(a, b string) (x, y int64, err error) {
	if x, err = integer(a); err == nil {
		y, err = integer(b)
	}
	return x, y, err
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func texts(list []string) []any {
	all := make([]any, len(list))
	for i, s := range list {
		all[i] = s
	}
	return all
}

// words reports whether an argument is one of the given words, in any case.
func words(arg string, all ...string) bool {
	return slices.Contains(all, strings.ToUpper(arg))
}
