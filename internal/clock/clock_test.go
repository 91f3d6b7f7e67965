package clock

import (
	"testing"
	"time"
)

func TestClock(t *testing.T) {
	early, now := Early(), Now()
	if early > now || now < 0 {
		t.Errorf("early %v, now %v", early, now)
	}
	Skip(time.Hour)
	if jumped := Now() - now; jumped < time.Hour || jumped > time.Hour+time.Minute {
		t.Errorf("jumped by %v", jumped)
	}
	before := Now()
	early = Early()
	if after := Now(); early < before || early > after {
		t.Errorf("Early is %v, between %v and %v, although Now has noticed the jump", early, before, after)
	}
	for last := Now(); last < now+time.Hour+20*time.Millisecond; {
		next := Now()
		if next < last {
			t.Fatalf("%v after %v", next, last)
		}
		last = next
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}

func BenchmarkEarly(b *testing.B) {
	for b.Loop() {
		Early()
	}
}
