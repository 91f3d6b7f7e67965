//go:build !linux

package clock

import "time"

// sinceBoot is zero where the system offers no clock that counts sleep; the
// monotonic clock then decides alone.
func sinceBoot() time.Duration { return 0 }
