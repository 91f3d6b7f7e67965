package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/fake"
)

// A server that has answered is not called unavailable because it had not
// before.
func TestTakeAheadAfterOutage(t *testing.T) {
	in(t, func(_ *fake.Driver, e, _ *Engine) {
		r := &room{free: 1, after: time.Minute, fail: driver.Unsent(errors.New("away"))}
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			time.Sleep(time.Second)
			r.mu.Lock()
			r.fail = nil
			r.mu.Unlock()
			time.Sleep(10 * time.Second)
			cancel()
		}()
		_, err := e.Take(ctx, party{r, 1}, Request{Wait: Forever})
		if errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrNotAcquired) {
			t.Error(err)
		}
	})
}
