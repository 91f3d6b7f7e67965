package script

import (
	"strings"
	"time"
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
