package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/object"
)

// A thing is an object of some kind, and how to make it exist.
type thing struct {
	name string
	of   func(c *holdfast.Client, name string) *object.Object
	make func(s *redistest.Server, tb testing.TB, name string)
	keys func(name string) []string
}

var things = []thing{
	{
		"one key",
		func(c *holdfast.Client, name string) *object.Object { return object.Of(c.Semaphore(name)) },
		func(s *redistest.Server, tb testing.TB, name string) { s.Do(tb, "SET", name, "3") },
		func(name string) []string { return []string{name} },
	},
	{
		"two keys",
		func(c *holdfast.Client, name string) *object.Object { return object.NewIDGenerator(c, name).Object() },
		func(s *redistest.Server, tb testing.TB, name string) {
			s.Do(tb, "SET", name, "3")
			s.Do(tb, "SET", allocation(name), "5")
		},
		func(name string) []string { return []string{name, allocation(name)} },
	},
}

// allocation is the second key of an id generator.
func allocation(name string) string {
	if strings.HasPrefix(name, "{") {
		return name + ":allocation"
	}
	return "{" + name + "}:allocation"
}

// data are the keys of the server but for what it remembers of requests.
func data(tb testing.TB, s *redistest.Server) []string {
	tb.Helper()
	return slices.DeleteFunc(s.Keys(tb), func(k string) bool { return strings.HasPrefix(k, "holdfast:once:") })
}

// inDatabase returns the URL of a database and its number, which is 0 in a
// cluster, where there is no other.
func inDatabase(s *redistest.Server, n int) (url string, db int) {
	switch redistest.Topology() {
	case "cluster":
		return s.URL(), 0
	case "sentinel":
		return strings.Replace(s.URL(), "/0?", fmt.Sprintf("/%d?", n), 1), n
	}
	return fmt.Sprintf("%s/%d", s.URL(), n), n
}

// yes ends the test unless a call has said what was wanted.
func yes(tb testing.TB, what string, got bool, err error, want bool) {
	tb.Helper()
	if err != nil || got != want {
		tb.Fatalf("%s: %v, %v, want %v", what, got, err, want)
	}
}

func eachThing(t *testing.T, test func(t *testing.T, s *redistest.Server, c *holdfast.Client, k thing)) {
	t.Parallel()
	for _, k := range things {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Fresh(t)
			test(t, s, locktest.Open(t, s.URL(), locktest.Quick), k)
		})
	}
}

