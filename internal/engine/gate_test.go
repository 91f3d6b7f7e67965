package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A call that queues behind another call waits for an unavailable server for the patience
// of the options, counted from its own start.
func TestOutageOfPreviousTurn(t *testing.T) {
	in(t, func(d *fake.Driver, a, _ *Engine) {
		d.Fail(func(driver.Call) error { return driver.Unsent(errors.New("no network")) })
		lock := func() time.Duration {
			start := time.Now()
			_, err := a.Acquire(context.Background(), script.NewMutex("k"), forever, new(user))
			if !errors.Is(err, ErrUnavailable) {
				t.Errorf("error %v", err)
			}
			return time.Since(start)
		}
		first := make(chan time.Duration)
		go func() { first <- lock() }()
		time.Sleep(options.Patience - time.Second)
		if took := lock(); took < options.Patience || took > options.Patience+2*time.Second {
			t.Errorf("gave up after %v", took)
		}
		if took := <-first; took < options.Patience || took > options.Patience+2*time.Second {
			t.Errorf("the first gave up after %v", took)
		}
	})
}
