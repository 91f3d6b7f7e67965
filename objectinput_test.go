package holdfast_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Nonsense is refused before anything is sent.
func TestObjectBadInput(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := open(t, p.URL())
	p.ResetCounts()
	ctx := t.Context()
	for what, call := range map[string]func(o *holdfast.Object) error{
		"no TTL":            func(o *holdfast.Object) error { _, err := o.Expire(ctx, 0); return err },
		"negative TTL":      func(o *holdfast.Object) error { _, err := o.Expire(ctx, -time.Second); return err },
		"no moment":         func(o *holdfast.Object) error { _, err := o.ExpireAt(ctx, time.Time{}); return err },
		"far moment":        func(o *holdfast.Object) error { _, err := o.ExpireAt(ctx, time.Now().AddDate(100, 0, 0)); return err },
		"unknown condition": func(o *holdfast.Object) error { _, err := o.Expire(ctx, time.Hour, "GT XX"); return err },
		"no new name":       func(o *holdfast.Object) error { return o.Rename(ctx, "") },
		"reserved name":     func(o *holdfast.Object) error { return o.Rename(ctx, "redisson_sc:{a}") },
		"stray brace":       func(o *holdfast.Object) error { _, err := o.Copy(ctx, "a{"); return err },
		"the same name":     func(o *holdfast.Object) error { _, err := o.RenameIfAbsent(ctx, "a"); return err },
		"negative database": func(o *holdfast.Object) error { _, err := o.Move(ctx, -1); return err },
	} {
		for _, k := range things {
			if err := call(k.of(c, "a")); !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("%s, %s: %v", what, k.name, err)
			}
		}
	}
	if err := c.IDGenerator("a").Object().CopyReplace(ctx, "{a}"); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("a name with the same keys: %v", err)
	}
	bad := c.Semaphore("a{").Object()
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
	c, err := holdfast.New(slots{d}, holdfast.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s.Do(t, "SET", "a", "3")
	o := c.Semaphore("a").Object()
	if err := o.Rename(t.Context(), "bb"); !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), "hash tag") {
		t.Errorf("renamed across slots: %v", err)
	}
	if err := o.Rename(t.Context(), "b"); err != nil {
		t.Errorf("renamed inside a slot: %v", err)
	}
}

// Those who wait for a latch that is deleted are through.
func TestObjectDeleteLatch(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := open(t, s.URL(), holdfast.Options{PollInterval: time.Hour})
	l := c.Latch(name(t))
	got, err := l.TrySet(t.Context(), 2)
	yes(t, "set", got, err, true)
	done := make(chan error, 1)
	go func() { done <- l.Wait(t.Context()) }()
	listened(t, s, "redisson_countdownlatch__channel__{"+l.Name()+"}")
	got, err = l.Object().Delete(t.Context())
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