func TestObjectLooks(t *testing.T) {
	eachThing(t, func(t *testing.T, s *redistest.Server, c *holdfast.Client, k thing) {
		ctx, o := t.Context(), k.of(c, "a")
		if o.Name() != "a" {
			t.Errorf("name %q", o.Name())
		}
		got, err := o.Exists(ctx)
		yes(t, "exists before", got, err, false)
		got, err = o.Touch(ctx)
		yes(t, "touch before", got, err, false)
		for what, look := range map[string]func() error{
			"memory": func() error { _, err := o.MemoryUse(ctx); return err },
			"idle":   func() error { _, err := o.IdleTime(ctx); return err },
			"ttl":    func() error { _, err := o.TTL(ctx); return err },
			"dump":   func() error { _, err := o.Dump(ctx); return err },
		} {
			if err := look(); !errors.Is(err, holdfast.ErrNotFound) {
				t.Errorf("%s of nothing: %v", what, err)
			}
		}
		k.make(s, t, "a")
		got, err = o.Exists(ctx)
		yes(t, "exists", got, err, true)
		got, err = o.Touch(ctx)
		yes(t, "touch", got, err, true)
		var want int64
		for _, key := range k.keys("a") {
			want += s.Int(t, "MEMORY", "USAGE", key)
		}
		if n, err := o.MemoryUse(ctx); n != want || err != nil {
			t.Errorf("%d bytes, %v, want %d", n, err, want)
		}
		if d, err := o.IdleTime(ctx); d < 0 || d > time.Minute || err != nil {
			t.Errorf("idle for %v, %v", d, err)
		}
		if d, err := o.TTL(ctx); d >= 0 || err != nil {
			t.Errorf("TTL %v, %v", d, err)
		}
		s.Do(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
		defer s.Do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
		if _, err := o.IdleTime(ctx); !errors.Is(err, holdfast.ErrRefused) {
			t.Errorf("idle time where it is not known: %v", err)
		}
	})
}

func TestObjectDelete(t *testing.T) {
	eachThing(t, func(t *testing.T, s *redistest.Server, c *holdfast.Client, k thing) {
		ctx, o := t.Context(), k.of(c, "a")
		for what, remove := range map[string]func(context.Context) (bool, error){"delete": o.Delete, "unlink": o.Unlink} {
			got, err := remove(ctx)
			yes(t, what+" of nothing", got, err, false)
			k.make(s, t, "a")
			got, err = remove(ctx)
			yes(t, what, got, err, true)
			if keys := data(t, s); len(keys) > 0 {
				t.Errorf("%s has left %v", what, keys)
			}
		}
		locktest.Lock(t, ctx, c.Mutex("a"), holdfast.LeaseTime(time.Minute))
		if _, err := o.Delete(ctx); !errors.Is(err, holdfast.ErrRefused) || s.Int(t, "EXISTS", "a") != 1 {
			t.Errorf("deleted a lock: %v", err)
		}
	})
}

// A reply that was lost does not change what the call says.
func TestObjectLostReply(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	o := object.NewIDGenerator(locktest.Open(t, p.URL(), locktest.Quick), "a").Object()
	if _, err := o.Delete(t.Context()); err != nil { // so that the server knows the script
		t.Fatal(err)
	}
	things[1].make(s, t, "a")
	var got bool
	excused, err := locktest.LoseReply(redistest.MeterStalls(t, s), p, func() (err error) {
		got, err = o.Delete(t.Context())
		return err
	})
	if !excused {
		yes(t, "delete", got, err, true)
	}
}

func TestObjectRename(t *testing.T) {
	eachThing(t, func(t *testing.T, s *redistest.Server, c *holdfast.Client, k thing) {
		ctx, o := t.Context(), k.of(c, "{x}a")
		if err := o.Rename(ctx, "{x}b"); !errors.Is(err, holdfast.ErrNotFound) {
			t.Errorf("rename of nothing: %v", err)
		}
		if _, err := o.RenameIfAbsent(ctx, "{x}b"); !errors.Is(err, holdfast.ErrNotFound) {
			t.Errorf("rename of nothing: %v", err)
		}
		k.make(s, t, "{x}a")
		keys := k.keys("{x}b")
		s.Do(t, "SET", keys[len(keys)-1], "9") // a part of another one
		got, err := o.RenameIfAbsent(ctx, "{x}b")
		yes(t, "rename to what is taken", got, err, false)
		if err := o.Rename(ctx, "{x}b"); err != nil {
			t.Fatal(err)
		}
		if left := data(t, s); !slices.Equal(left, keys) || s.Do(t, "GET", "{x}b") != "3" {
			t.Errorf("after the renaming there are %v", left)
		}
		got, err = k.of(c, "{x}b").RenameIfAbsent(ctx, "{x}a")
		yes(t, "rename back", got, err, true)
		if left := data(t, s); !slices.Equal(left, k.keys("{x}a")) {
			t.Errorf("after the renaming there are %v", left)
		}
		locktest.Lock(t, ctx, c.Mutex("{x}b"), holdfast.LeaseTime(time.Minute))
		if err := o.Rename(ctx, "{x}b"); !errors.Is(err, holdfast.ErrRefused) {
			t.Errorf("took the place of a lock: %v", err)
		}
	})
}

func TestObjectCopy(t *testing.T) {
	eachThing(t, func(t *testing.T, s *redistest.Server, c *holdfast.Client, k thing) {
		ctx, o := t.Context(), k.of(c, "{x}a")
		if _, err := o.Copy(ctx, "{x}b"); !errors.Is(err, holdfast.ErrNotFound) {
			t.Errorf("copy of nothing: %v", err)
		}
		k.make(s, t, "{x}a")
		got, err := o.Expire(ctx, time.Hour)
		yes(t, "expire", got, err, true)
		got, err = o.Copy(ctx, "{x}b")
		yes(t, "copy", got, err, true)
		want := slices.Concat(k.keys("{x}a"), k.keys("{x}b"))
		slices.Sort(want)
		if keys := data(t, s); !slices.Equal(keys, want) {
			t.Errorf("after the copying there are %v, want %v", keys, want)
		}
		if d, err := k.of(c, "{x}b").TTL(ctx); d < 50*time.Minute || err != nil {
			t.Errorf("TTL of the copy is %v, %v", d, err)
		}
		s.Do(t, "SET", "{x}a", "4")
		got, err = o.Copy(ctx, "{x}b")
		yes(t, "copy to what is taken", got, err, false)
		if err := o.CopyReplace(ctx, "{x}b"); err != nil || s.Do(t, "GET", "{x}b") != "4" {
			t.Errorf("copied over another: %v", err)
		}
	})
}

// What one script cannot do, because the two names are on different servers, is
// refused before anything is done.
func TestObjectOtherSlot(t *testing.T) {
	eachThing(t, func(t *testing.T, s *redistest.Server, c *holdfast.Client, k thing) {
		ctx, o := t.Context(), k.of(c, "a")
		k.make(s, t, "a")
		for what, call := range map[string]func() error{
			"rename":           func() error { return o.Rename(ctx, "b") },
			"rename if absent": func() error { _, err := o.RenameIfAbsent(ctx, "b"); return err },
			"copy":             func() error { _, err := o.Copy(ctx, "b"); return err },
			"copy replace":     func() error { return o.CopyReplace(ctx, "b") },
		} {
			err := call()
			if redistest.Topology() != "cluster" {
				if err != nil && !errors.Is(err, holdfast.ErrNotFound) { // renamed by now
					t.Errorf("%s: %v", what, err)
				}
				continue
			}
			if !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), "hash tag") {
				t.Errorf("%s: %v", what, err)
			}
			if left := data(t, s); !slices.Equal(left, k.keys("a")) {
				t.Errorf("after the %s there are %v", what, left)
			}
		}
	})
}

