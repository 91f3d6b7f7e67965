package load

import "testing"

func TestSection(t *testing.T) {
	t.Parallel()
	var s section
	enter := func(visitor, before int64, alone bool) func() bool {
		t.Helper()
		b, leave := s.enter(visitor)
		if b != before || (leave != nil) != alone {
			t.Errorf("visitor %d after %d, alone %v", visitor, b, leave != nil)
		}
		return leave
	}
	for _, v := range []struct{ visitor, before int64 }{{1, 0}, {1, 1}, {2, 1}, {1, 2}} {
		if enter(v.visitor, v.before, true)() {
			t.Errorf("there was another visitor beside %d", v.visitor)
		}
	}
	leave := enter(2, 1, true)
	enter(1, 2, false)
	enter(3, 1, false)
	if !leave() {
		t.Error("two visitors beside another one were not noticed")
	}
	if enter(3, 3, true)() {
		t.Error("visitors that have left were noticed")
	}
}

func TestSectionWithReaders(t *testing.T) {
	t.Parallel()
	var s section
	one, two := s.enterShared(), s.enterShared()
	if one == nil || two == nil {
		t.Fatal("two readers exclude each other")
	}
	if one() {
		t.Error("two readers are a violation")
	}
	one = s.enterShared()
	if _, leave := s.enter(1); leave != nil {
		t.Error("a writer is alone beside two readers")
	}
	if !one() || !two() {
		t.Error("a writer beside two readers was not noticed by both")
	}
	_, leave := s.enter(1)
	if leave == nil {
		t.Fatal("a writer is not alone after the readers have left")
	}
	if s.enterShared() != nil {
		t.Error("a reader has entered beside a writer")
	}
	if !leave() {
		t.Error("a reader beside a writer was not noticed")
	}
	if one = s.enterShared(); one == nil || one() {
		t.Error("a writer that has left was noticed")
	}
}
