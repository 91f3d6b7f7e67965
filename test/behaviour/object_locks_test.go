package behaviour_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/object"
)

// keysOf returns the keys of objects, without the marks of requests.
func keysOf(tb testing.TB, s *redistest.Server) []string {
	keys := slices.DeleteFunc(s.Keys(tb), func(key string) bool { return strings.HasPrefix(key, "holdfast:") })
	slices.Sort(keys)
	return keys
}

// Every kind that is made of several keys, or of one, keeps them together.
func TestObjectKinds(t *testing.T) {
	t.Parallel()
	for kind, create := range map[string]func(context.Context, *holdfast.Client, string) (*object.Object, error){
		"leased semaphore": func(ctx context.Context, c *holdfast.Client, n string) (*object.Object, error) {
			sem := c.LeasedSemaphore(n)
			if _, err := sem.TrySet(ctx, 3, 0); err != nil {
				return nil, err
			}
			_, err := sem.Acquire(ctx, 2, holdfast.LeaseTime(time.Hour))
			return object.Of(sem), err
		},
		"rate limiter": func(ctx context.Context, c *holdfast.Client, n string) (*object.Object, error) {
			l := c.RateLimiter(n)
			if err := l.SetRate(ctx, holdfast.Rate{Permits: 3, Per: time.Hour}); err != nil {
				return nil, err
			}
			_, err := l.AllowN(ctx, 2)
			return object.Of(l), err
		},
		"id generator": func(ctx context.Context, c *holdfast.Client, n string) (*object.Object, error) {
			g := object.NewIDGenerator(c, n)
			_, err := g.Next(ctx)
			return g.Object(), err
		},
		"time id": func(ctx context.Context, c *holdfast.Client, n string) (*object.Object, error) {
			ids := object.NewTimeID(c, n)
			_, err := ids.Next(ctx)
			return ids.Object(), err
		},
		"atomic long": func(ctx context.Context, c *holdfast.Client, n string) (*object.Object, error) {
			return object.NewAtomicLong(c, n).Object(), object.NewAtomicLong(c, n).Store(ctx, 5)
		},
		"bucket": func(ctx context.Context, c *holdfast.Client, n string) (*object.Object, error) {
			b := object.NewBucket(c, n, object.StringCodec{})
			return b.Object(), b.Set(ctx, "x", 0)
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := redistest.Fresh(t)
			c := locktest.Open(t, s.URL())
			ctx := t.Context()
			o, err := create(ctx, c, "{k}:old")
			if err != nil {
				t.Fatal(err)
			}
			before := keysOf(t, s)
			renamed := func(to string) []string {
				keys := slices.Clone(before)
				for i := range keys {
					keys[i] = strings.Replace(keys[i], "{k}:old", to, 1)
				}
				return keys
			}
			want := func(what string, keys ...string) {
				t.Helper()
				slices.Sort(keys)
				if got := keysOf(t, s); !slices.Equal(got, keys) {
					t.Errorf("%s: keys %q, want %q", what, got, keys)
				}
			}
			dump, err := o.Dump(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if done, err := o.Copy(ctx, "{k}:copy"); !done || err != nil {
				t.Fatal(done, err)
			}
			want("copied", append(renamed("{k}:copy"), before...)...)
			if err := o.Rename(ctx, "{k}:copy"); err != nil {
				t.Fatal(err)
			}
			want("renamed", renamed("{k}:copy")...)
			if err := o.Restore(ctx, dump, 0); err != nil {
				t.Fatal(err)
			}
			want("restored", append(renamed("{k}:copy"), before...)...)
			if n, err := o.MemoryUse(ctx); n < int64(len(before)) || err != nil {
				t.Error(n, err)
			}
			if done, err := o.Expire(ctx, time.Minute); !done || err != nil {
				t.Error(done, err)
			}
			for _, key := range before {
				if ttl := s.Int(t, "PTTL", key); ttl <= 0 {
					t.Errorf("%s does not end: %d", key, ttl)
				}
			}
			if done, err := o.Persist(ctx); !done || err != nil {
				t.Error(done, err)
			}
			for _, key := range before {
				if ttl := s.Int(t, "PTTL", key); ttl != -1 {
					t.Errorf("%s ends: %d", key, ttl)
				}
			}
			if redistest.Topology() == "cluster" {
				return // where there is one database
			}
			if done, err := o.Move(ctx, 1); !done || err != nil {
				t.Error(done, err)
			}
			want("moved", renamed("{k}:copy")...)
			if there, err := o.Exists(ctx); there || err != nil {
				t.Error(there, err)
			}
		})
	}
}

