package memory

import (
	"math"
	"slices"
)

var zsetCommands = map[string]command{
	"zadd":             {3, -1, zadd},
	"zincrby":          {3, 3, zincrby},
	"zrem":             {2, -1, zrem},
	"zscore":           {2, 2, zscore},
	"zcard":            {1, 1, func(t *tx, a []string) (any, error) { z, err := t.zset(a[0]); return int64(len(z.items)), err }},
	"zcount":           {3, 3, zcount},
	"zrank":            {2, 2, zrank},
	"zrange":           {3, 4, func(t *tx, a []string) (any, error) { return zrange(t, a, false) }},
	"zrevrange":        {3, 4, func(t *tx, a []string) (any, error) { return zrange(t, a, true) }},
	"zrangebyscore":    {3, 7, func(t *tx, a []string) (any, error) { return zbyscore(t, a, false) }},
	"zrevrangebyscore": {3, 7, func(t *tx, a []string) (any, error) { return zbyscore(t, a, true) }},
	"zremrangebyrank":  {3, 3, zremrangebyrank},
	"zremrangebyscore": {3, 3, zremrangebyscore},
}

// zset returns the sorted set at a key, or an empty one that is not stored.
func (t *tx) zset(key string) (*zset, error) {
	e := t.find(key)
	if e == nil {
		return newZset(), nil
	}
	z, ok := e.value.(*zset)
	if !ok {
		return newZset(), errType
	}
	return z, nil
}

func zadd(t *tx, args []string) (any, error) {
	var nx, xx, gt, lt, ch bool
	rest := args[1:]
	for len(rest) > 0 {
		switch {
		case words(rest[0], "NX"):
			nx = true
		case words(rest[0], "XX"):
			xx = true
		case words(rest[0], "GT"):
			gt = true
		case words(rest[0], "LT"):
			lt = true
		case words(rest[0], "CH"):
			ch = true
		default:
			goto pairs
		}
		rest = rest[1:]
	}
pairs:
	if len(rest) == 0 || len(rest)%2 != 0 {
		return nil, errSyntax
	}
	if nx && (xx || gt || lt) || gt && lt {
		return nil, failure("ERR GT, LT, and/or NX options at the same time are not compatible")
	}
	scores := make([]float64, len(rest)/2)
	for i := range scores {
		f, err := float(rest[2*i])
		if err != nil {
			return nil, err
		}
		scores[i] = f
	}
	z, err := t.zset(args[0])
	if err != nil {
		return nil, err
	}
	empty, added, changed := len(z.items) == 0, int64(0), int64(0)
	changes := make(map[string]float64)
	for i, f := range scores {
		name := rest[2*i+1]
		old, had := changes[name]
		if !had {
			old, had = z.scores[name]
		}
		if had && (nx || gt && f <= old || lt && f >= old) || !had && xx {
			continue
		}
		changes[name] = f
		if !had {
			added++
		} else if f != old {
			changed++
		}
	}
	z.set(changes)
	if empty && len(z.items) > 0 {
		t.put(args[0], &entry{value: z})
	}
	if ch {
		return added + changed, nil
	}
	return added, nil
}

func zincrby(t *tx, args []string) (any, error) {
	by, err := float(args[1])
	if err != nil {
		return nil, err
	}
	z, err := t.zset(args[0])
	if err != nil {
		return nil, err
	}
	if by += z.scores[args[2]]; math.IsNaN(by) {
		return nil, failure("ERR resulting score is not a number (NaN)")
	}
	if len(z.items) == 0 {
		t.put(args[0], &entry{value: z})
	}
	z.set(map[string]float64{args[2]: by})
	return score(by), nil
}

func zrem(t *tx, args []string) (any, error) {
	z, err := t.zset(args[0])
	if err != nil {
		return nil, err
	}
	return t.removed(args[0], z, int64(z.del(args[1:]...))), nil
}

// removed ends a command that has removed n members.
func (t *tx) removed(key string, z *zset, n int64) int64 {
	if n > 0 {
		t.dropEmpty(key, len(z.items))
	}
	return n
}

func zscore(t *tx, args []string) (any, error) {
	z, err := t.zset(args[0])
	if f, ok := z.scores[args[1]]; ok {
		return score(f), nil
	}
	return nil, err
}

func zrank(t *tx, args []string) (any, error) {
	z, err := t.zset(args[0])
	if i := z.rank(args[1]); i >= 0 {
		return int64(i), nil
	}
	return nil, err
}

func zcount(t *tx, args []string) (any, error) {
	low, high, err := limits(args[1], args[2])
	if err != nil {
		return nil, err
	}
	z, err := t.zset(args[0])
	from, to := z.between(low, high)
	return int64(to - from), err
}

func zrange(t *tx, args []string, reverse bool) (any, error) {
	start, stop, err := integers(args[1], args[2])
	if err != nil {
		return nil, err
	}
	with := len(args) == 4
	if with && !words(args[3], "WITHSCORES") {
		return nil, errSyntax
	}
	z, err := t.zset(args[0])
	if err != nil {
		return nil, err
	}
	items := slices.Clone(z.items)
	if reverse {
		slices.Reverse(items)
	}
	from, to := span(start, stop, len(items))
	return members(items[from:to], with), nil
}

func members(items []scored, with bool) []any {
	all := make([]any, 0, len(items))
	for _, m := range items {
		all = append(all, m.name)
		if with {
			all = append(all, score(m.score))
		}
	}
	return all
}

func zbyscore(t *tx, args []string, reverse bool) (any, error) {
	low, high := args[1], args[2]
	if reverse {
		low, high = high, low
	}
	from, to, err := limits(low, high)
	if err != nil {
		return nil, err
	}
	with, offset, count := false, int64(0), int64(-1)
	for i := 3; i < len(args); i++ {
		switch {
		case words(args[i], "WITHSCORES"):
			with = true
		case words(args[i], "LIMIT") && i+2 < len(args):
			if offset, count, err = integers(args[i+1], args[i+2]); err != nil {
				return nil, err
			}
			i += 2
		default:
			return nil, errSyntax
		}
	}
	z, err := t.zset(args[0])
	if err != nil {
		return nil, err
	}
	first, behind := z.between(from, to)
	items := slices.Clone(z.items[first:behind])
	if reverse {
		slices.Reverse(items)
	}
	if offset < 0 || offset >= int64(len(items)) {
		return []any{}, nil
	}
	items = items[offset:]
	if count >= 0 {
		items = items[:min(count, int64(len(items)))]
	}
	return members(items, with), nil
}

func zremrangebyrank(t *tx, args []string) (any, error) {
	start, stop, err := integers(args[1], args[2])
	if err != nil {
		return nil, err
	}
	z, err := t.zset(args[0])
	if err != nil {
		return nil, err
	}
	from, to := span(start, stop, len(z.items))
	return t.removed(args[0], z, z.cut(from, to)), nil
}

func zremrangebyscore(t *tx, args []string) (any, error) {
	low, high, err := limits(args[1], args[2])
	if err != nil {
		return nil, err
	}
	z, err := t.zset(args[0])
	if err != nil {
		return nil, err
	}
	return t.removed(args[0], z, z.cut(z.between(low, high))), nil
}

// cut removes the members in a range of indexes.
func (z *zset) cut(from, to int) int64 {
	for _, m := range z.items[from:to] {
		delete(z.scores, m.name)
	}
	z.items = slices.Delete(z.items, from, to)
	return int64(to - from)
}
