// Package section checks that the holders of a lock exclude each other, also across
// processes.
package section

import "sync/atomic"

// A Section is the critical section of one lock. It may be in memory that several
// processes share. The zero value is an empty section.
//
// A holder whose lease has expired may still be inside when the next one enters. So
// only the holder that was inside can tell whether this is a violation: it is one if
// its lease is still valid after its leave function has reported an intruder.
type Section struct {
	inside atomic.Int64 // number of readers, or writer; plus intruded
	last   atomic.Int64 // the visitor that entered last

	_ [6]int64 // to 64 bytes, a line of the cache
}

// Parts of Section.inside.
const (
	writer   = 1 << 32
	intruded = 1 << 33 // another visitor has entered beside them
)

// Enter is called when the visitor has acquired the lock. Visitors are numbered
// from 1, over all processes. Enter reports whether the last visitor was another
// one. If it returns no leave function, another visitor is still inside. Otherwise
// leave must be called before the lock is released. It reports whether another
// visitor has entered in between.
func (s *Section) Enter(visitor int64) (handoff bool, leave func() (intruder bool)) {
	last := s.last.Swap(visitor)
	handoff = last != 0 && last != visitor
	for {
		switch was := s.inside.Load(); {
		case was == 0 && s.inside.CompareAndSwap(0, writer):
			return handoff, s.leave
		case was != 0 && s.inside.CompareAndSwap(was, was|intruded):
			return handoff, nil
		}
	}
}

func (s *Section) leave() bool { return s.inside.Swap(0)&intruded != 0 }

// EnterShared is like Enter, for a reader. Readers do not exclude each other.
func (s *Section) EnterShared() (leave func() (intruder bool)) {
	for {
		switch was := s.inside.Load(); {
		case was&writer == 0 && s.inside.CompareAndSwap(was, was+1):
			return s.leaveShared
		case was&writer != 0 && s.inside.CompareAndSwap(was, was|intruded):
			return nil
		}
	}
}

func (s *Section) leaveShared() bool {
	for {
		was := s.inside.Load()
		now := was - 1
		if now == intruded { // the last reader
			now = 0
		}
		if s.inside.CompareAndSwap(was, now) {
			return was&intruded != 0
		}
	}
}