func TestObjectMove(t *testing.T) {
	eachThing(t, func(t *testing.T, s *redistest.Server, c *holdfast.Client, k thing) {
		ctx := t.Context()
		if redistest.Topology() == "cluster" {
			if _, err := k.of(c, "a").Move(ctx, 2); !errors.Is(err, holdfast.ErrUnsupported) {
				t.Errorf("move where there is one database: %v", err)
			}
			return
		}
		url, _ := inDatabase(s, 2)
		here, there := k.of(c, "a"), k.of(locktest.Open(t, url), "a")
		got, err := here.Move(ctx, 2)
		yes(t, "move of nothing", got, err, false)
		k.make(s, t, "a")
		got, err = here.Move(ctx, 2)
		yes(t, "move", got, err, true)
		got, err = there.Exists(ctx)
		yes(t, "exists there", got, err, true)
		got, err = here.Exists(ctx)
		yes(t, "exists here", got, err, false)
		keys := k.keys("a")
		s.Do(t, "SET", keys[len(keys)-1], "9")
		got, err = there.Move(ctx, 0)
		yes(t, "move to where something is", got, err, false)
		got, err = here.Delete(ctx)
		yes(t, "delete", got, err, true)
		got, err = there.Move(ctx, 0)
		yes(t, "move back", got, err, true)
		if keys := data(t, s); !slices.Equal(keys, k.keys("a")) {
			t.Errorf("after all there are %v", keys)
		}
		for _, db := range []int{-1, 0} {
			if _, err := here.Move(ctx, db); !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("move to %d: %v", db, err)
			}
		}
		if _, err := here.Move(ctx, 99); !errors.Is(err, holdfast.ErrRefused) {
			t.Errorf("move to a database that is not there: %v", err)
		}
	})
}

