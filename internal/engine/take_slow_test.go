package engine

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A slow server takes its time for each answer, which is always yes.
type slowServer struct{ party }

func (s slowServer) Decode(script.Claim, driver.Reply) (script.Verdict, error) {
	time.Sleep(options.Lease)
	return script.Verdict{Token: 1}, nil
}

// What has no lease cannot be granted after its lease was over.
func TestTakeFromSlowServer(t *testing.T) {
	in(t, func(_ *fake.Driver, e, _ *Engine) {
		if _, err := e.Take(context.Background(), slowServer{party{new(room), 1}}, Request{Wait: Forever}); err != nil {
			t.Error(err)
		}
	})
}
