package load

import (
	"os"
	"sync/atomic"
	"time"
)

// A line is a line of the cache.
type line [8]atomic.Int64

// A memory has what the processes of a load share, if the system permits: the window of
// the measurement, the sections, and the counters.
type memory struct {
	lines []line // the first one is the window
	size
}

// A size says how many lines of each sort a memory has.
type size struct{ Names, Goroutines, Processes int }

func (s size) lines() int { return 1 + s.Names + s.Goroutines + s.Processes }

// The words of the window: the times of its begin and its end, 0 before.
const (
	begin = iota
	end
)

// A slot has the counters of one goroutine. Only that goroutine changes them.
type slot line

// The words of a slot. From turns on, they are about the window.
const (
	asked          = iota // when it asked for the lock that it waits for, or 0
	rounds                // how often it has had a lock
	turns                 // the same, in the window
	passed                // turns that other goroutines of its process passed on without the server
	handoffs              // turns after another goroutine
	passedHandoffs        // hand-offs that were passed on
	crossings             // hand-offs from another process
	longest               // wait, in ns
)

// Traffic counts what the clients of a process have sent to the server and received. The
// front of a load counts, if it wants to.
type Traffic line

// The words of a Traffic.
const (
	Scripts       = iota // EVALSHA, and WAIT for replicas
	Subscriptions        // SUBSCRIBE and UNSUBSCRIBE, per channel
	Messages             // received
)

func newMemory(s size) *memory { return &memory{make([]line, s.lines()), s} }

// memoryFile is the file that a worker process inherits.
const memoryFile = 3

// createMemory returns a memory that processes share, and its file. The file has no name, so it
// is gone when the last process has closed it.
func createMemory(s size) (*memory, *os.File, error) {
	f, err := os.CreateTemp("", "holdfast-load-*")
	if err != nil {
		return nil, nil, err
	}
	_ = os.Remove(f.Name())
	m, err := mapMemory(f, s)
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return m, f, nil
}

func (m *memory) section(name int) *section { return (*section)(&m.lines[1+name]) }
func (m *memory) slot(goroutine int) *slot  { return (*slot)(&m.lines[1+m.Names+goroutine]) }
func (m *memory) traffic(process int) *Traffic {
	return (*Traffic)(&m.lines[1+m.Names+m.Goroutines+process])
}

// window returns the begin and the end of the measurement, which are 0 before.
func (m *memory) window() (from, to int64) { return m.lines[0][begin].Load(), m.lines[0][end].Load() }

func (m *memory) setWindow(o order) {
	m.lines[0][begin].Store(o.Begin)
	m.lines[0][end].Store(o.End)
}

// linesOf returns the counters of a job.
func (m *memory) linesOf(j Job) []*line {
	list := []*line{(*line)(m.traffic(j.Process))}
	for i := range j.All() {
		list = append(list, (*line)(m.slot(j.First+i)))
	}
	return list
}

// counters returns the values of the counters of a job.
func (m *memory) counters(j Job) (values [][8]int64) {
	for _, l := range m.linesOf(j) {
		var v [8]int64
		for k := range l {
			v[k] = l[k].Load()
		}
		values = append(values, v)
	}
	return values
}

// mirror sets the counters of a job to what its process has sent, if anything.
func (m *memory) mirror(j Job, values [][8]int64) {
	for i, l := range m.linesOf(j)[:len(values)] {
		for k := range l {
			l[k].Store(values[i][k])
		}
	}
}

var (
	processStart = time.Now()
	startedAt    = processStart.UnixNano()
)

// now returns the time in ns. It does not go back, and the clocks of all processes agree as
// well as that of the system.
func now() int64 { return startedAt + int64(time.Since(processStart)) }
