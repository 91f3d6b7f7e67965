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

// aliases replaces values that differ between runs by stable names: owners and permits by the
// order of their appearance, times by their distance from now.
//
// An owner keeps its name while the server stores it. A thread that returns later gets a new
// name, like an acquisition of Holdfast, which always has a new owner.
type aliases struct {
	given map[string]string
	count map[string]int
	times map[string]string // distance from now when they were first seen
}

func newAliases() *aliases {
	return &aliases{make(map[string]string), make(map[string]int), make(map[string]string)}
}

const uuid = `[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`

var (
	// The ids that vary, the most specific first: of requests, clients, owners, permits and
	// entries in the log of a limiter.
	variable = regexp.MustCompile(`\b[0-9a-f]{32}\b|once:.+?:` + uuid + `|` + uuid + `:\d+|` + uuid + `|ENTRY[0-9a-f]+`)
	request  = regexp.MustCompile(`redisson_unlock_latch:.*:([0-9a-f]{32})`)
)

// member returns the raw id of a permit or an entry as text.
func member(m string) string {
	switch {
	case len(m) == 16:
		return hex.EncodeToString([]byte(m))
	case len(m) > 5 && len(m) == 5+int(m[0]): // length, random bytes, permits
		return fmt.Sprintf("ENTRY%x of %d bytes (%d)", m[1:len(m)-4], m[0], binary.LittleEndian.Uint32([]byte(m[len(m)-4:])))
	}
	return m
}

// step assigns names to the ids in some lines, in the order of the commands, and removes ids
// that are in none of the lasting lines.
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

// replace replaces ids by names.
func (n *aliases) replace(line string) string {
	return variable.ReplaceAllStringFunc(line, func(id string) string {
		if name := n.given[id]; name != "" {
			return name
		}
		return id[:len(id)-36] + "CLIENT"
	})
}

// ahead returns how far a time in ms of the epoch is ahead. For a time that was seen before it
// returns the distance at that time.
func (n *aliases) ahead(what string, at, now int64) string {
	id := fmt.Sprint(what, at)
	if n.times[id] == "" {
		n.times[id] = ttlClass(at - now)
	}
	return n.times[id]
}

// score formats a number, or the distance of a time if it is in ms of the epoch.
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

// ttlClass rounds a duration up to a multiple of five seconds, which is longer than a step. A
// negative duration becomes five seconds, too. A duration of minutes may count from an earlier
// step and is rounded up to a multiple of fifteen seconds.
func ttlClass(ms int64) string {
	unit := int64(5000)
	if ms > 100_000 {
		unit = 15_000
	}
	return fmt.Sprint(max(ms+unit-1, unit)/unit*unit/1000, "s")
}
