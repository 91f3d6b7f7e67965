package holdfasttest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// The tests of docs/unit-tests.md.

func charge(ctx context.Context, client *holdfast.Client, order string) error {
	return client.Mutex(order).Do(ctx, func(context.Context) error { return nil })
}

func TestCharge(t *testing.T) {
	client := holdfasttest.NewClient(t, nil)
	if err := charge(t.Context(), client, "order:42"); err != nil {
		t.Error(err)
	}
}

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := holdfasttest.NewServer(t)
		crashed, other := server.NewClient(nil), server.NewClient(nil)
		if _, err := crashed.Mutex("order:42").Lock(t.Context(), holdfast.LeaseTime(30*time.Second)); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		lease, err := other.Mutex("order:42").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release(t.Context())
		if waited := time.Since(start); waited < 30*time.Second {
			t.Errorf("the lock was free after %v", waited)
		}
		_ = crashed.Close()
	})
}
