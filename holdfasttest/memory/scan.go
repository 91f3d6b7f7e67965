package memory

import (
	"slices"
	"strconv"
)

// A scanning is the arguments of SCAN and HSCAN.
type scanning struct {
	cursor      uint64
	match, kind string
	count       int
}

func scanArgs(args []string) (s scanning, err error) {
	s = scanning{match: "*", count: 10}
	if s.cursor, err = strconv.ParseUint(args[0], 10, 64); err != nil {
		return s, failure("ERR invalid cursor")
	}
	for i := 1; i < len(args); i += 2 {
		if i+1 == len(args) {
			return s, errSyntax
		}
		switch {
		case words(args[i], "MATCH"):
			s.match = args[i+1]
		case words(args[i], "TYPE"):
			s.kind = args[i+1]
		case words(args[i], "COUNT"):
			n, err := integer(args[i+1])
			if err != nil {
				return s, err
			}
			if n < 1 {
				return s, errSyntax
			}
			s.count = int(min(n, 1<<30))
		default:
			return s, errSyntax
		}
	}
	return s, nil
}

func scan(t *tx, args []string) (any, error) {
	s, err := scanArgs(args)
	if err != nil {
		return nil, err
	}
	next, some := page(t.all(), s.cursor, s.count)
	some = slices.DeleteFunc(some, func(key string) bool {
		return !t.s.meter.matches(s.match, key) || s.kind != "" && typeName(t.find(key).value) != s.kind
	})
	return []any{strconv.FormatUint(next, 10), texts(some)}, nil
}
