// Package script is the wire: every key name, channel name, argument order and
// reply of Holdfast. One Lua file holds one operation, and one Go function
// beside it owns the order of its arguments and the meaning of its reply;
// nobody else knows either.
//
// Scripts set the state that is wanted instead of changing the one they find,
// so that a call whose answer was lost can be sent again.
package script

import (
	"embed"
	"fmt"
	"regexp"
	"strconv"

	"github.com/holdfast-go/holdfast/driver"
)

//go:embed lua/*.lua lua/lib/*.lua
var files embed.FS

// load returns the script in lua/name.lua, behind the files in lua/lib that it
// needs.
func load(name string, libs ...string) *driver.Script {
	var source string
	for _, lib := range libs {
		source += read("lib/" + lib)
	}
	return newScript(name, source)
}

// newScript returns the script in lua/name.lua behind the given source. The
// header of the file says which argument names the command to publish with.
func newScript(name, source string) *driver.Script {
	file := read(name)
	s := driver.NewScript(name, source+file)
	if m := publishes.FindStringSubmatch(file); m != nil {
		s.Publish, _ = strconv.Atoi(m[1])
	}
	return s
}

// publishes finds, in the list of a script's arguments, the one that names the
// command to publish with.
var publishes = regexp.MustCompile(`(?m)^--(?: ARGV)? +(\d+) PUBLISH`)

func read(name string) string {
	source, err := files.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // a misspelt name; every test would show it
	}
	return string(source)
}

// unexpected is the error of a reply that a script does not give where a lock
// is concerned. What it holds is somebody else's, and not repeated.
func unexpected(s *driver.Script, r driver.Reply) error {
	return &driver.Error{Class: driver.Fatal, Err: fmt.Errorf("script %s: unexpected reply of type %v: the key is not that of a lock, or the server is not Redis", s.Name, r.Type)}
}
