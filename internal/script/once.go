package script

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// MarkLife is how long the server keeps the mark of a numbered request. It is
// longer than any request is in flight or repeated.
const MarkLife = 10 * time.Minute

// markLife is MarkLife as an argument of scripts.
var markLife = strconv.FormatInt(MarkLife.Milliseconds(), 10)

// markPrefix is the prefix of all marks. The names of objects must not begin
// with it.
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

// Spend makes a numbered call delete the mark of an earlier request of its
// series. No copy of that request may still arrive. Both keys must be in one
// slot.
func Spend(c driver.Call, spent string) driver.Call {
	if spent != "" && spent != MarkOf(c) {
		c.Keys = append(slices.Clip(c.Keys), spent)
	}
	return c
}

// mark returns the key of the mark of a request series, and the number of this
// request.
func mark(name, request string) (key, number string) {
	i := strings.LastIndexByte(request, ':')
	return prefixed(markPrefix, name) + ":" + request[:i], request[i+1:]
}

// numbered returns a call whose keys are those of an object and of its mark. Its
// arguments are one argument, the number of the request, the life of the mark,
// and further ones.
func numbered(s *driver.Script, name, request, arg string, more ...string) driver.Call {
	key, n := mark(name, request)
	return driver.Call{Script: s, Keys: []string{name, key}, Args: append([]string{arg, n, markLife}, more...)}
}
