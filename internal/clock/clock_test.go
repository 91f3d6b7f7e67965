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

// TestSleep lets the machine sleep, which the wall clock shows, too.
func TestSleep(t *testing.T) {
	old := boot
	defer func() { boot = old }()
	before := Now()
	boot = func() time.Duration { return old() + time.Hour + time.Duration(slept.Load()) }
	ahead.Add(-int64(time.Hour))
	for range 2 {
		if jumped := Now() - before; jumped < time.Hour-time.Minute || jumped > time.Hour+time.Minute {
			t.Errorf("jumped by %v", jumped)
		}
		boot = old
	}
	ahead.Add(int64(2 * time.Hour)) // the wall clock is set
	if jumped := Now() - before; jumped > time.Hour+time.Minute {
		t.Errorf("jumped by %v after the wall clock was set", jumped)
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

func TestRounded(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                            "0s",
		1234567 * time.Nanosecond:    "1ms",
		999600 * time.Microsecond:    "1s",
		18936975170:                  "18.9s",
		-18936975170:                 "-18.9s",
		61234 * time.Millisecond:     "1m1s",
		59*time.Minute + 59381239745: "59m59s",
	} {
		if got := Rounded(d).String(); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}
