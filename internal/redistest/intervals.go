package redistest

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"
)

// Interval is the time that an owner spent in the critical section of a name,
// in nanoseconds of [Now]. A shared one may overlap with others that are shared.
type Interval struct {
	Name, Owner  string
	Enter, Leave int64
	Shared       bool `json:",omitempty"`
}

// Recorder writes intervals to a stream, one line each in a single write.
// Several processes may thus record to one pipe each, or to one file that all
// of them opened for appending.
type Recorder struct {
	mu sync.Mutex
	w  io.Writer
}

// NewRecorder returns a recorder that writes to w.
func NewRecorder(w io.Writer) *Recorder { return &Recorder{w: w} }

// Enter records that owner has entered the critical section of name. The
// interval is written when leave is called. Call leave before the lock is
// released. The interval is lost if the process dies before. A failed write
// panics, because a check of incomplete intervals would prove nothing.
func (r *Recorder) Enter(name, owner string) (leave func()) {
	iv := Interval{Name: name, Owner: owner, Enter: Now()}
	return func() {
		iv.Leave = Now()
		r.Record(iv)
	}
}

// Record writes an interval whose ends the caller has measured.
func (r *Recorder) Record(iv Interval) {
	line, err := json.Marshal(iv)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		_, err = r.w.Write(append(line, '\n'))
	}
	if err != nil {
		panic("redistest: cannot record an interval: " + err.Error())
	}
}

// ReadIntervals reads what recorders have written.
func ReadIntervals(r io.Reader) ([]Interval, error) {
	var ivs []Interval
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var iv Interval
		if err := json.Unmarshal(line, &iv); err != nil {
			return nil, fmt.Errorf("redistest: intervals: line %d: %w", n, err)
		}
		ivs = append(ivs, iv)
	}
	return ivs, lines.Err()
}

// CheckExclusive returns an error if two intervals of one name overlap and are
// not both shared. The error contains the first such pair of each name.
func CheckExclusive(ivs []Interval) error {
	byName := make(map[string][]Interval)
	for _, iv := range ivs {
		byName[iv.Name] = append(byName[iv.Name], iv)
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		errs = append(errs, firstOverlap(byName[name]))
	}
	return errors.Join(errs...)
}

// firstOverlap checks the intervals of one name. It compares each with the one
// that lasts longest among those that began before it, not just with its
// neighbour: a long interval may contain several short ones.
func firstOverlap(ivs []Interval) error {
	slices.SortFunc(ivs, func(a, b Interval) int {
		return cmp.Or(cmp.Compare(a.Enter, b.Enter), cmp.Compare(a.Leave, b.Leave))
	})
	var last struct{ shared, alone *Interval }
	for i := range ivs {
		next := &ivs[i]
		before, same := last.alone, &last.alone
		if next.Shared {
			same = &last.shared
		} else if last.shared != nil && (before == nil || last.shared.Leave > before.Leave) {
			before = last.shared
		}
		if before != nil && next.Enter < before.Leave {
			return fmt.Errorf("redistest: %q held twice for %v: by %q from %d to %d and by %q from %d to %d",
				next.Name, time.Duration(min(before.Leave, next.Leave)-next.Enter),
				before.Owner, before.Enter, before.Leave, next.Owner, next.Enter, next.Leave)
		}
		if *same == nil || next.Leave > (*same).Leave {
			*same = next
		}
	}
	return nil
}
