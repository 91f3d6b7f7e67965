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
	sem := open(t, s.URL(), holdfast.Options{WatchdogTimeout: 30 * time.Second, RenewEvery: 6 * time.Second}).LeasedSemaphore("big")
	if err := sem.Set(t.Context(), leases*each); err != nil {
		t.Fatal(err)
	}
	for range leases {
		if _, err := sem.Acquire(t.Context(), each); err != nil {
			t.Fatal(err)
		}
	}
	s.Do(t, "CONFIG", "SET", "slowlog-log-slower-than", "100000")
	s.Do(t, "SLOWLOG", "RESET")
	time.Sleep(8 * time.Second)
	slow := s.Do(t, "SLOWLOG", "GET", "10").([]any)
	for _, e := range slow {
		us := e.([]any)[2].(int64)
		t.Errorf("the server stood still for %v", time.Duration(us)*time.Microsecond)
	}
}
