package engine

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// forces knows when keys were last freed by force in this process. It keeps one
// moment for all keys with the same hash, so that it needs neither much memory
// nor any care. A key whose hash is that of another one costs a look at the
// server. The zero value is ready to use.
type forces [1024]atomic.Int64

var hashSeed = maphash.MakeSeed()

func (f *forces) at(key string) *atomic.Int64 {
	return &f[maphash.String(hashSeed, key)%uint64(len(f))]
}

// note remembers that a key has just been freed by force.
func (f *forces) note(key string) {
	at, now := f.at(key), int64(clock.Now())
	for old := at.Load(); old < now && !at.CompareAndSwap(old, now); {
		old = at.Load()
	}
}

// since reports whether a key may have been freed by force at that moment, as of
// clock.Now, or later.
func (f *forces) since(key string, moment time.Duration) bool {
	return f.at(key).Load() >= int64(moment)
}
