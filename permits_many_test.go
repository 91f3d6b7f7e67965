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
	// Renewals of these must leave the server time for anything else, also on a
	// machine that gives it an eighth of a processor.
	const leases, each = 32, 1000
	sem := open(t, enduring(s.URL()), holdfast.Options{WatchdogTimeout: time.Minute, RenewEvery: 3 * time.Second}).LeasedSemaphore("big")
	if err := sem.Set(t.Context(), leases*each); err != nil {
		t.Fatal(err)
	}
	for range leases {
		if _, err := sem.Acquire(t.Context(), each); err != nil {
			t.Fatal(err)
		}
	}
	s.Do(t, "CONFIG", "RESETSTAT")
	eventually(t, time.Minute, "all were renewed", func() bool { return calls(t, s, "zadd") >= leases*each })
	// By what a script does, since a busy machine makes any of them slow.
	looks := calls(t, s, "zscore")
	scripts := calls(t, s, "evalsha") + calls(t, s, "eval") + 1 // counted when it is over
	if looks > 2*each*scripts {
		t.Errorf("%d looks at permits in %d scripts", looks, scripts)
	}
}
