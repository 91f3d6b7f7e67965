// Package script is the wire format of Holdfast: all key names, channel names,
// argument orders and replies. Each Lua file has one operation. One Go function
// knows the order of its arguments and the meaning of its reply. No other
// package knows either.
//
// Scripts set the wanted state and do not modify the current one, so that a call
// whose reply was lost can be sent again.
package script

import (
	"embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

//go:embed lua/*.lua lua/batch/*.lua lua/lib/*.lua
var files embed.FS

// load returns the script in lua/name.lua, preceded by the files in lua/lib that its header
// names.
func load(name string) *driver.Script {
	var source string
	if m := uses.FindStringSubmatch(read(name)); m != nil {
		for _, lib := range strings.Fields(m[1]) {
			source += read("lib/" + lib)
		}
	}
	return newScript(name, source)
}

// uses finds the parts of lua/lib that a script needs, in this order.
var uses = regexp.MustCompile(`(?m)^-- USES  (.*)$`)

// newScript returns the script in lua/name.lua, preceded by the given source.
// The header of the file says which argument is the publish command.
func newScript(name, source string) *driver.Script {
	file := read(name)
	s := driver.NewScript(name, source+file)
	if m := publishes.FindStringSubmatch(file); m != nil {
		s.Publish, _ = strconv.Atoi(m[1])
	}
	return s
}

// publishes finds the publish command in the header's list of arguments.
var publishes = regexp.MustCompile(`(?m)^--(?: ARGV)? +(\d+) PUBLISH`)

func read(name string) string {
	source, err := files.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // a misspelt name: every test would fail
	}
	return string(source)
}

// unexpected returns the error for a reply that the script does not return for a
// lock. The error does not contain the reply, which may be data of another
// program.
func unexpected(s *driver.Script, r driver.Reply) error {
	return &driver.Error{Class: driver.Fatal, Err: fmt.Errorf("script %s: unexpected reply of type %v: the key is not that of a lock, or the server is not Redis", s.Name, r.Type)}
}
