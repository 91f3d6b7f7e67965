package script

import (
	"strings"
	"testing"
)

func TestPrefixed(t *testing.T) {
	// What Redisson derives from these names, character by character.
	for name, want := range map[string]string{
		"a":         "redisson_lock__channel:{a}",
		"a:{b}:c":   "redisson_lock__channel:a:{b}:c",
		"job":       "redisson_lock__channel:{job}",
		"x{t}":      "redisson_lock__channel:x{t}",
		"a{b}c{d}":  "redisson_lock__channel:a{b}c{d}",
		"order: 42": "redisson_lock__channel:{order: 42}",
	} {
		if got := NewMutex(name).Channel(); got != want {
			t.Errorf("channel of %q: %q, want %q", name, got, want)
		}
	}
}

func TestCheckName(t *testing.T) {
	for _, name := range []string{
		"a", "order:42", "a:{b}:c", "{b}", "x{t}", "a{b}c{d}", "a{b}c}", "Zürich", "锁", strings.Repeat("x", MaxName), "redisson", "holdfast",
	} {
		if err := CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{
		"", strings.Repeat("x", MaxName+1), "a\nb", "a\x00", "\u0085", "\xff", "a}b", "a{b", "{", "}", "a{}b", "{}x", "a}b{c}",
		"redisson_lock_queue:{v}", "redisson_lock__channel:{v}", "redisson_unlock_latch:{a}:1", "holdfast:x",
	} {
		if err := CheckName(name); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

// slot is the cluster slot of a key, by the rules of Redis.
func slot(key string) uint16 {
	if i := strings.IndexByte(key, '{'); i >= 0 {
		if j := strings.IndexByte(key[i+1:], '}'); j > 0 {
			key = key[i+1 : i+1+j]
		}
	}
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % 16384
}

func TestSlot(t *testing.T) {
	if got := slot("123456789"); got != 12739 {
		t.Fatalf("slot of the reference string: %d, want 12739", got)
	}
}

// Whatever name is taken, its channel lives in the slot of its key, and is no
// other object's key. ("0" and "{0}" share a channel, in Redisson as well; a
// wake-up too many is harmless.)
func FuzzName(f *testing.F) {
	for _, s := range []string{"a", "0", "{0}", "a:{b}:c", "a{b", "a}b", "{}x", "x{t}", "a{b}c{d}", "{{}}", "a{{b}"} {
		f.Add(s, s+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if CheckName(a) != nil {
			return
		}
		m := NewMutex(a)
		if slot(m.Channel()) != slot(a) {
			t.Errorf("%q and its channel %q are in different slots", a, m.Channel())
		}
		if a == b || CheckName(b) != nil {
			return
		}
		n := NewMutex(b)
		if m.Channel() == b || n.Channel() == a {
			t.Errorf("%q and %q share a key", a, b)
		}
	})
}
