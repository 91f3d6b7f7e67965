package section_test

import (
	"testing"
	"unsafe"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/section"
)

func TestSection(t *testing.T) {
	t.Parallel()
	var s section.Section
	for i, tt := range []struct {
		visitor        int64 // 0: leave
		handoff, alone bool
	}{
		{1, false, true},
		{},
		{1, false, true},
		{},
		{2, true, true},
		{1, true, false},
		{3, true, false},
		{},
		{3, false, true},
	} {
		if tt.visitor == 0 {
			s.Leave()
		} else if handoff, alone := s.Enter(tt.visitor); handoff != tt.handoff || alone != tt.alone {
			t.Errorf("step %d, visitor %d: handoff %v, alone %v", i, tt.visitor, handoff, alone)
		}
	}
}

func TestSectionWithReaders(t *testing.T) {
	t.Parallel()
	var s section.Section
	if !s.EnterShared() || !s.EnterShared() {
		t.Error("two readers exclude each other")
	}
	for range 2 {
		if _, alone := s.Enter(1); alone {
			t.Error("a writer is alone beside a reader")
		}
		s.LeaveShared()
	}
	if _, alone := s.Enter(1); !alone {
		t.Error("a writer is not alone after the readers have left")
	}
	if s.EnterShared() {
		t.Error("a reader has entered beside a writer")
	}
	s.Leave()
	if !s.EnterShared() {
		t.Error("a reader is excluded after the writer has left")
	}
}

func TestSectionsOfTwoProcesses(t *testing.T) {
	t.Parallel()
	if !section.Sharing {
		t.Skip("processes cannot share memory on this system")
	}
	if n := unsafe.Sizeof(section.Section{}); n != 64 {
		t.Errorf("a section has %d bytes", n)
	}
	const locks = 1000 // more than a page
	f, err := section.Create(locks)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var maps [2][]section.Section
	for i := range maps {
		if maps[i], err = section.Map(f, locks); err != nil {
			t.Fatal(err)
		}
	}
	maps[0][locks-1].Enter(1)
	if handoff, alone := maps[1][locks-1].Enter(2); !handoff || alone {
		t.Errorf("handoff %v, alone %v", handoff, alone)
	}
}
