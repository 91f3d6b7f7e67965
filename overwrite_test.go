package holdfast_test

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A key that holds something else is refused, as the documentation says, and
// not overwritten: it may be a lock.
func TestValuesLeaveLocksAlone(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Shared(t).URL())
	ctx := t.Context()
	for title, write := range map[string]func(string) error{
		"AtomicLong.Store":  func(n string) error { return c.AtomicLong(n).Store(ctx, 1) },
		"Bucket.Set":        func(n string) error { return holdfast.NewBucket(c, n, holdfast.StringCodec{}).Set(ctx, "x", 0) },
		"Bucket.SetKeepTTL": func(n string) error { return holdfast.NewBucket(c, n, holdfast.StringCodec{}).SetKeepTTL(ctx, "x") },
		"Bucket.SetIfExists": func(n string) error {
			_, err := holdfast.NewBucket(c, n, holdfast.StringCodec{}).SetIfExists(ctx, "x", 0)
			return err
		},
		"TimeID.Next": func(n string) error {
			_, err := c.TimeID(n).Next(ctx)
			return err
		},
		"RateLimiter.TrySetRate": func(n string) error {
			_, err := c.RateLimiter(n).TrySetRate(ctx, holdfast.Rate{Permits: 1, Per: 60e9})
			return err
		},
	} {
		t.Run(title, func(t *testing.T) {
			m := c.Mutex(name(t))
			l := lock(t, ctx, m)
			if err := write(m.Name()); !errors.Is(err, holdfast.ErrRefused) {
				t.Errorf("error %v", err)
			}
			state, err := m.State(ctx)
			if err != nil || state.Owner != l.Owner() {
				t.Errorf("the lock is %+v, %v", state, err)
			}
			if err := l.Release(ctx); err != nil {
				t.Error(err)
			}
			if held, err := m.IsLocked(ctx); held || err != nil {
				t.Errorf("still held: %v, %v", held, err)
			}
		})
	}
}
