package redistest

import "time"

// pollPause is the time between two looks of [Poll].
const pollPause = 5 * time.Millisecond

// Poll looks until a condition is true, and reports whether it was true within that time. It
// is for what a test can see, but is not told.
func Poll(limit time.Duration, cond func() bool) bool {
	for end := time.Now().Add(limit); ; time.Sleep(pollPause) {
		over := time.Now().After(end) // before the look: the machine may stand still between them
		if cond() {
			return true
		}
		if over {
			return false
		}
	}
}
