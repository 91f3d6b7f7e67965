package main

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// memory is shared by all processes of a measurement. It holds the check of exclusion
// and the counters.
type memory struct {
	start atomic.Int64 // of the measurement
	names [1024]section
	slots [1024]slot

	// The waits of the job that records them, in ns, since the start of the measurement.
	// What does not fit is not recorded.
	recorded atomic.Int64
	waits    [1 << 13]atomic.Int64
}

// A section is the critical section of one name.
type section struct {
	inside  atomic.Int64 // the visitor that is inside, or 0
	readers atomic.Int64 // how many readers are inside
	last    atomic.Int64 // the last visitor

	handoffs   atomic.Int64 // entries of another visitor than the last one
	crossings  atomic.Int64 // entries from another process than the last one
	violations atomic.Int64 // entries while another visitor was inside, unless both were readers

	_ [2]int64 // to 64 bytes
}

// A slot has the counters of one goroutine.
type slot struct {
	pairs   atomic.Int64
	asked   atomic.Int64 // when it asked for the lock that it waits for, or 0
	longest atomic.Int64 // wait, in ns

	_ [5]int64 // to 64 bytes
}

// visitor returns the id of a goroutine in all processes.
func visitor(process, slot int) int64 { return int64(process)<<32 | int64(slot+1) }

// enter is called as soon as the visitor holds the lock. It reports whether the visitor
// is alone.
func (s *section) enter(visitor int64) bool {
	alone := s.inside.CompareAndSwap(0, visitor)
	if !alone || s.readers.Load() != 0 {
		s.violations.Add(1)
	}
	if last := s.last.Swap(visitor); last != visitor {
		s.handoffs.Add(1)
		if last>>32 != visitor>>32 {
			s.crossings.Add(1)
		}
	}
	return alone
}

// leave is called by a visitor that was alone, before it releases the lock.
func (s *section) leave(visitor int64) {
	if !s.inside.CompareAndSwap(visitor, 0) {
		s.violations.Add(1)
	}
}

// read is called as soon as a reader holds the lock. It counts the reader before it looks
// for a writer, and enter does the opposite. So at least one of both notices the other.
func (s *section) read() {
	s.readers.Add(1)
	if s.inside.Load() != 0 {
		s.violations.Add(1)
	}
}

// unread is called by a reader before it releases the lock.
func (s *section) unread() { s.readers.Add(-1) }

// record adds a wait to those of the job.
func (m *memory) record(from, to int64) {
	if i := m.recorded.Add(1) - 1; i < int64(len(m.waits)) {
		m.waits[i].Store(to - max(from, m.start.Load()))
	}
}

// allWaits returns the recorded waits, and the wait of the slot that lasts at time t.
func (m *memory) allWaits(s *slot, t int64) (list []time.Duration) {
	for i := range min(m.recorded.Load(), int64(len(m.waits))) {
		list = append(list, time.Duration(m.waits[i].Load()))
	}
	if asked := s.asked.Load(); asked != 0 {
		list = append(list, time.Duration(t-max(asked, m.start.Load())))
	}
	return list
}

// waited records a wait. What was before the start of the measurement does not count.
func (s *slot) waited(from, to, start int64) {
	if d := to - max(from, start); d > s.longest.Load() {
		s.longest.Store(d)
	}
}

// newMemory creates the file of a memory and returns its path, too.
func newMemory(dir string) (*memory, string, error) {
	path := filepath.Join(dir, "memory")
	f, err := os.Create(path)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = f.Close() }()
	if err := f.Truncate(memorySize); err != nil {
		return nil, "", err
	}
	m, err := attach(path)
	return m, path, err
}

// processStart and its counterpart on the clock of the machine.
var (
	processStart = time.Now()
	machineStart = redistest.Now()
)

// now returns the time in ns, by a clock that all processes share.
func now() int64 { return machineStart + int64(time.Since(processStart)) }
