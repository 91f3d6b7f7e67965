package memory

import (
	"math"
	"slices"
	"strconv"
)

var hashCommands = map[string]command{
	"hset":    {3, -1, hset},
	"hget":    {2, 2, hget},
	"hmget":   {2, -1, hmget},
	"hgetall": {1, 1, func(t *tx, a []string) (any, error) { return hall(t, a[0], true, true) }},
	"hkeys":   {1, 1, func(t *tx, a []string) (any, error) { return hall(t, a[0], true, false) }},
	"hvals":   {1, 1, func(t *tx, a []string) (any, error) { return hall(t, a[0], false, true) }},
	"hlen":    {1, 1, func(t *tx, a []string) (any, error) { h, err := t.hash(a[0], false); return int64(len(h.fields)), err }},
	"hexists": {2, 2, func(t *tx, a []string) (any, error) {
		h, err := t.hash(a[0], false)
		_, ok := h.values[a[1]]
		return number(ok), err
	}},
	"hstrlen": {2, 2, func(t *tx, a []string) (any, error) {
		h, err := t.hash(a[0], false)
		return int64(len(h.values[a[1]])), err
	}},
	"hdel":       {2, -1, hdel},
	"hincrby":    {3, 3, hincrby},
	"hscan":      {2, -1, hscan},
	"hrandfield": {1, 3, hrandfield},
}

// hash returns the hash at a key. If there is none, it returns an empty one, which it stores
// if fresh is set.
func (t *tx) hash(key string, fresh bool) (*hash, error) {
	e := t.find(key)
	if e == nil {
		h := newHash()
		if fresh {
			t.put(key, &entry{value: h})
		}
		return h, nil
	}
	h, ok := e.value.(*hash)
	if !ok {
		return newHash(), errType
	}
	return h, nil
}

func hset(t *tx, args []string) (any, error) {
	if len(args)%2 == 0 {
		return nil, failure("ERR wrong number of arguments for 'hset' command")
	}
	h, err := t.hash(args[0], true)
	if err != nil {
		return nil, err
	}
	n := int64(0)
	for i := 1; i < len(args); i += 2 {
		n += number(h.set(args[i], args[i+1]))
	}
	return n, nil
}

func hget(t *tx, args []string) (any, error) {
	h, err := t.hash(args[0], false)
	if v, ok := h.values[args[1]]; ok {
		return v, nil
	}
	return nil, err
}

func hmget(t *tx, args []string) (any, error) {
	h, err := t.hash(args[0], false)
	if err != nil {
		return nil, err
	}
	all := make([]any, len(args)-1)
	for i, f := range args[1:] {
		if v, ok := h.values[f]; ok {
			all[i] = v
		}
	}
	return all, nil
}

func hall(t *tx, key string, fields, values bool) (any, error) {
	h, err := t.hash(key, false)
	if err != nil {
		return nil, err
	}
	all := texts(h.list(h.fields, fields, values))
	if fields && values {
		return pairs(all), nil
	}
	return all, nil
}

// list lists some fields, their values, or both.
func (h *hash) list(some []string, fields, values bool) (all []string) {
	for _, f := range some {
		if fields {
			all = append(all, f)
		}
		if values {
			all = append(all, h.values[f])
		}
	}
	return all
}

func hdel(t *tx, args []string) (any, error) {
	h, err := t.hash(args[0], false)
	if err != nil {
		return nil, err
	}
	n := int64(h.del(args[1:]...))
	if n > 0 {
		t.dropEmpty(args[0], len(h.fields))
	}
	return n, nil
}

func hincrby(t *tx, args []string) (any, error) {
	n, err := integer(args[2])
	if err != nil {
		return nil, err
	}
	h, err := t.hash(args[0], false)
	if err != nil {
		return nil, err
	}
	if old, ok := h.values[args[1]]; ok {
		before, err := integer(old)
		if err != nil {
			return nil, failure("ERR hash value is not an integer")
		}
		if n > 0 && before > math.MaxInt64-n || n < 0 && before < math.MinInt64-n {
			return nil, failure("ERR increment or decrement would overflow")
		}
		n += before
	}
	h, _ = t.hash(args[0], true)
	h.set(args[1], strconv.FormatInt(n, 10))
	return n, nil
}

// smallHash is the number of fields up to which Redis stores a hash as a list. A scan of
// it returns all fields at once.
const smallHash = 128

func hscan(t *tx, args []string) (any, error) {
	s, err := scanArgs(args[1:])
	if err != nil {
		return nil, err
	}
	h, err := t.hash(args[0], false)
	if err != nil {
		return nil, err
	}
	next, some := uint64(0), h.fields
	if len(some) > smallHash {
		next, some = page(h.fields, s.cursor, s.count)
	}
	some = slices.DeleteFunc(slices.Clone(some), func(f string) bool { return !t.s.meter.matches(s.match, f) })
	return []any{strconv.FormatUint(next, 10), texts(h.list(some, true, true))}, nil
}

func hrandfield(t *tx, args []string) (any, error) {
	h, err := t.hash(args[0], false)
	if err != nil {
		return nil, err
	}
	if len(args) == 1 {
		if len(h.fields) == 0 {
			return nil, nil
		}
		return h.fields[t.s.random.IntN(len(h.fields))], nil
	}
	n, err := integer(args[1])
	if err != nil {
		return nil, err
	}
	values := len(args) == 3
	if values && !words(args[2], "WITHVALUES") {
		return nil, errSyntax
	}
	var some []string
	if n < -maxArgs {
		return nil, failure("ERR value is out of range")
	}
	if n < 0 {
		for range -n {
			if len(h.fields) > 0 {
				some = append(some, h.fields[t.s.random.IntN(len(h.fields))])
			}
		}
	} else {
		some = slices.Clone(h.fields)
		t.s.random.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		some = some[:min(int(n), len(some))]
	}
	return texts(h.list(some, true, values)), nil
}
