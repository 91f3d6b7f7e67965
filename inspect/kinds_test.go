package inspect_test

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Each kind has the name that errors and events give it.
func TestKindNames(t *testing.T) {
	for _, kind := range []inspect.Kind{inspect.Mutex, inspect.Fair, inspect.Fenced, inspect.Election, inspect.RW, inspect.Semaphore} {
		if !slices.ContainsFunc(script.Kinds, func(k script.Kind) bool { return k.Name == string(kind) }) {
			t.Errorf("no kind has the name %q", kind)
		}
	}
}