func TestObjectDump(t *testing.T) {
	eachThing(t, func(t *testing.T, s *redistest.Server, c *holdfast.Client, k thing) {
		ctx, o := t.Context(), k.of(c, "a")
		k.make(s, t, "a")
		dump, err := o.Dump(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if k.name == "one key" && string(dump) != s.Do(t, "DUMP", "a") {
			t.Errorf("dump %q is not the server's", dump)
		}
		if err := o.Restore(ctx, dump, 0); !errors.Is(err, holdfast.ErrRefused) || !strings.Contains(err.Error(), "RestoreReplace") {
			t.Errorf("restored over what exists: %v", err)
		}
		s.Do(t, "SET", "a", "9")
		if err := o.RestoreReplace(ctx, dump, time.Hour); err != nil {
			t.Fatal(err)
		}
		for _, key := range k.keys("a") {
			if ttl := s.Int(t, "PTTL", key); ttl < 3_000_000 {
				t.Errorf("TTL of %s is %d ms", key, ttl)
			}
		}
		b := k.of(c, "b")
		if err := b.Restore(ctx, dump, 0); err != nil {
			t.Fatal(err)
		}
		if d, err := b.TTL(ctx); d >= 0 || err != nil || s.Do(t, "GET", "b") != "3" || s.Do(t, "GET", "a") != "3" {
			t.Errorf("restored for %v, %v", d, err)
		}
		before := data(t, s)
		damaged := append(slices.Clone(dump[:len(dump)-1]), dump[len(dump)-1]^1)
		for _, junk := range [][]byte{nil, {}, []byte("junk"), damaged} {
			if err := b.RestoreReplace(ctx, junk, 0); !errors.Is(err, object.ErrDump) {
				t.Errorf("%q: %v", junk, err)
			}
		}
		if err := b.RestoreReplace(ctx, dump, -1); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("negative TTL: %v", err)
		}
		if after := data(t, s); !slices.Equal(before, after) || s.Do(t, "GET", "b") != "3" {
			t.Errorf("junk has changed something: %v", after)
		}
	})
	t.Run("other kind", func(t *testing.T) {
		s := redistest.Fresh(t)
		c := locktest.Open(t, s.URL())
		s.Do(t, "RPUSH", "list", "x")
		list := fmt.Sprint(s.Do(t, "DUMP", "list"))
		if err := object.Of(c.Semaphore("a")).Restore(t.Context(), []byte(list), 0); !errors.Is(err, object.ErrDump) {
			t.Errorf("a list as a semaphore: %v", err)
		}
		if keys := data(t, s); !slices.Equal(keys, []string{"list"}) {
			t.Errorf("there are %v", keys)
		}
	})
}

func TestObjectExpire(t *testing.T) {
	eachThing(t, func(t *testing.T, s *redistest.Server, c *holdfast.Client, k thing) {
		ctx, o := t.Context(), k.of(c, "a")
		got, err := o.Expire(ctx, time.Hour)
		yes(t, "expire nothing", got, err, false)
		got, err = o.Persist(ctx)
		yes(t, "clear nothing", got, err, false)
		k.make(s, t, "a")
		lasts := func(want time.Duration) {
			t.Helper()
			for _, key := range k.keys("a") {
				if got := time.Duration(s.Int(t, "PTTL", key)) * time.Millisecond; want < 0 && got >= 0 || got > want || got < want-time.Minute {
					t.Fatalf("TTL of %s is %v, want %v", key, got, want)
				}
			}
			if got, err := o.TTL(ctx); err != nil || want < 0 && got >= 0 || got > want || got < want-time.Minute {
				t.Fatalf("TTL is %v, %v, want %v", got, err, want)
			}
		}
		try := func(d time.Duration, want bool, conditions ...object.ExpireCondition) {
			t.Helper()
			got, err := o.Expire(ctx, d, conditions...)
			yes(t, fmt.Sprint(d, conditions), got, err, want)
		}
		try(time.Hour, false, object.IfTTL)
		try(time.Hour, false, object.IfLater)
		try(time.Hour, true, object.IfNoTTL)
		lasts(time.Hour)
		try(2*time.Hour, false, object.IfNoTTL)
		try(2*time.Hour, false, object.IfSooner)
		try(2*time.Hour, true, object.IfTTL, object.IfLater)
		lasts(2 * time.Hour)
		try(time.Hour, false, object.IfLater)
		try(time.Hour, true, object.IfSooner)
		lasts(time.Hour)
		got, err = o.ExpireAt(ctx, time.Now().Add(3*time.Hour), object.IfSooner)
		yes(t, "expire at, later", got, err, false)
		got, err = o.ExpireAt(ctx, time.Now().Add(3*time.Hour), object.IfLater)
		yes(t, "expire at", got, err, true)
		lasts(3 * time.Hour)
		got, err = o.Persist(ctx)
		yes(t, "clear", got, err, true)
		lasts(-time.Millisecond)
		got, err = o.Persist(ctx)
		yes(t, "clear again", got, err, false)
		got, err = o.ExpireAt(ctx, time.Now().Add(-time.Hour))
		yes(t, "expire in the past", got, err, true)
		if keys := data(t, s); len(keys) > 0 {
			t.Errorf("expired, and there are %v", keys)
		}
	})
}

