package holdfast_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// To renew many permits does not keep the server from all others for long.
func TestRenewalOfManyPermits(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const leases, each = 128, 1000
	sem := open(t, s.URL(), holdfast.Options{WatchdogTimeout: 30 * time.Second, RenewEvery: 3 * time.Second}).LeasedSemaphore("big")
	if err := sem.Set(t.Context(), leases*each); err != nil {
		t.Fatal(err)
	}
	for range leases {
		if _, err := sem.Acquire(t.Context(), each); err != nil {
			t.Fatal(err)
		}
	}
	s.Do(t, "CONFIG", "RESETSTAT")
	eventually(t, 30*time.Second, "all were renewed", func() bool { return calls(t, s, "zadd") >= leases*each })
	// By what a script does, since a busy machine makes any of them slow.
	looks := calls(t, s, "zscore")
	scripts := calls(t, s, "evalsha") + calls(t, s, "eval") + 1 // counted when it is over
	if looks > 2*each*scripts {
		t.Errorf("%d looks at permits in %d scripts", looks, scripts)
	}
}
