package script

import (
	"path"
	"strings"
)

// Names returns the names of all scripts.
func Names() []string {
	entries, err := files.ReadDir("lua")
	if err != nil {
		panic(err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), path.Ext(e.Name()))
	}
	return names
}
