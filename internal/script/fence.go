package script

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

// fencePrelude is outside of lua/ because it is not a complete script.
//
//go:embed fence.lua
var fencePrelude string

// FenceKey returns the key that holds the highest token a resource has seen.
func FenceKey(resource string) string { return prefixed("holdfast:fence", resource) }

// Guarded returns the script that runs body if the token is not stale.
func Guarded(body string) *driver.Script { return driver.NewScript("fence", fencePrelude+body) }

// CallGuarded returns the call of a script made by [Guarded].
func CallGuarded(s *driver.Script, resource string, token int64, keys, args []string) driver.Call {
	return driver.Call{
		Script: s,
		Keys:   append([]string{FenceKey(resource)}, keys...),
		Args:   append([]string{strconv.FormatInt(token, 10)}, args...),
	}
}

// Stale reports whether err is the refusal of a stale token. It returns the
// token that the resource has seen, or 0 if the error does not contain it.
func Stale(err error) (seen int64, stale bool) {
	if driver.CodeOf(err) != "STALE" {
		return 0, false
	}
	if _, numbers, ok := strings.Cut(err.Error(), "STALE token "); ok {
		var token int64
		if _, err := fmt.Sscanf(numbers, "%d is below %d", &token, &seen); err != nil {
			seen = 0
		}
	}
	return seen, true
}