// lockables are the locks that are objects.
var lockables = map[string]func(c *holdfast.Client, name string) holdfast.Locker{
	"mutex":        func(c *holdfast.Client, name string) holdfast.Locker { return c.Mutex(name) },
	"fair mutex":   func(c *holdfast.Client, name string) holdfast.Locker { return c.FairMutex(name) },
	"fenced mutex": func(c *holdfast.Client, name string) holdfast.Locker { return c.FencedMutex(name) },
	"rw mutex":     func(c *holdfast.Client, name string) holdfast.Locker { return c.RWMutex(name) },
}

// What could make a lock lie is refused, and says what to do instead.
func TestObjectOfLock(t *testing.T) {
	t.Parallel()
	for kind, of := range lockables {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := redistest.Fresh(t)
			c := locktest.Open(t, s.URL())
			ctx, m := t.Context(), of(c, "a")
			o := locktest.ObjectOf(m)
			got, err := o.Exists(ctx)
			yes(t, "exists before", got, err, false)
			if _, err := o.TTL(ctx); !errors.Is(err, holdfast.ErrNotFound) {
				t.Errorf("TTL of a free lock: %v", err)
			}
			l := locktest.Lock(t, ctx, m, holdfast.LeaseTime(time.Hour))
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

// A holder that loses its lock to Delete is told.
func TestObjectDeleteLock(t *testing.T) {
	t.Parallel()
	for kind, of := range lockables {
		for what, remove := range map[string]func(*object.Object, context.Context) (bool, error){
			"delete": (*object.Object).Delete, "unlink": (*object.Object).Unlink,
		} {
			t.Run(kind+"/"+what, func(t *testing.T) {
				t.Parallel()
				s := redistest.Fresh(t)
				c := locktest.Open(t, s.URL())
				m := of(c, "a")
				got, err := remove(locktest.ObjectOf(m), t.Context())
				yes(t, what+" of a free lock", got, err, false)
				l := locktest.Lock(t, t.Context(), m, holdfast.LeaseTime(time.Hour))
				got, err = remove(locktest.ObjectOf(m), t.Context())
				yes(t, what, got, err, true)
				var lost *holdfast.LostError
				if cause := context.Cause(l.Context()); !errors.As(cause, &lost) || lost.Reason != holdfast.LossForced || l.Valid() {
					t.Errorf("the holder knows nothing: %v", cause)
				}
				locktest.Release(t, locktest.Lock(t, t.Context(), m))
			})
		}
	}
}

// Of a read/write lock both sides are freed.
func TestObjectDeleteReaders(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	c, m := locktest.Open(t, s.URL()), locktest.Open(t, s.URL()).RWMutex("a")
	written := locktest.Lock(t, t.Context(), m, holdfast.LeaseTime(time.Hour))
	read, err := m.RLock(written.Context(), holdfast.LeaseTime(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	got, err := object.Of(m).Delete(t.Context())
	yes(t, "delete", got, err, true)
	if written.Valid() || read.Valid() || len(s.Keys(t)) > 0 {
		t.Errorf("writer %v, reader %v, left %v", written.Valid(), read.Valid(), s.Keys(t))
	}
	reads, err := c.RWMutex("a").RLock(t.Context(), holdfast.LeaseTime(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	got, err = object.Of(c.RWMutex("a")).Delete(t.Context())
	yes(t, "delete", got, err, true)
	if reads.Valid() || len(s.Keys(t)) > 0 {
		t.Errorf("reader %v, left %v", reads.Valid(), s.Keys(t))
	}
}
