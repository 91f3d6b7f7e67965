package soak_test

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A script writes the records of a round that did not happen. Times are since its start.
type script struct {
	records []record
	calls   int
}

// begin is the start of all scripts.
const begin = int64(time.Hour)

func (s *script) add(at time.Duration, r record) {
	r.At = begin + int64(at)
	s.records = append(s.records, r)
}

// calls adds a call, and returns its number.
func (s *script) call(at time.Duration, process string, w want) int {
	s.calls++
	if w.Lease == 0 {
		w.Lease = lease
	}
	s.add(at, record{Process: process, Event: evCall, Call: s.calls, Want: &w})
	return s.calls
}

// hold adds a call that gets its locks, holds them while they are valid, and releases them.
func (s *script) hold(process string, w want, began, got, released time.Duration, tokens ...int64) {
	n := s.call(began, process, w)
	s.add(got, record{Process: process, Event: evGot, Call: n, Tokens: tokens})
	s.valid(process, n, released, released)
	s.add(released, record{Process: process, Event: evReleased, Call: n})
}

// valid adds when a lease was valid, and its context not done.
func (s *script) valid(process string, n int, valid, alive time.Duration) {
	s.add(valid, record{Process: process, Event: evValid, Call: n, To: begin + int64(alive)})
}

// mutex is what a call wants of a mutex.
func mutex(names ...string) want { return want{Kind: "mutex", Names: names} }

func shared(w want) want {
	w.Shared = true
	return w
}

const ms, sec = time.Millisecond, time.Second

