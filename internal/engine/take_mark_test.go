package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
)

// An order is not repeated when the server may have forgotten that it was
// carried out: it would be carried out twice.
func TestOrderIsNotRepeatedAfterItsMark(t *testing.T) {
	in(t, func(d *fake.Driver, e, _ *Engine) {
		var mu sync.Mutex
		var first, last time.Time
		d.Fail(func(driver.Call) error {
			mu.Lock()
			defer mu.Unlock()
			if last = time.Now(); first.IsZero() {
				first = last
			}
			return &driver.Error{Class: driver.Ambiguous, Err: errors.New("lost")}
		})
		order := func(request string) driver.Call { return script.NewMutex("l").Free(request) } // any will do
		if _, err := e.Once(context.Background(), order, order); !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		time.Sleep(2 * script.MarkLife)
		mu.Lock()
		defer mu.Unlock()
		if over := last.Sub(first) - script.MarkLife; over >= 0 {
			t.Errorf("sent again %v after the mark of the first copy was gone", over)
		}
		d.Fail(nil)
	})
}
