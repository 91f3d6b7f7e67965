package script

import (
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// MarkLife is how long the server remembers a request by its number: longer
// than any is under way, and than anybody asks for the same thing again.
const MarkLife = 10 * time.Minute

// mark returns the key that remembers the requests of a lane, and the number of
// this one.
func mark(name, request string) (key, number string) {
	i := strings.LastIndexByte(request, ':')
	return prefixed("holdfast:once", name) + ":" + request[:i], request[i+1:]
}

// numbered returns a call whose keys are that of an object and its mark, and
// whose arguments are one, the number of the request, the life of the mark, and
// more.
func numbered(s *driver.Script, name, request, arg string, more ...string) driver.Call {
	key, n := mark(name, request)
	return driver.Call{Script: s, Keys: []string{name, key}, Args: append([]string{arg, n, millis(MarkLife)}, more...)}
}
