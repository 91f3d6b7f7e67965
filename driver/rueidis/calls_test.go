package rueidis

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// overdue is a context whose deadline has passed a moment ago, and whose timer
// has not fired yet.
type overdue struct{ context.Context }

func (overdue) Deadline() (time.Time, bool) { return time.Now().Add(-time.Microsecond), true }

func TestTimeoutCause(t *testing.T) {
	n := &node{}
	silent := driver.Unknown(os.ErrDeadlineExceeded)
	if err := n.timeoutCause(overdue{t.Context()}, silent); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("at the caller's deadline: %v, want context.DeadlineExceeded", err)
	}
	later, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if err := n.timeoutCause(later, silent); errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("before the caller's deadline: %v", err)
	}
}
