package memory

import (
	"fmt"
	"slices"
)

var keyCommands = map[string]command{
	"del":       {1, -1, del},
	"unlink":    {1, -1, del},
	"exists":    {1, -1, func(t *tx, a []string) (any, error) { return t.count(a) }},
	"touch":     {1, -1, func(t *tx, a []string) (any, error) { return t.count(a) }},
	"type":      {1, 1, keyType},
	"pttl":      {1, 1, func(t *tx, a []string) (any, error) { return t.ttl(a[0], 1), nil }},
	"ttl":       {1, 1, func(t *tx, a []string) (any, error) { return t.ttl(a[0], 1000), nil }},
	"pexpire":   {2, -1, func(t *tx, a []string) (any, error) { return expire(t, "pexpire", a, false, false) }},
	"pexpireat": {2, -1, func(t *tx, a []string) (any, error) { return expire(t, "pexpireat", a, false, true) }},
	"expire":    {2, -1, func(t *tx, a []string) (any, error) { return expire(t, "expire", a, true, false) }},
	"expireat":  {2, -1, func(t *tx, a []string) (any, error) { return expire(t, "expireat", a, true, true) }},
	"persist":   {1, 1, persist},
	"rename":    {2, 2, rename},
	"copy":      {2, -1, copyKey},
	"move":      {2, 2, move},
	"dump":      {1, 1, dump},
	"restore":   {3, -1, restore},
	"scan":      {1, -1, scan},
	"keys":      {1, 1, keys},
	"dbsize":    {0, 0, func(t *tx, _ []string) (any, error) { return int64(len(t.all())), nil }},
	"object":    {2, 2, object},
	"memory":    {2, -1, memory},
	"flushall":  {0, 1, flushAll},
	"flushdb":   {0, 1, func(t *tx, _ []string) (any, error) { clear(t.s.databases[t.db]); return status("OK"), nil }},
}

func del(t *tx, args []string) (any, error) {
	n := int64(0)
	for _, key := range args {
		if t.find(key) != nil {
			t.drop(key, "del")
			n++
		}
	}
	return n, nil
}

func (t *tx) count(keys []string) (any, error) {
	n := int64(0)
	for _, key := range keys {
		n += number(t.find(key) != nil)
	}
	return n, nil
}

func keyType(t *tx, args []string) (any, error) {
	if e := t.find(args[0]); e != nil {
		return status(typeName(e.value)), nil
	}
	return status("none"), nil
}

// ttl returns the remaining time in units of ms: -1 without a TTL, -2 without a key.
func (t *tx) ttl(key string, unit int64) int64 {
	e := t.find(key)
	switch {
	case e == nil:
		return -2
	case e.until == 0:
		return -1
	default:
		return (e.until - t.now + unit/2) / unit
	}
}

func expire(t *tx, name string, args []string, seconds, at bool) (any, error) {
	n, err := integer(args[1])
	if err != nil {
		return nil, err
	}
	until, err := t.deadline(n, seconds, at, name)
	if err != nil {
		return nil, err
	}
	e := t.find(args[0])
	if e == nil {
		return int64(0), nil
	}
	for _, flag := range args[2:] {
		no := false
		switch {
		case words(flag, "NX"):
			no = e.until != 0
		case words(flag, "XX"):
			no = e.until == 0
		case words(flag, "GT"):
			no = e.until == 0 || until <= e.until
		case words(flag, "LT"):
			no = e.until != 0 && until >= e.until
		default:
			return nil, failure("ERR Unsupported option " + flag)
		}
		if no {
			return int64(0), nil
		}
	}
	if until <= t.now {
		t.drop(args[0], "del")
		return int64(1), nil
	}
	e.until = until
	t.s.dueBy(until)
	return int64(1), nil
}

func persist(t *tx, args []string) (any, error) {
	e := t.find(args[0])
	if e == nil || e.until == 0 {
		return int64(0), nil
	}
	e.until = 0
	return int64(1), nil
}

func rename(t *tx, args []string) (any, error) {
	e := t.find(args[0])
	if e == nil {
		return nil, errNoKey
	}
	if args[0] == args[1] {
		return status("OK"), nil
	}
	if t.find(args[1]) != nil {
		t.drop(args[1], "del")
	}
	t.drop(args[0], "rename_from")
	t.put(args[1], e)
	t.event("rename_to", args[1])
	return status("OK"), nil
}

// in returns the same transaction in another database.
func (t *tx) in(database string) (*tx, error) {
	n, err := integer(database)
	if err != nil {
		return nil, err
	}
	if n < 0 || n >= int64(len(t.s.databases)) {
		return nil, failure("ERR DB index is out of range")
	}
	other := *t
	other.db = int(n)
	other.parent = t
	return &other, nil
}

func copyKey(t *tx, args []string) (any, error) {
	to, replace := t, false
	for i := 2; i < len(args); i++ {
		switch {
		case words(args[i], "REPLACE"):
			replace = true
		case words(args[i], "DB") && i+1 < len(args):
			other, err := t.in(args[i+1])
			if err != nil {
				return nil, err
			}
			to = other
			i++
		default:
			return nil, errSyntax
		}
	}
	if to.db == t.db && args[0] == args[1] {
		return nil, failure("ERR source and destination objects are the same")
	}
	e := t.find(args[0])
	if e == nil || to.find(args[1]) != nil && !replace {
		return int64(0), nil
	}
	to.put(args[1], &entry{value: clone(e.value), until: e.until})
	to.event("copy_to", args[1])
	return int64(1), nil
}

func move(t *tx, args []string) (any, error) {
	to, err := t.in(args[1])
	if err != nil {
		return nil, err
	}
	if to.db == t.db {
		return nil, failure("ERR source and destination objects are the same")
	}
	e := t.find(args[0])
	if e == nil || to.find(args[0]) != nil {
		return int64(0), nil
	}
	t.drop(args[0], "move_from")
	to.put(args[0], e)
	to.event("move_to", args[0])
	return int64(1), nil
}

func keys(t *tx, args []string) (any, error) {
	return texts(slices.DeleteFunc(t.all(), func(key string) bool { return !t.s.meter.matches(args[0], key) })), nil
}

func object(t *tx, args []string) (any, error) {
	e := t.look(args[1])
	switch {
	case e == nil:
		return nil, nil
	case words(args[0], "IDLETIME"):
		return (t.now - e.used) / 1000, nil
	case words(args[0], "ENCODING"):
		return "raw", nil
	default:
		return nil, failure(fmt.Sprintf("ERR unknown subcommand '%.128s'.", args[0]))
	}
}

func memory(t *tx, args []string) (any, error) {
	if !words(args[0], "USAGE") {
		return nil, failure(fmt.Sprintf("ERR unknown subcommand '%.128s'.", args[0]))
	}
	e := t.look(args[1])
	if e == nil {
		return nil, nil
	}
	size := len(args[1]) + 64
	switch v := e.value.(type) {
	case string:
		size += len(v)
	case *list:
		for _, item := range v.items {
			size += len(item) + 16
		}
	case *hash:
		for f, value := range v.values {
			size += len(f) + len(value) + 32
		}
	case *zset:
		for _, m := range v.items {
			size += len(m.name) + 32
		}
	}
	return int64(size), nil
}

func flushAll(t *tx, _ []string) (any, error) {
	for _, db := range t.s.databases {
		clear(db)
	}
	return status("OK"), nil
}
