// Package section checks that the holders of a lock exclude each other, also across
// processes.
package section

import "sync/atomic"

// A Section is the critical section of one lock. It may be in memory that several
// processes share. The zero value is an empty section.
type Section struct {
	inside atomic.Int64 // number of readers, or -1 if a writer is inside
	last   atomic.Int64 // the visitor that entered last

	_ [6]int64 // to 64 bytes, a line of the cache
}

// Enter is called when the visitor has acquired the lock. Visitors are numbered
// from 1, over all processes. Enter reports whether the last visitor was another
// one, and whether this visitor is alone. If it is not alone, the lock has failed,
// and the visitor must not call Leave.
func (s *Section) Enter(visitor int64) (handoff, alone bool) {
	alone = s.inside.CompareAndSwap(0, -1)
	last := s.last.Swap(visitor)
	return last != 0 && last != visitor, alone
}

// Leave is called before the lock is released.
func (s *Section) Leave() { s.inside.CompareAndSwap(-1, 0) }

// EnterShared is like Enter, for a reader. It reports whether no writer is inside.
func (s *Section) EnterShared() (alone bool) {
	for {
		n := s.inside.Load()
		if n < 0 {
			return false
		}
		if s.inside.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// LeaveShared is like Leave, for a reader.
func (s *Section) LeaveShared() { s.inside.Add(-1) }
