package locktest

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A Section is what a lock protects. It detects overlapping visits.
type Section struct {
	Name     string
	recorder *redistest.Recorder
	recorded bytes.Buffer
	count    int // not atomic on purpose: overlapping visits lose an increment
	reads    atomic.Int64
}

// NewSection returns a section that the lock of the given name protects.
func NewSection(name string) *Section {
	s := &Section{Name: name}
	s.recorder = redistest.NewRecorder(&s.recorded)
	return s
}

// Read spends some time in the section, perhaps together with other readers.
func (s *Section) Read(l *holdfast.Lease, inside time.Duration) {
	iv := redistest.Interval{Name: s.Name, Owner: l.Owner(), Enter: redistest.Now(), Shared: true}
	Work(inside)
	iv.Leave = redistest.Now()
	s.recorder.Record(iv)
	s.reads.Add(1)
}

// Visit spends some time in the section.
func (s *Section) Visit(l *holdfast.Lease, inside time.Duration) {
	leave := s.recorder.Enter(s.Name, l.Owner())
	n := s.count
	Work(inside)
	s.count = n + 1
	leave()
}

// Check checks the number of visits, and that only readers have overlapped.
func (s *Section) Check(tb testing.TB, visits int) {
	tb.Helper()
	ivs, err := redistest.ReadIntervals(&s.recorded)
	if err != nil {
		tb.Fatal(err)
	}
	if err := redistest.CheckExclusive(ivs); err != nil {
		tb.Error(err)
	}
	if counted := s.count + int(s.reads.Load()); len(ivs) != visits || counted != visits {
		tb.Errorf("%d visits recorded and %d counted, want %d", len(ivs), counted, visits)
	}
}

// Record works under a lease while it is valid, and records the interval.
func Record(rec *redistest.Recorder, l *holdfast.Lease, work time.Duration) {
	if iv := Stay(l, work); iv.Enter != 0 {
		rec.Record(iv)
	}
}

// Stay works under a lease while it is valid, and returns the interval. It reads
// the clock before it asks the lease. However long the scheduler takes in between,
// the lock was held at that moment.
func Stay(l *holdfast.Lease, work time.Duration) redistest.Interval {
	iv := redistest.Interval{Name: l.Name(), Owner: fmt.Sprint(l.Owner(), "#", l.Token())}
	for start := time.Now(); ; Work(min(work, time.Millisecond)) {
		now := redistest.Now()
		if !l.Valid() {
			break
		}
		if iv.Enter == 0 {
			iv.Enter = now
		}
		iv.Leave = now
		if time.Since(start) >= work {
			break
		}
	}
	return iv
}

// CheckExclusive checks that the intervals recorded in out do not overlap, and that
// there are enough of them.
func CheckExclusive(t *testing.T, out *bytes.Buffer, atLeast int) {
	t.Helper()
	text := out.String()
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = text[:i+1] // the last line of a killed process may be torn
	}
	ivs, err := redistest.ReadIntervals(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(ivs) < atLeast {
		t.Errorf("only %d acquisitions, want %d", len(ivs), atLeast)
	}
	if err := redistest.CheckExclusive(ivs); err != nil {
		t.Error(err)
	}
	t.Logf("%d acquisitions", len(ivs))
}
