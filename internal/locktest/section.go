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

// A Section is what a lock protects. It notices when two are in it at once.
type Section struct {
	Name     string
	recorder *redistest.Recorder
	recorded bytes.Buffer
	count    int // not atomic, on purpose: who overlaps loses an increment
	reads    atomic.Int64
}

func NewSection(name string) *Section {
	s := &Section{Name: name}
	s.recorder = redistest.NewRecorder(&s.recorded)
	return s
}

// Read spends some time in the section, perhaps together with other readers.
func (s *Section) Read(l *holdfast.Lease, inside time.Duration) {
	iv := redistest.Interval{Name: s.Name, Owner: l.Owner(), Enter: redistest.Now(), Shared: true}
	time.Sleep(inside)
	iv.Leave = redistest.Now()
	s.recorder.Record(iv)
	s.reads.Add(1)
}

// Visit spends some time in the section.
func (s *Section) Visit(l *holdfast.Lease, inside time.Duration) {
	leave := s.recorder.Enter(s.Name, l.Owner())
	n := s.count
	time.Sleep(inside)
	s.count = n + 1
	leave()
}

// Check checks that there were so many visits, one after the other unless both
// are of readers.
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

// Record works under a lease, as long as that is valid, and writes down from
// when to when it was.
func Record(rec *redistest.Recorder, l *holdfast.Lease, work time.Duration) {
	if iv := Stay(l, work); iv.Enter != 0 {
		rec.Record(iv)
	}
}

// Stay works under a lease, as long as that is valid, and returns from when to
// when it was. The clock is read before the lease is asked: however long the
// scheduler takes in between, the lock was held at that moment.
func Stay(l *holdfast.Lease, work time.Duration) redistest.Interval {
	iv := redistest.Interval{Name: l.Name(), Owner: fmt.Sprint(l.Owner(), "#", l.Token())}
	for start := time.Now(); ; time.Sleep(min(work, time.Millisecond)) {
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

// CheckExclusive checks recorded intervals, of which there must be enough for
// the check to mean anything.
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
