package holdfast_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
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
	for kind, create := range map[string]func(context.Context, *holdfast.Client, string) (*holdfast.Object, error){
		"leased semaphore": func(ctx context.Context, c *holdfast.Client, n string) (*holdfast.Object, error) {
			sem := c.LeasedSemaphore(n)
			if _, err := sem.TrySet(ctx, 3, 0); err != nil {
				return nil, err
			}
			_, err := sem.Acquire(ctx, 2, holdfast.LeaseTime(time.Hour))
			return sem.Object(), err
		},
		"rate limiter": func(ctx context.Context, c *holdfast.Client, n string) (*holdfast.Object, error) {
			l := c.RateLimiter(n)
			if err := l.SetRate(ctx, holdfast.Rate{Permits: 3, Per: time.Hour}); err != nil {
				return nil, err
			}
			_, err := l.AllowN(ctx, 2)
			return l.Object(), err
		},
		"id generator": func(ctx context.Context, c *holdfast.Client, n string) (*holdfast.Object, error) {
			g := c.IDGenerator(n)
			_, err := g.Next(ctx)
			return g.Object(), err
		},
		"time id": func(ctx context.Context, c *holdfast.Client, n string) (*holdfast.Object, error) {
			ids := c.TimeID(n)
			_, err := ids.Next(ctx)
			return ids.Object(), err
		},
		"atomic long": func(ctx context.Context, c *holdfast.Client, n string) (*holdfast.Object, error) {
			return c.AtomicLong(n).Object(), c.AtomicLong(n).Store(ctx, 5)
		},
		"bucket": func(ctx context.Context, c *holdfast.Client, n string) (*holdfast.Object, error) {
			b := holdfast.NewBucket(c, n, holdfast.StringCodec{})
			return b.Object(), b.Set(ctx, "x", 0)
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := redistest.Fresh(t)
			c := open(t, s.URL())
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
