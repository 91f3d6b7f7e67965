package interop_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// A NameMapper that adds a prefix and a NamePrefix of the same text give a lock the same

func TestNamePrefix(t *testing.T) {
	t.Parallel()
	s := redistest.One(t)
	text := "singleServerConfig: {address: 'redis://" + s.Addr() + "', connectionMinimumIdleSize: 4}\n" +
		"nameMapper: !<holdfast.Prefix> {prefix: 'shop:'}\n"
	file := filepath.Join(t.TempDir(), "redisson.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := peer(t, interop.Current).OpenYAML(text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	java := &redisson{r}
	plain := open(t, s.URL(), holdfast.Options{})
	exclusive(t, interop.Current, func(t *testing.T, k kind) {
		c, err := holdfast.OpenConfig(t.Context(), file, &holdfast.Options{NamePrefix: "shop:", PollInterval: time.Minute, Anonymous: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		name := locktest.Name(t)
		lock, thread := k.golang(c, name), newJava(t, java, k, name, k.name)

		thread.Lock(t, 0)
		if l, err := lock.TryLock(t.Context()); err == nil {
			t.Errorf("Go locks what Java holds: %v", l.Release(context.Background()))
		}
		if l, err := k.golang(plain, name).TryLock(t.Context()); err != nil {
			t.Errorf("without the prefix: %v", err)
		} else {
			locktest.Release(t, l)
		}
		got := make(chan *holdfast.Lease, 1)
		waits := goroutineWaits(c)
		go func() { got <- locktest.Lock(t, t.Context(), lock) }()
		awaitWaiting(t, waits, got)
		thread.Unlock(t) // the message must wake Go, which does not poll
		l := <-got
		if thread.TryLock(t, 0, 0) {
			t.Error("Java locks what Go holds")
		}
		locktest.Release(t, l)
		thread.Lock(t, 0)
		thread.Unlock(t)
	})
}

// Redisson refuses a file with a section that it does not know. So a file for both sides
// has no section holdfast.
func TestOwnSection(t *testing.T) {
	t.Parallel()
	releases(t, func(t *testing.T, release interop.Release) {
		for section, fine := range map[string]bool{"": true, "holdfast: {pollInterval: 1m}": false} {
			a := peer(t, release).Do(interop.Call{
				On: "org.redisson.config.Config", Method: "fromYAML",
				Args: []any{"singleServerConfig: {address: 'redis://h:1'}\n" + section + "\n"},
			})
			if (a.Err() == nil) != fine {
				t.Errorf("%q: %v", section, a.Err())
			}
		}
	})
}
