package script

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// MarkLife is how long the server remembers a request by its number: longer
// than any is under way, and than anybody asks for the same thing again.
const MarkLife = 10 * time.Minute

// markPrefix begins all marks. No object may have a name that begins so.
const markPrefix = "holdfast:once"

// MarkOf returns the mark of a numbered call.
func MarkOf(c driver.Call) string {
	for _, key := range c.Keys {
		if strings.HasPrefix(key, markPrefix+":") {
			return key
		}
	}
	return ""
}

// Spend has a numbered call delete the mark of an earlier request of its lane,
// of which no copy can come any more. Both must live in one slot.
func Spend(c driver.Call, spent string) driver.Call {
	if spent != "" && spent != MarkOf(c) {
		c.Keys = append(slices.Clip(c.Keys), spent)
	}
	return c
}

// mark returns the key that remembers the requests of a lane, and the number of
// this one.
func mark(name, request string) (key, number string) {
	i := strings.LastIndexByte(request, ':')
	return prefixed(markPrefix, name) + ":" + request[:i], request[i+1:]
}

// numbered returns a call whose keys are that of an object and its mark, and
// whose arguments are one, the number of the request, the life of the mark, and
// more.
func numbered(s *driver.Script, name, request, arg string, more ...string) driver.Call {
	key, n := mark(name, request)
	return driver.Call{Script: s, Keys: []string{name, key}, Args: append([]string{arg, n, millis(MarkLife)}, more...)}
}
