package locktest

import (
	"time"

	"github.com/holdfast-go/holdfast"
)

// Unpolled makes waiters poll too seldom to matter. Only a message or the end of a
// lease wakes them in time.
var Unpolled = holdfast.Options{PollInterval: time.Minute, Anonymous: true}

// Quick has short leases, for tests that wait for their end.
var Quick = holdfast.Options{WatchdogTimeout: 600 * time.Millisecond, PollInterval: 300 * time.Millisecond, Anonymous: true}

// Steady renews early, for tests in which no lease may be lost on a busy machine.
var Steady = holdfast.Options{WatchdogTimeout: 6 * time.Second, RenewEvery: 200 * time.Millisecond, Anonymous: true}