// Nonsense is refused before anything is sent.
func TestObjectBadInput(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := locktest.Open(t, p.URL())
	p.ResetCounts()
	ctx := t.Context()
	for what, call := range map[string]func(o *object.Object) error{
		"no TTL":            func(o *object.Object) error { _, err := o.Expire(ctx, 0); return err },
		"negative TTL":      func(o *object.Object) error { _, err := o.Expire(ctx, -time.Second); return err },
		"no moment":         func(o *object.Object) error { _, err := o.ExpireAt(ctx, time.Time{}); return err },
		"far moment":        func(o *object.Object) error { _, err := o.ExpireAt(ctx, time.Now().AddDate(100, 0, 0)); return err },
		"unknown condition": func(o *object.Object) error { _, err := o.Expire(ctx, time.Hour, "GT XX"); return err },
		"no new name":       func(o *object.Object) error { return o.Rename(ctx, "") },
		"reserved name":     func(o *object.Object) error { return o.Rename(ctx, "redisson_sc:{a}") },
		"stray brace":       func(o *object.Object) error { _, err := o.Copy(ctx, "a{"); return err },
		"the same name":     func(o *object.Object) error { _, err := o.RenameIfAbsent(ctx, "a"); return err },
		"negative database": func(o *object.Object) error { _, err := o.Move(ctx, -1); return err },
	} {
		for _, k := range things {
			if err := call(k.of(c, "a")); !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("%s, %s: %v", what, k.name, err)
			}
		}
	}
	if err := object.NewIDGenerator(c, "a").Object().CopyReplace(ctx, "{a}"); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("a name with the same keys: %v", err)
	}
	bad := object.Of(c.Semaphore("a{"))
	if _, err := bad.Delete(ctx); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("bad name: %v", err)
	}
	if err := bad.Rename(ctx, "b"); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("bad name: %v", err)
	}
	if n := p.Total() - p.Count("PING"); n != 0 { // which goes out after a second without anything else
		t.Errorf("%d commands were sent: %v", n, p.Commands())
	}
}

// slots is a driver that claims to be of a cluster.
type slots struct{ driver.Driver }

func (slots) Place(key string) driver.Place { return driver.Place{Slot: len(key)} }

func TestObjectSlots(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	config, err := rueidis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	d, err := rueidis.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	c, err := holdfast.New(slots{d}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s.Do(t, "SET", "a", "3")
	o := object.Of(c.Semaphore("a"))
	if err := o.Rename(t.Context(), "bb"); !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), "hash tag") {
		t.Errorf("renamed across slots: %v", err)
	}
	if err := o.Rename(t.Context(), "b"); err != nil {
		t.Errorf("renamed inside a slot: %v", err)
	}
}

// Waiters for a latch that is deleted return.
func TestObjectDeleteLatch(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Open(t, s.URL(), holdfast.Options{PollInterval: time.Hour})
	l := c.Latch(locktest.Name(t))
	got, err := l.TrySet(t.Context(), 2)
	yes(t, "set", got, err, true)
	done := make(chan error, 1)
	go func() { done <- l.Wait(t.Context()) }()
	locktest.AwaitListener(t, s, "redisson_countdownlatch__channel__{"+l.Name()+"}")
	got, err = object.Of(l).Delete(t.Context())
	yes(t, "delete", got, err, true)
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("still waiting")
	}
}
