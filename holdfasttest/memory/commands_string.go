package memory

import (
	"math"
	"slices"
	"strconv"
)

var stringCommands = map[string]command{
	"get":    {1, 1, get},
	"set":    {2, -1, set},
	"setnx":  {2, 2, setnx},
	"strlen": {1, 1, func(t *tx, a []string) (any, error) { s, _, err := t.text(a[0]); return int64(len(s)), err }},
	"incr":   {1, 1, func(t *tx, a []string) (any, error) { return t.add(a[0], "1", 1) }},
	"decr":   {1, 1, func(t *tx, a []string) (any, error) { return t.add(a[0], "1", -1) }},
	"incrby": {2, 2, func(t *tx, a []string) (any, error) { return t.add(a[0], a[1], 1) }},
	"decrby": {2, 2, func(t *tx, a []string) (any, error) { return t.add(a[0], a[1], -1) }},
}

func get(t *tx, args []string) (any, error) {
	s, ok, err := t.text(args[0])
	if err != nil || !ok {
		return nil, err
	}
	return s, nil
}

// text returns the string at a key.
func (t *tx) text(key string) (s string, ok bool, err error) {
	e := t.find(key)
	if e == nil {
		return "", false, nil
	}
	s, ok = e.value.(string)
	if !ok {
		return "", false, errType
	}
	return s, true, nil
}

func set(t *tx, args []string) (any, error) {
	key, value := args[0], args[1]
	var until int64
	var nx, xx, keep, old bool
	for i := 2; i < len(args); i++ {
		switch {
		case words(args[i], "NX"):
			nx = true
		case words(args[i], "XX"):
			xx = true
		case words(args[i], "KEEPTTL"):
			keep = true
		case words(args[i], "GET"):
			old = true
		case words(args[i], "PX", "EX", "PXAT", "EXAT") && i+1 < len(args) && until == 0:
			n, err := integer(args[i+1])
			if err != nil {
				return nil, err
			}
			if until, err = t.deadline(n, words(args[i], "EX", "EXAT"), words(args[i], "PXAT", "EXAT"), "set"); err != nil {
				return nil, err
			}
			if n <= 0 {
				return nil, failure("ERR invalid expire time in 'set' command")
			}
			i++
		default:
			return nil, errSyntax
		}
	}
	if nx && xx || keep && until != 0 {
		return nil, errSyntax
	}
	e := t.find(key)
	var before any
	if old && e != nil {
		s, ok := e.value.(string)
		if !ok {
			return nil, errType
		}
		before = s
	}
	done := any(status("OK"))
	if old {
		done = before
	}
	if nx && e != nil || xx && e == nil {
		return before, nil
	}
	if keep && e != nil {
		until = e.until
	}
	t.put(key, &entry{value: value, until: until})
	return done, nil
}

func setnx(t *tx, args []string) (any, error) {
	done, err := set(t, append(slices.Clone(args), "NX"))
	return number(done != nil), err
}

// deadline returns the end of a TTL, or of a time since 1970 if at is set.
func (t *tx) deadline(n int64, seconds, at bool, name string) (int64, error) {
	wrong := failure("ERR invalid expire time in '" + name + "' command")
	if seconds {
		if n > math.MaxInt64/1000 || n < math.MinInt64/1000 {
			return 0, wrong
		}
		n *= 1000
	}
	if !at {
		if n > math.MaxInt64-t.now {
			return 0, wrong
		}
		n += t.now
	}
	return n, nil
}

// add adds a number to the number at a key, sign times.
func (t *tx) add(key, by string, sign int64) (any, error) {
	n, err := integer(by)
	if err != nil {
		return nil, err
	}
	if sign < 0 && n == math.MinInt64 {
		return nil, failure("ERR decrement would overflow")
	}
	n *= sign
	old, _, err := t.text(key)
	if err != nil {
		return nil, err
	}
	var before int64
	if old != "" || t.find(key) != nil {
		if before, err = integer(old); err != nil {
			return nil, err
		}
	}
	if n > 0 && before > math.MaxInt64-n || n < 0 && before < math.MinInt64-n {
		return nil, failure("ERR increment or decrement would overflow")
	}
	var until int64
	if e := t.find(key); e != nil {
		until = e.until
	}
	t.put(key, &entry{value: strconv.FormatInt(before+n, 10), until: until})
	return before + n, nil
}
