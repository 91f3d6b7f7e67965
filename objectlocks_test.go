package holdfast_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A lockable is a lock that is an object.
type lockable interface {
	holdfast.Locker
	Object() *holdfast.Object
}

var lockables = map[string]func(c *holdfast.Client, name string) lockable{
	"mutex":        func(c *holdfast.Client, name string) lockable { return c.Mutex(name) },
	"fair mutex":   func(c *holdfast.Client, name string) lockable { return c.FairMutex(name) },
	"fenced mutex": func(c *holdfast.Client, name string) lockable { return c.FencedMutex(name) },
	"rw mutex":     func(c *holdfast.Client, name string) lockable { return c.RWMutex(name) },
}

// What could make a lock lie is refused, and says what to do instead.
func TestObjectOfLock(t *testing.T) {
	t.Parallel()
	for kind, of := range lockables {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := redistest.Fresh(t)
			c := open(t, s.URL())
			ctx, m := t.Context(), of(c, "a")
			o := m.Object()
			got, err := o.Exists(ctx)
			yes(t, "exists before", got, err, false)
			if _, err := o.TTL(ctx); !errors.Is(err, holdfast.ErrNotFound) {
				t.Errorf("TTL of a free lock: %v", err)
			}
			l := lock(t, ctx, m, holdfast.LeaseTime(time.Hour))
			before := s.Keys(t)
			got, err = o.Exists(ctx)
			yes(t, "exists", got, err, true)
			if d, err := o.TTL(ctx); d < 50*time.Minute || err != nil {
				t.Errorf("TTL %v, %v", d, err)
			}
			for what, look := range map[string]func() (bool, error){
				"touch":  func() (bool, error) { return o.Touch(ctx) },
				"memory": func() (bool, error) { n, err := o.MemoryUse(ctx); return n > 0, err },
				"idle":   func() (bool, error) { d, err := o.IdleTime(ctx); return d >= 0, err },
			} {
				got, err := look()
				if kind == "rw mutex" {
					if !errors.Is(err, holdfast.ErrUnsupported) {
						t.Errorf("%s: %v", what, err)
					}
					continue
				}
				yes(t, what, got, err, true)
			}
			for what, call := range map[string]func() error{
				"Lease.Extend expire":     func() error { _, err := o.Expire(ctx, time.Minute); return err },
				"Lease.Extend expire at":  func() error { _, err := o.ExpireAt(ctx, time.Now().Add(time.Minute)); return err },
				"Lease.Extend clear":      func() error { _, err := o.Persist(ctx); return err },
				"ForceUnlock rename":      func() error { return o.Rename(ctx, "b") },
				"ForceUnlock rename if":   func() error { _, err := o.RenameIfAbsent(ctx, "b"); return err },
				"ForceUnlock copy":        func() error { _, err := o.Copy(ctx, "b"); return err },
				"ForceUnlock copy over":   func() error { return o.CopyReplace(ctx, "b") },
				"ForceUnlock move":        func() error { _, err := o.Move(ctx, 1); return err },
				"ForceUnlock dump":        func() error { _, err := o.Dump(ctx); return err },
				"ForceUnlock restore":     func() error { return o.Restore(ctx, []byte("x"), 0) },
				"ForceUnlock put instead": func() error { return o.RestoreReplace(ctx, []byte("x"), 0) },
			} {
				instead, _, _ := strings.Cut(what, " ")
				if err := call(); !errors.Is(err, holdfast.ErrUnsupported) || !strings.Contains(err.Error(), instead) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if after := s.Keys(t); !slices.Equal(before, after) || !l.Valid() {
				t.Errorf("something has changed: %v, %v", before, after)
			}
		})
	}
}

// Whoever loses a lock to Delete is told so.
func TestObjectDeleteLock(t *testing.T) {
	t.Parallel()
	for kind, of := range lockables {
		for what, remove := range map[string]func(*holdfast.Object, context.Context) (bool, error){
			"delete": (*holdfast.Object).Delete, "unlink": (*holdfast.Object).Unlink,
		} {
			t.Run(kind+"/"+what, func(t *testing.T) {
				t.Parallel()
				s := redistest.Fresh(t)
				c := open(t, s.URL())
				m := of(c, "a")
				got, err := remove(m.Object(), t.Context())
				yes(t, what+" of a free lock", got, err, false)
				l := lock(t, t.Context(), m, holdfast.LeaseTime(time.Hour))
				got, err = remove(m.Object(), t.Context())
				yes(t, what, got, err, true)
				var lost *holdfast.LostError
				if cause := context.Cause(l.Context()); !errors.As(cause, &lost) || lost.Reason != holdfast.LossForced || l.Valid() {
					t.Errorf("the holder knows nothing: %v", cause)
				}
				release(t, lock(t, t.Context(), m))
			})
		}
	}
}

// Of a read/write lock both sides are freed.
func TestObjectDeleteReaders(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	c, m := open(t, s.URL()), open(t, s.URL()).RWMutex("a")
	written := lock(t, t.Context(), m, holdfast.LeaseTime(time.Hour))
	read, err := m.RLock(written.Context(), holdfast.LeaseTime(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.Object().Delete(t.Context())
	yes(t, "delete", got, err, true)
	if written.Valid() || read.Valid() || len(s.Keys(t)) > 0 {
		t.Errorf("writer %v, reader %v, left %v", written.Valid(), read.Valid(), s.Keys(t))
	}
	reads, err := c.RWMutex("a").RLock(t.Context(), holdfast.LeaseTime(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	got, err = c.RWMutex("a").Object().Delete(t.Context())
	yes(t, "delete", got, err, true)
	if reads.Valid() || len(s.Keys(t)) > 0 {
		t.Errorf("reader %v, left %v", reads.Valid(), s.Keys(t))
	}
}
