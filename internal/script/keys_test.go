package script

import (
	"slices"
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
		if got := NewMutex(name).Channels("")[0]; got != want {
			t.Errorf("channel of %q: %q, want %q", name, got, want)
		}
	}
}

func TestDerived(t *testing.T) {
	for name, want := range map[string][]string{
		"doc": {
			"redisson_lock_queue:{doc}", "redisson_lock_timeout:{doc}", "holdfast:waiting:{doc}", "redisson_lock__channel:{doc}:o:1",
			"redisson_lock_token:{doc}", "holdfast:writers:{doc}", "redisson_rwlock:{doc}", "{doc}", "{doc}:o:1:rwlock_timeout",
		},
		"x{t}": {
			"redisson_lock_queue:x{t}", "redisson_lock_timeout:x{t}", "holdfast:waiting:x{t}", "redisson_lock__channel:x{t}:o:1",
			"redisson_lock_token:x{t}", "holdfast:writers:x{t}", "redisson_rwlock:x{t}", "x{t}", "x{t}:o:1:rwlock_timeout",
		},
	} {
		f, r := NewFair(name), NewRead(name)
		got := []string{
			f.keys[1], f.keys[2], f.keys[3], f.Channels("o:1")[0],
			NewFenced(name).keys[1], r.writers, r.Channels("")[0], r.root, r.own("o:1"),
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: keys %q, want %q", name, got, want)
		}
	}
}

// All keys of an object of any shape, in one slot.
func TestShapes(t *testing.T) {
	for _, name := range []string{"doc", "x{t}"} {
		r := root(name)
		for _, c := range []struct {
			kind         string
			keys, beside []string
		}{
			{"bucket", []string{name}, nil},
			{"latch", []string{name}, nil},
			{"leased semaphore", []string{name, r + ":timeout"}, nil},
			{"id generator", []string{name, r + ":allocation"}, nil},
			{"rate limiter", []string{name, r + ":value", r + ":value:c-1", r + ":permits", r + ":permits:c-1", r + ":value:c-1:rate"}, nil},
			{"mutex", []string{name}, nil},
			{"fenced mutex", []string{name}, []string{"redisson_lock_token:" + r}},
			{"fair mutex", []string{name}, []string{"redisson_lock_queue:" + r, "redisson_lock_timeout:" + r, "holdfast:waiting:" + r}},
		} {
			o := NewObject(c.kind, name, "c-1")
			if o.Key() != name || !slices.Equal(o.names(), c.keys) || !slices.Equal(o.all(), slices.Concat(c.keys, c.beside)) {
				t.Errorf("%q: keys %q", name, o.all())
			}
			call := o.Restore("a:0:1", make([]string, len(c.keys)), 0, false)
			for _, key := range append(call.Keys, o.all()...) {
				if slot(key) != slot(name) {
					t.Errorf("%q and %q are in different slots", name, key)
				}
			}
		}
	}
	if o := NewObject("id generator", "doc", ""); !o.Shares("{doc}") || !o.Shares("doc") || o.Shares("doc2") {
		t.Error("who shares keys with doc is not seen")
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

// derived returns all keys of all kinds of locks with that name, as they are
// given to scripts, and those that scripts make of them. Channels are keys to
// a cluster, but two locks may share one: a wake-up too many is harmless.
func derived(name string) []string {
	const owner = "11111111-2222-4333-8444-555555555555:1"
	fair, fenced, read, write := NewFair(name), NewFenced(name), NewRead(name), NewWrite(name, true)
	return slices.Concat(fair.keys[1:], fenced.keys[1:], NewMutex(name).keys[1:], []string{
		fair.Channels(owner)[0], NewElection(name).news, NewBucket(name).channel, read.channel, read.writers, write.writers, read.own(owner), read.own(owner) + ":1",
		read.root + ":" + owner + ":rwlock_timeout:1", // what scripts call the same
	})
}

// Whatever name is taken, all its keys live in one slot, and none is another
// object's. ("0" and "{0}" share theirs, in Redisson as well.)
func FuzzName(f *testing.F) {
	for _, s := range []string{"a", "0", "{0}", "a:{b}:c", "a{b", "a}b", "{}x", "x{t}", "a{b}c{d}", "{{}}", "a{{b}", "{a}:1:rwlock_timeout"} {
		f.Add(s, s+"x")
		f.Add(s, "{"+s+"}")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if CheckName(a) != nil {
			return
		}
		for _, key := range derived(a) {
			if slot(key) != slot(a) {
				t.Errorf("%q and %q are in different slots", a, key)
			}
		}
		if l := NewRead(a); l.own("x:1")+":1" != l.root+":x:1:rwlock_timeout:1" {
			t.Errorf("%q has two names for one key of a reader", a)
		}
		if root(a) == root(b) || CheckName(b) != nil {
			return
		}
		for _, key := range derived(a) {
			if key == b || slices.Contains(derived(b), key) {
				t.Errorf("%q and %q share the key %q", a, b, key)
			}
		}
	})
}

// To delete an object needs keys of one slot only, or no cluster would run it.
func TestDeleteStaysInOneSlot(t *testing.T) {
	for _, name := range []string{"doc", "x{t}", "{t}:x"} {
		for _, kind := range Kinds {
			for _, key := range NewObject(kind.Name, name, "c-1").Delete("a:0:1", false).Keys {
				if slot(key) != slot(name) {
					t.Errorf("%s: %q and %q are in different slots", kind.Name, name, key)
				}
			}
		}
	}
}
