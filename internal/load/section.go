package load

// A section is the critical section of one lock. It may be in memory that several
// processes share. The zero value is an empty section.
//
// A holder whose lease has expired may still be inside when the next one enters. So
// only the holder that was inside can tell whether this is a violation: it is one if
// its lease is still valid after its leave function has reported an intruder.
type section line

// The words of a section.
const (
	inside = iota // number of readers, or writer; plus intruded
	last          // the visitor that entered last
)

// Parts of the word inside.
const (
	writer   = 1 << 32
	intruded = 1 << 33 // another visitor has entered beside them
)

// enter is called when the visitor has acquired the lock. Visitors are numbered from 1,
// over all processes. enter returns the previous visitor, or 0. If it returns no leave
// function, another visitor is still inside. Otherwise leave must be called before the
// lock is released. It reports whether another visitor has entered in between.
func (s *section) enter(visitor int64) (before int64, leave func() (intruder bool)) {
	before = s[last].Swap(visitor)
	for {
		switch was := s[inside].Load(); {
		case was == 0 && s[inside].CompareAndSwap(0, writer):
			return before, s.leave
		case was != 0 && s[inside].CompareAndSwap(was, was|intruded):
			return before, nil
		}
	}
}

func (s *section) leave() bool { return s[inside].Swap(0)&intruded != 0 }

// enterShared is like enter, for a reader. Readers do not exclude each other.
func (s *section) enterShared() (leave func() (intruder bool)) {
	for {
		switch was := s[inside].Load(); {
		case was&writer == 0 && s[inside].CompareAndSwap(was, was+1):
			return s.leaveShared
		case was&writer != 0 && s[inside].CompareAndSwap(was, was|intruded):
			return nil
		}
	}
}

func (s *section) leaveShared() bool {
	for {
		was := s[inside].Load()
		now := was - 1
		if now == intruded { // the last reader
			now = 0
		}
		if s[inside].CompareAndSwap(was, now) {
			return was&intruded != 0
		}
	}
}
