package engine

import (
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// forceTimes stores when keys were last freed by force in this process. Keys with the
// same hash share one time, so its size is fixed and nothing has to be removed. If a
// grant shares the hash of a forced key, it is verified without need. The zero value is
// ready to use.
type forceTimes [1024]atomic.Int64

func (f *forceTimes) at(key string) *atomic.Int64 {
	return &f[hash(key)%uint64(len(f))]
}

// note stores that a key has just been freed by force.
func (f *forceTimes) note(key string) {
	at, now := f.at(key), int64(clock.Now())
	for old := at.Load(); old < now && !at.CompareAndSwap(old, now); {
		old = at.Load()
	}
}

// since reports whether a key may have been freed by force at that time, a value of
// clock.Now, or later.
func (f *forceTimes) since(key string, at time.Duration) bool {
	return f.at(key).Load() >= int64(at)
}
