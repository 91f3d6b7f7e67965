package section_test

import (
	"testing"
	"unsafe"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/section"
)

func TestSection(t *testing.T) {
	t.Parallel()
	var s section.Section
	enter := func(visitor int64, handoff, alone bool) func() bool {
		t.Helper()
		h, leave := s.Enter(visitor)
		if h != handoff || (leave != nil) != alone {
			t.Errorf("visitor %d: handoff %v, alone %v", visitor, h, leave != nil)
		}
		return leave
	}
	for _, v := range []struct {
		visitor int64
		handoff bool
	}{{1, false}, {1, false}, {2, true}, {1, true}} {
		if enter(v.visitor, v.handoff, true)() {
			t.Errorf("there was another visitor beside %d", v.visitor)
		}
	}
	leave := enter(2, true, true)
	enter(1, true, false)
	enter(3, true, false)
	if !leave() {
		t.Error("two visitors beside another one were not noticed")
	}
	if enter(3, false, true)() {
		t.Error("visitors that have left were noticed")
	}
}

func TestSectionWithReaders(t *testing.T) {
	t.Parallel()
	var s section.Section
	one, two := s.EnterShared(), s.EnterShared()
	if one == nil || two == nil {
		t.Fatal("two readers exclude each other")
	}
	if one() {
		t.Error("two readers are a violation")
	}
	one = s.EnterShared()
	if _, leave := s.Enter(1); leave != nil {
		t.Error("a writer is alone beside two readers")
	}
	if !one() || !two() {
		t.Error("a writer beside two readers was not noticed by both")
	}
	_, leave := s.Enter(1)
	if leave == nil {
		t.Fatal("a writer is not alone after the readers have left")
	}
	if s.EnterShared() != nil {
		t.Error("a reader has entered beside a writer")
	}
	if !leave() {
		t.Error("a reader beside a writer was not noticed")
	}
	if one = s.EnterShared(); one == nil || one() {
		t.Error("a writer that has left was noticed")
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
	_, leave := maps[0][locks-1].Enter(1)
	if handoff, second := maps[1][locks-1].Enter(2); !handoff || second != nil {
		t.Errorf("handoff %v, alone %v", handoff, second != nil)
	}
	if !leave() {
		t.Error("the visitor of the other process was not noticed")
	}
}
