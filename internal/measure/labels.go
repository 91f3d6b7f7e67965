package measure

import (
	"strings"
	"sync"
)

// MaxLabels is the default for how many labels there are for names.
const MaxLabels = 100

// Other is the label of names for which there are too many labels.
const Other = "other"

// labels maps names of locks to labels. There are few labels, whatever the user's function
// returns.
type labels struct {
	of  func(kind, name string) string // nil: no labels
	max int

	mu    sync.RWMutex
	known map[string]struct{}
}

// label returns the label for a name, or "" if it has none.
func (l *labels) label(kind, name string) string {
	if l.of == nil {
		return ""
	}
	label := strings.ToValidUTF8(l.call(kind, name), "\uFFFD") // exporters reject anything else
	if label == "" || label == Other {
		return label
	}
	l.mu.RLock()
	_, known := l.known[label]
	l.mu.RUnlock()
	if known {
		return label
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.known[label]; !known && len(l.known) >= l.max {
		return Other
	}
	label = strings.Clone(label) // it may be a part of a longer string
	l.known[label] = struct{}{}
	return label
}

// call calls the user's function. Gauges are read on a goroutine of the user's exporter,
// which must survive a panic of the function.
func (l *labels) call(kind, name string) (label string) {
	defer func() {
		if recover() != nil {
			label = Other
		}
	}()
	return l.of(kind, name)
}
