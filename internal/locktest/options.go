package locktest

import (
	"time"

	"github.com/holdfast-go/holdfast"
)

// Unpolled are the settings of waiters that nothing but a message, or the end of a
// lease, can wake in time.
var Unpolled = holdfast.Options{PollInterval: time.Minute}

// Quick are the settings of tests that wait for leases to end.
var Quick = holdfast.Options{WatchdogTimeout: 600 * time.Millisecond, PollInterval: 300 * time.Millisecond}

// Steady are the settings of tests in which no lease may be lost, however long
// a busy machine stands still.
var Steady = holdfast.Options{WatchdogTimeout: 3 * time.Second, RenewEvery: 200 * time.Millisecond}
