//go:build !linux

package redistest

import "time"

// Now returns the time in nanoseconds of a clock that all processes of the
// machine share. Outside Linux that is the wall clock, which may be stepped.
func Now() int64 { return time.Now().UnixNano() }