// verdicts are rounds that did not happen, and the promises that each breaks.
var verdicts = []struct {
	name   string
	breaks string
	write  func(*script)
}{
	{"one after the other", "", func(s *script) {
		s.hold("0.1", mutex("a"), 0, 1*ms, 9*ms, 1)
		s.hold("1.1", mutex("a"), 2*ms, 10*ms, 12*ms, 2)
	}},
	{"two hold it", "P1", func(s *script) {
		s.hold("0.1", mutex("a"), 0, 1*ms, 20*ms, 1)
		s.hold("1.1", mutex("a"), 2*ms, 10*ms, 12*ms, 2)
	}},
	{"two hold one name of a set", "P1", func(s *script) {
		s.hold("0.1", mutex("a", "b"), 0, 1*ms, 20*ms, 1, 1)
		s.hold("1.1", mutex("b", "c"), 2*ms, 10*ms, 12*ms, 2, 1)
	}},
	{"readers", "", func(s *script) {
		s.hold("0.1", shared(mutex("a")), 0, 1*ms, 20*ms)
		s.hold("1.1", shared(mutex("a")), 2*ms, 10*ms, 12*ms)
	}},
	{"a reader that began earlier, and a writer", "P1", func(s *script) {
		s.hold("0.1", shared(mutex("a")), 0, 1*ms, 20*ms)
		s.hold("1.1", shared(mutex("a")), 2*ms, 3*ms, 4*ms)
		s.hold("1.1", mutex("a"), 2*ms, 10*ms, 12*ms, 1)
	}},
	{"a writer, and a reader", "P1", func(s *script) {
		s.hold("1.1", mutex("a"), 0, 1*ms, 12*ms, 1)
		s.hold("0.1", shared(mutex("a")), 0, 10*ms, 20*ms)
	}},
	{"a killed process holds until its last record", "P1", func(s *script) {
		n := s.call(0, "0.1", mutex("a"))
		s.add(1*ms, record{Process: "0.1", Event: evGot, Call: n, Tokens: []int64{1}})
		s.valid("0.1", n, 50*ms, 50*ms)
		s.add(60*ms, record{Process: "0.1", Event: evKill})
		s.hold("1.1", mutex("a"), 2*ms, 40*ms, 41*ms, 2)
	}},
	{"AtLeast ends early", "P1", func(s *script) {
		w := mutex("a")
		w.Keep = 100 * ms
		s.hold("0.1", w, 0, 1*ms, 2*ms, 1)
		s.hold("1.1", mutex("a"), 2*ms, 90*ms, 91*ms, 2)
	}},
	{"permits", "", func(s *script) {
		w := want{Kind: "permits", Names: []string{"s"}, Permits: 2, Capacity: 4}
		s.hold("0.1", w, 0, 1*ms, 20*ms)
		s.hold("1.1", w, 0, 2*ms, 10*ms)
		s.hold("2.1", w, 0, 11*ms, 12*ms)
	}},
	{"more permits than there are", "P1", func(s *script) {
		w := want{Kind: "permits", Names: []string{"s"}, Permits: 2, Capacity: 5}
		s.hold("0.1", w, 0, 1*ms, 20*ms)
		s.hold("1.1", w, 0, 2*ms, 20*ms)
		s.hold("2.1", w, 0, 11*ms, 12*ms)
	}},
	{"a context outlives its lease", "P2", func(s *script) {
		n := s.call(0, "0.1", mutex("a"))
		s.add(1*ms, record{Process: "0.1", Event: evGot, Call: n, Tokens: []int64{1}})
		s.valid("0.1", n, 50*ms, 90*ms)
		s.add(95*ms, record{Process: "0.1", Event: evReleased, Call: n, Text: "lost"})
		s.hold("1.1", mutex("a"), 2*ms, 60*ms, 61*ms, 2)
	}},
	{"the same in a process without a processor", "", func(s *script) {
		n := s.call(0, "0.1", mutex("a"))
		s.add(1*ms, record{Process: "0.1", Event: evGot, Call: n, Tokens: []int64{1}})
		s.valid("0.1", n, 50*ms, 90*ms)
		s.add(95*ms, record{Process: "0.1", Event: evReleased, Call: n, Text: "lost"})
		s.add(50*ms, record{Process: "0.1", Event: evStall, To: begin + int64(90*ms)})
		s.hold("1.1", mutex("a"), 2*ms, 60*ms, 61*ms, 2)
	}},
	{"a lease is lost without a fault", "P2", func(s *script) {
		n := s.call(0, "0.1", mutex("a"))
		s.add(1*ms, record{Process: "0.1", Event: evGot, Call: n, Tokens: []int64{1}})
		s.add(5*sec, record{Process: "0.1", Event: evTold, Call: n, Text: expired, To: begin + int64(5*sec)})
		s.add(5*sec, record{Process: "0.1", Event: evReleased, Call: n, Text: "lost"})
	}},
	{"a token falls", "P3", func(s *script) {
		s.hold("0.1", mutex("a"), 0, 1*ms, 2*ms, 7)
		s.hold("1.1", mutex("a"), 0, 3*ms, 4*ms, 6)
	}},
	{"a token is repeated", "P3", func(s *script) {
		s.hold("0.1", mutex("b", "a"), 0, 1*ms, 2*ms, 1, 7)
		s.hold("1.1", mutex("a", "b"), 0, 3*ms, 4*ms, 7, 2)
	}},
	{"a waiter is not woken", "P5", func(s *script) {
		s.add(-sec, record{Event: evFault, Process: "2", To: begin, Text: "link cut"})
		s.hold("0.1", mutex("a"), 0, 1*ms, 2*ms, 1)
		s.hold("1.1", mutex("a"), 1*ms, 8*sec, 8*sec+ms, 2)
	}},
	{"a waiter that gives up is not woken", "P5", func(s *script) {
		s.hold("0.1", mutex("a"), 0, 1*ms, 2*ms, 1)
		n := s.call(1*ms, "1.1", mutex("a"))
		s.add(8*sec, record{Process: "1.1", Event: evFailed, Call: n, Text: "not acquired"})
	}},
	{"a waiter is woken by the next poll, though no message is lost", "P5", func(s *script) {
		s.hold("0.1", mutex("a"), 0, 1*ms, 2*ms, 1)
		s.hold("1.1", mutex("a"), 1*ms, 3*sec, 3*sec+ms, 2)
	}},
	{"the same, and another process had no processor", "", func(s *script) {
		s.hold("0.1", mutex("a"), 0, 1*ms, 2*ms, 1)
		s.hold("1.1", mutex("a"), 1*ms, 3*sec, 3*sec+ms, 2)
		s.add(5*ms, record{Process: "2.1", Event: evStall, To: begin + int64(sec)})
		s.add(500*ms, record{Process: "3.1", Event: evStall, To: begin + int64(1100*ms)})
	}},
	{"a waiter is woken by the next poll after a fault", "", func(s *script) {
		s.add(-sec, record{Event: evFault, Process: "2", To: begin, Text: "link cut"})
		s.hold("0.1", mutex("a"), 0, 1*ms, 2*ms, 1)
		s.hold("1.1", mutex("a"), 1*ms, 3*sec, 3*sec+ms, 2)
	}},
	{"others hold it in turn", "", func(s *script) {
		for i := range 10 {
			s.hold("0.1", mutex("a"), time.Duration(i)*2*sec, time.Duration(i)*2*sec+ms, time.Duration(i)*2*sec+sec, int64(i+1))
		}
		s.hold("1.1", mutex("a"), 1*ms, 20*sec, 20*sec+ms, 20)
	}},
	{"the server is stopped meanwhile", "", func(s *script) {
		s.hold("0.1", mutex("a"), 0, 1*ms, 2*ms, 1)
		s.hold("1.1", mutex("a"), 1*ms, 8*sec, 8*sec+ms, 2)
		s.add(1*sec, record{Event: evFault, To: begin + int64(4*sec), Text: "server stopped"})
	}},
	{"the link of another worker is frozen meanwhile", "P5", func(s *script) {
		s.hold("0.1", mutex("a"), 0, 1*ms, 2*ms, 1)
		s.hold("1.1", mutex("a"), 1*ms, 8*sec, 8*sec+ms, 2)
		s.add(1*sec, record{Event: evFault, Process: "0", To: begin + int64(4*sec), Text: "link frozen"})
	}},
	{"the holder is killed", "", func(s *script) {
		n := s.call(0, "0.1", mutex("a"))
		s.add(1*ms, record{Process: "0.1", Event: evGot, Call: n, Tokens: []int64{1}})
		s.add(2*ms, record{Process: "0.1", Event: evKill})
		s.hold("1.1", mutex("a"), 1*ms, 8*sec, 8*sec+ms, 2)
	}},
	{"the holder is killed, and its lease does not end", "P5", func(s *script) {
		n := s.call(0, "0.1", mutex("a"))
		s.add(1*ms, record{Process: "0.1", Event: evGot, Call: n, Tokens: []int64{1}})
		s.add(2*ms, record{Process: "0.1", Event: evKill})
		s.hold("1.1", mutex("a"), 1*ms, 20*sec, 20*sec+ms, 2)
	}},
	{"the holder is stopped, and its lease does not end", "P5", func(s *script) {
		s.hold("0.1", mutex("a"), 0, 1*ms, 21*sec, 1)
		s.add(2*ms, record{Process: "0.1", Event: evStop, To: begin + int64(20*sec)})
		n := s.call(1*ms, "1.1", mutex("a"))
		s.add(20*sec, record{Process: "1.1", Event: evFailed, Call: n, Text: "not acquired"})
	}},
	{"a waiter ahead is killed", "", func(s *script) {
		s.hold("0.1", mutex("a"), 0, 1*ms, 2*ms, 1)
		s.call(1*ms, "2.1", mutex("a"))
		s.add(2*ms, record{Process: "2.1", Event: evKill})
		s.hold("1.1", mutex("a"), 1*ms, 8*sec, 8*sec+ms, 2)
	}},
	{"permits are free and wanted", "P5", func(s *script) {
		w := want{Kind: "permits", Names: []string{"s"}, Permits: 2, Capacity: 4}
		s.hold("0.1", w, 0, 1*ms, 20*sec)
		s.hold("1.1", w, 0, 12*sec, 13*sec)
	}},
	{"too few permits are free", "", func(s *script) {
		w := want{Kind: "permits", Names: []string{"s"}, Permits: 2, Capacity: 3}
		s.hold("0.1", w, 0, 1*ms, 20*sec)
		s.hold("1.1", w, 0, 20*sec, 21*sec)
	}},
	{"a call waits for longer than it may", "P8", func(s *script) {
		s.hold("0.1", mutex("a"), 0, 1*ms, 12*sec, 1)
		w := mutex("a")
		w.Limit = sec
		n := s.call(2*ms, "1.1", w)
		s.add(9*sec, record{Process: "1.1", Event: evFailed, Call: n, Text: "not acquired"})
	}},
	{"an error that no fault explains", "P8", func(s *script) {
		n := s.call(0, "1.1", mutex("a"))
		s.add(1*ms, record{Process: "1.1", Event: evFailed, Call: n, Text: unexpected + "WRONGTYPE"})
	}},
	{"a lease is granted twice", "records", func(s *script) {
		n := s.call(0, "1.1", mutex("a"))
		s.add(1*ms, record{Process: "1.1", Event: evGot, Call: n, Tokens: []int64{1}})
		s.add(2*ms, record{Process: "1.1", Event: evGot, Call: n, Tokens: []int64{2}})
	}},
	{"goroutines are left", "P7", func(s *script) {
		s.add(0, record{Process: "1.1", Event: evLeak, Text: "goroutines are left"})
	}},
}

// The judge finds what is planted, and nothing else.
func TestJudge(t *testing.T) {
	t.Parallel()
	for _, v := range verdicts {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			var s script
			v.write(&s)
			found, _ := judge(newHistory(s.records))
			var broken []string
			for _, f := range found {
				broken = append(broken, f.Promise)
				if timeline(s.records, f.Name, f.At) == "" {
					t.Errorf("%v has no timeline", f)
				}
			}
			if got := strings.Join(slices.Compact(broken), " "); got != v.breaks {
				t.Errorf("broken: %q, want %q: %v", got, v.breaks, found)
			}
		})
	}
}
