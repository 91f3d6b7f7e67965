package holdfast_test

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// A bucket without a client says so, whatever is asked of it.
func TestBucketWithoutClient(t *testing.T) {
	t.Parallel()
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("panic: %v", r)
		}
	}()
	b := holdfast.NewBucket(nil, "x", holdfast.StringCodec{})
	if err := b.Object().Rename(t.Context(), "y"); !errors.Is(err, holdfast.ErrInvalid) {
		t.Error(err)
	}
}
