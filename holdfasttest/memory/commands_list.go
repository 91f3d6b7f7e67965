package memory

import "slices"

var listCommands = map[string]command{
	"rpush":  {2, -1, func(t *tx, a []string) (any, error) { return push(t, a, false) }},
	"lpush":  {2, -1, func(t *tx, a []string) (any, error) { return push(t, a, true) }},
	"lpop":   {1, 2, lpop},
	"llen":   {1, 1, func(t *tx, a []string) (any, error) { l, err := t.list(a[0]); return int64(len(l.items)), err }},
	"lindex": {2, 2, lindex},
	"lrange": {3, 3, lrange},
	"lrem":   {3, 3, lrem},
}

// list returns the list at a key, or an empty one that is not stored.
func (t *tx) list(key string) (*list, error) {
	e := t.find(key)
	if e == nil {
		return new(list), nil
	}
	l, ok := e.value.(*list)
	if !ok {
		return new(list), errType
	}
	return l, nil
}

func push(t *tx, args []string, front bool) (any, error) {
	l, err := t.list(args[0])
	if err != nil {
		return nil, err
	}
	if len(l.items) == 0 {
		t.put(args[0], &entry{value: l})
	}
	items := slices.Clone(args[1:])
	if front {
		slices.Reverse(items)
		l.items = append(items, l.items...)
	} else {
		l.items = append(l.items, items...)
	}
	return int64(len(l.items)), nil
}

func lpop(t *tx, args []string) (any, error) {
	l, err := t.list(args[0])
	if err != nil {
		return nil, err
	}
	n := int64(1)
	if len(args) == 2 {
		if n, err = integer(args[1]); err != nil || n < 0 {
			return nil, failure("ERR value is out of range, must be positive")
		}
	}
	if len(l.items) == 0 {
		return nil, nil
	}
	some := slices.Clone(l.items[:min(n, int64(len(l.items)))])
	l.items = l.items[len(some):]
	t.dropEmpty(args[0], len(l.items))
	if len(args) == 1 {
		return some[0], nil
	}
	return texts(some), nil
}

func lindex(t *tx, args []string) (any, error) {
	l, err := t.list(args[0])
	if err != nil {
		return nil, err
	}
	i, err := integer(args[1])
	if err != nil {
		return nil, err
	}
	if i < 0 {
		i += int64(len(l.items))
	}
	if i < 0 || i >= int64(len(l.items)) {
		return nil, nil
	}
	return l.items[i], nil
}

func lrange(t *tx, args []string) (any, error) {
	start, stop, err := integers(args[1], args[2])
	if err != nil {
		return nil, err
	}
	l, err := t.list(args[0])
	if err != nil {
		return nil, err
	}
	from, to := span(start, stop, len(l.items))
	return texts(l.items[from:to]), nil
}

func lrem(t *tx, args []string) (any, error) {
	n, err := integer(args[1])
	if err != nil {
		return nil, err
	}
	l, err := t.list(args[0])
	if err != nil {
		return nil, err
	}
	most, removed := n, int64(0)
	if n < 0 {
		most = -n
		slices.Reverse(l.items)
	}
	l.items = slices.DeleteFunc(l.items, func(item string) bool {
		if item != args[2] || most > 0 && removed == most {
			return false
		}
		removed++
		return true
	})
	if n < 0 {
		slices.Reverse(l.items)
	}
	if removed > 0 {
		t.dropEmpty(args[0], len(l.items))
	}
	return removed, nil
}
