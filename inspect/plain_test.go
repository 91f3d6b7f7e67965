package inspect_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Strings with a TTL are listed on request only, and without the keys of Holdfast. They are
// not locks, and are not broken.
func TestPlainLocks(t *testing.T) {
	s := redistest.Fresh(t)
	c, i := open(t, s.URL())
	ctx := t.Context()
	must(c.Mutex("mutex").Lock(ctx))(t)
	must(c.RWMutex("rw").RLock(ctx))(t)
	must(c.Semaphore("semaphore").TrySet(ctx, 3, 0))(t)
	done(t, c.Semaphore("semaphore").Release(ctx, 1)) // leaves a key that marks the request
	for _, name := range []string{"plain:1", "plain:2", "7"} {
		s.Do(t, "SET", name, "token", "NX", "PX", "60000")
	}
	s.Do(t, "SET", "data", "x")
	s.Do(t, "RPUSH", "list", "x")
	s.Do(t, "PEXPIRE", "list", "60000")
	for match, want := range map[string][]string{"": {"7", "plain:1", "plain:2"}, "plain:*": {"plain:1", "plain:2"}, "x": nil} {
		found := make(map[string]time.Duration)
		for p, err := range i.PlainLocks(ctx, inspect.Query{Match: match}) {
			done(t, err)
			found[p.Name] = p.TTL
			if p.TTL <= 0 || p.TTL > time.Minute {
				t.Errorf("%+v", p)
			}
		}
		if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
			t.Errorf("%q matches %q, want %q", match, got, want)
		}
	}
	for _, err := range i.PlainLocks(ctx, inspect.Query{Limit: 1}) {
		if err != nil && !errors.Is(err, inspect.ErrMore) {
			t.Error(err)
		}
	}
	if p := must(i.PlainLock(ctx, "plain:1"))(t); p.Name != "plain:1" || p.TTL <= 0 || p.TTL > time.Minute {
		t.Errorf("%+v", p)
	}
	for _, name := range []string{"mutex", "data", "list", "none"} {
		if p, err := i.PlainLock(ctx, name); !errors.Is(err, inspect.ErrNotLock) || p.Name != "" {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	if _, err := i.PlainLock(ctx, ""); !errors.Is(err, holdfast.ErrInvalid) {
		t.Error(err)
	}
	if l, err := i.Lock(ctx, "plain:1"); !errors.Is(err, inspect.ErrNotLock) {
		t.Errorf("%+v, %v", l, err)
	}
	if locks, err := list(t, i, inspect.Query{}); err != nil || len(locks) != 2 {
		t.Errorf("listed: %+v, %v", locks, err)
	}
	holders := []inspect.Holder{{Owner: "token", Mode: inspect.Exclusive}}
	for _, kind := range []inspect.Kind{inspect.Mutex, inspect.Fair, inspect.RW, inspect.Semaphore, "plain", ""} {
		if done, err := i.Break(ctx, inspect.Lock{Name: "plain:1", Kind: kind, Holders: holders}); err != nil || done {
			t.Errorf("broken as %q: %v, %v", kind, done, err)
		}
	}
	if got := s.Do(t, "GET", "plain:1"); got != "token" {
		t.Errorf("the value is %v", got)
	}
}
