//go:build !linux

package clock

import "time"

// sinceBoot returns zero on systems without a clock that includes sleep. Then
// only the monotonic clock is used.
func sinceBoot() time.Duration { return 0 }
