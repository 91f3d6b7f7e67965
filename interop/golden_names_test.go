package interop_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// aliases give what differs from run to run the same name in each: owners and
// permits by the order in which they appear, times by how far ahead they lie.
//
// An owner keeps its name while the server knows it. A thread that comes again
// is then as new as the next acquisition of Holdfast, whose owners are never
// used twice.
type aliases struct {
	given map[string]string
	count map[string]int
	times map[string]string // how far ahead they were when they were first seen
}

func newAliases() *aliases {
	return &aliases{make(map[string]string), make(map[string]int), make(map[string]string)}
}

const uuid = `[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`

var (
	// What varies, most particular first: of requests, of clients, of owners, of
	// permits and of entries in a limiter's log.
	variable = regexp.MustCompile(`\b[0-9a-f]{32}\b|once:.+?:` + uuid + `|` + uuid + `:\d+|` + uuid + `|ENTRY[0-9a-f]+`)
	request  = regexp.MustCompile(`redisson_unlock_latch:.*:([0-9a-f]{32})`)
)

// member is the raw id of a permit or an entry as text.
func member(m string) string {
	switch {
	case len(m) == 16:
		return hex.EncodeToString([]byte(m))
	case len(m) > 5 && len(m) == 5+int(m[0]): // length, random bytes, permits
		return fmt.Sprintf("ENTRY%x of %d bytes (%d)", m[1:len(m)-4], m[0], binary.LittleEndian.Uint32([]byte(m[len(m)-4:])))
	}
	return m
}

// step names the ids in some lines, in the order in which the commands have
// them, and forgets those that are in none of the lines that last.
func (n *aliases) step(commands [][]string, passing, lasting []string) {
	lines := append(slices.Clone(passing), lasting...)
	here := make(map[string]bool)
	for _, l := range lines {
		for _, id := range variable.FindAllString(l, -1) {
			here[id] = true
		}
	}
	maps.DeleteFunc(n.given, func(id, _ string) bool { return !here[id] })
	kind := func(id string) string {
		switch {
		case strings.HasPrefix(id, "ENTRY"):
			return "ENTRY"
		case strings.Contains(id, ":"):
			return "OWN"
		default:
			return "PERMIT"
		}
	}
	name := func(id string) {
		if !here[id] || n.given[id] != "" || strings.HasPrefix(id, "once:") || len(id) == 36 {
			return
		}
		k := kind(id)
		if slices.ContainsFunc(passing, func(l string) bool { m := request.FindStringSubmatch(l); return m != nil && m[1] == id }) {
			k = "REQUEST"
		}
		n.count[k]++
		n.given[id] = fmt.Sprint(k, n.count[k])
	}
	for _, c := range commands {
		for _, word := range c {
			for _, id := range variable.FindAllString(member(word), -1) {
				name(id)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(here)) {
		name(id)
	}
}

// replace puts names in place of ids.
func (n *aliases) replace(line string) string {
	return variable.ReplaceAllStringFunc(line, func(id string) string {
		if name := n.given[id]; name != "" {
			return name
		}
		return id[:len(id)-36] + "CLIENT"
	})
}

// ahead says how far ahead something is, by the ms of the epoch. What has not
// changed since it was first seen is as far ahead as it was then.
func (n *aliases) ahead(what string, at, now int64) string {
	id := fmt.Sprint(what, at)
	if n.times[id] == "" {
		n.times[id] = ttlClass(at - now)
	}
	return n.times[id]
}

// score is a number, or when something is, if it is the ms of the epoch.
func (n *aliases) score(what, at string, now int64) string {
	ms, err := strconv.ParseInt(at, 10, 64)
	if err != nil || ms < 1e12 || ms > 1e14 {
		return at
	}
	if c := n.ahead(what, ms, now); c != "5s" {
		return "NOW+" + c
	}
	return "NOW"
}

// ttlClass rounds up to five seconds, which is more than a step takes, and what
// has been to the same. What is minutes ahead may count from an earlier step,
// and is rounded up to fifteen.
func ttlClass(ms int64) string {
	unit := int64(5000)
	if ms > 100_000 {
		unit = 15_000
	}
	return fmt.Sprint(max(ms+unit-1, unit)/unit*unit/1000, "s")
}
