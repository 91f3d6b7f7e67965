package memory

import (
	"hash/fnv"
	"maps"
	"slices"
	"sort"
	"strings"
)

// An entry is a key with its value: a string, *hash, *list or *zset.
type entry struct {
	value any
	until int64 // ms since 1970; zero: no TTL
	used  int64 // when it was last read or written
}

// typeName returns the type of a value as the command TYPE does.
func typeName(value any) string {
	switch value.(type) {
	case string:
		return "string"
	case *hash:
		return "hash"
	case *list:
		return "list"
	case *zset:
		return "zset"
	default:
		return "none"
	}
}

// clone returns a copy that shares nothing.
func clone(value any) any {
	switch v := value.(type) {
	case *hash:
		c := newHash()
		for _, f := range v.fields {
			c.set(f, v.values[f])
		}
		return c
	case *list:
		return &list{slices.Clone(v.items)}
	case *zset:
		return &zset{slices.Clone(v.items), maps.Clone(v.scores)}
	default:
		return value
	}
}

// A hash keeps its fields in the order in which they came, as a small hash of Redis does.
type hash struct {
	fields []string
	values map[string]string
}

func newHash() *hash { return new(hash) }

// set reports whether the field is new.
func (h *hash) set(field, value string) bool {
	_, had := h.values[field]
	if !had {
		h.fields = append(h.fields, field)
	}
	if h.values == nil {
		h.values = make(map[string]string)
	}
	h.values[field] = value
	return !had
}

// del deletes fields, and returns how many there were.
func (h *hash) del(fields ...string) int {
	before := len(h.values)
	for _, f := range fields {
		delete(h.values, f)
	}
	if len(h.values) < before {
		h.fields = slices.DeleteFunc(h.fields, func(f string) bool { _, has := h.values[f]; return !has })
	}
	return before - len(h.values)
}

type list struct{ items []string }

type scored struct {
	name  string
	score float64
}

// A zset is sorted by score, then by name.
type zset struct {
	items  []scored
	scores map[string]float64
}

func newZset() *zset { return new(zset) }

func compare(a, b scored) int {
	switch {
	case a.score < b.score:
		return -1
	case a.score > b.score:
		return 1
	default:
		return strings.Compare(a.name, b.name)
	}
}

// rank returns the index of a member, or -1.
func (z *zset) rank(name string) int {
	score, has := z.scores[name]
	if !has {
		return -1
	}
	i, _ := slices.BinarySearchFunc(z.items, scored{name, score}, compare)
	return i
}

// set sets scores of members. It merges many at once: one by one, the work would grow with the
// product of both numbers.
func (z *zset) set(scores map[string]float64) {
	z.del(slices.Collect(maps.Keys(scores))...)
	if z.scores == nil {
		z.scores = make(map[string]float64)
	}
	fresh := make([]scored, 0, len(scores))
	for name, score := range scores {
		fresh = append(fresh, scored{name, score})
		z.scores[name] = score
	}
	if len(fresh) == 1 {
		i, _ := slices.BinarySearchFunc(z.items, fresh[0], compare)
		z.items = slices.Insert(z.items, i, fresh[0])
		return
	}
	slices.SortFunc(fresh, compare)
	items := make([]scored, 0, len(z.items)+len(fresh))
	for _, m := range z.items {
		for len(fresh) > 0 && compare(fresh[0], m) < 0 {
			items, fresh = append(items, fresh[0]), fresh[1:]
		}
		items = append(items, m)
	}
	z.items = append(items, fresh...)
}

// del removes members, and returns how many there were.
func (z *zset) del(names ...string) int {
	before := len(z.scores)
	if len(names) == 1 {
		if i := z.rank(names[0]); i >= 0 {
			z.items = slices.Delete(z.items, i, i+1)
			delete(z.scores, names[0])
		}
		return before - len(z.scores)
	}
	for _, name := range names {
		delete(z.scores, name)
	}
	if len(z.scores) < before {
		z.items = slices.DeleteFunc(z.items, func(m scored) bool { _, has := z.scores[m.name]; return !has })
	}
	return before - len(z.scores)
}

// A bound is an end of a range of scores.
type bound struct {
	score     float64
	exclusive bool
}

// between returns the indexes of the first member in a range of scores and of the first
// behind it.
func (z *zset) between(low, high bound) (from, to int) {
	from = sort.Search(len(z.items), func(i int) bool {
		s := z.items[i].score
		return s > low.score || s == low.score && !low.exclusive
	})
	to = sort.Search(len(z.items), func(i int) bool {
		s := z.items[i].score
		return s > high.score || s == high.score && high.exclusive
	})
	return from, max(from, to)
}

// page returns the names that a scan returns from a cursor on, about n of them, and the next
// cursor, zero at the end. A name that exists during the whole scan is returned, whatever
// happens to others: the cursor is a hash of a name.
func page(names []string, cursor uint64, n int) (next uint64, some []string) {
	type place struct {
		at   uint64
		name string
	}
	var places []place
	for _, name := range names {
		h := fnv.New64a()
		_, _ = h.Write([]byte(name))
		if at := h.Sum64()>>1 | 1; at >= cursor {
			places = append(places, place{at, name})
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		default:
			return strings.Compare(a.name, b.name)
		}
	})
	for i, p := range places {
		if i >= n && p.at != places[i-1].at {
			return p.at, some
		}
		some = append(some, p.name)
	}
	return 0, some
}
