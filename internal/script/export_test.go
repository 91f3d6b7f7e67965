package script

import (
	"path"
	"strconv"
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

// Pass returns the call that releases a lock, with that lot.
func (q *Queued) Pass(owner string, lot int) driver.Call { return q.free(owner, lot) }

// Own returns the key of the nth hold of a reader.
func (h LockRef) Own(n int) string { return readerKeys(h.Reads, h.Owner) + ":" + strconv.Itoa(n) }
