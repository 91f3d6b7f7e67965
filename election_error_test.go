package holdfast_test

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

var errWork = errors.New("work")

// Lead returns the error of its function as it is, as Do does.
func TestLeadReturnsTheError(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Shared(t).URL())
	fail := func(context.Context) error { return errWork }
	if err := c.Mutex(name(t)).Do(t.Context(), fail); !errors.Is(err, errWork) || err.Error() != errWork.Error() {
		t.Errorf("Do: %#v", err)
	}
	if err := c.Election(name(t)).Lead(t.Context(), "a", fail); !errors.Is(err, errWork) || err.Error() != errWork.Error() {
		t.Errorf("Lead: %#v", err)
	}
}
