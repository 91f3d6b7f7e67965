package script

import (
	"path"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

// Files are the sources of all scripts, and FencePrelude is the rest.
var (
	Files        = files
	FencePrelude = fencePrelude
)

// Names returns the names of all scripts.
func Names() []string {
	entries, err := files.ReadDir("lua")
	if err != nil {
		panic(err)
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, strings.TrimSuffix(e.Name(), path.Ext(e.Name())))
		}
	}
	return names
}

// FreeQueued returns the call that releases a queued mutex, with that lot.
func FreeQueued(name, owner string, lot int) driver.Call {
	return NewMutex(name).Queued().free(owner, lot)
}
