package load

import (
	"context"
	"encoding/json"
	"slices"
	"time"
)

// A Job is the work of one process: some clients, whose goroutines all acquire and release
// locks in a loop.
type Job struct {
	Front      json.RawMessage // what the front needs in order to open the clients
	Process    int             // its number
	First      int             // the number of its first goroutine, over all processes
	Clients    int
	Goroutines int // of each client
	Hold       time.Duration
	Pause      time.Duration // after each release
	Once       bool          // before the window, each goroutine acquires a lock only once, and does not hold it
}

// Divide spreads clients over processes. The front is the same for all.
func Divide(front any, processes, clients, goroutines int) ([]Job, error) {
	text, err := json.Marshal(front)
	jobs := make([]Job, min(processes, clients))
	first := 0
	for i := range jobs {
		n := clients / processes
		if i < clients%processes {
			n++
		}
		jobs[i] = Job{Front: text, Process: i, First: first, Clients: n, Goroutines: goroutines}
		first += n * goroutines
	}
	return jobs, err
}

// All returns how many goroutines the job has.
func (j Job) All() int { return j.Clients * j.Goroutines }

// A Lock is what one goroutine acquires and releases.
type Lock interface {
	// Acquire waits for the lock of a round until ctx is done.
	Acquire(ctx context.Context, round int) (Grant, error)
	// Release releases it. If intruded, another goroutine has got it in the meantime.
	Release(ctx context.Context, intruded bool) error
}

// A Grant is what Acquire has got.
type Grant struct {
	Name   int  // its number
	Shared bool // others that share it may hold it, too
	Passed bool // a goroutine of the same process passed it on, without the server
}

// A Crew is the goroutines of a job.
type Crew struct {
	Locks []Lock // of each goroutine
	Close func()
	Notes func() []string // what may explain the result; nil: nothing
}

// Open opens the clients of a job. It may count their traffic.
type Open func(context.Context, Job, *Traffic) (Crew, error)

// A Report is what one process says at the end, or the sum of several. Each duration is the
// part of a wait that lies within the window.
type Report struct {
	Granted, Passed Histogram // by the server, or without it
	Cut             Histogram // those that the end of the window has cut off
	Intrusions      int64     // how often another goroutine got a lock that was held, also outside the window
	Notes           []string
}

func (r *Report) granted() *Histogram  { return &r.Granted }
func (r *Report) passedOn() *Histogram { return &r.Passed }
func (r *Report) cut() *Histogram      { return &r.Cut }

// Merge adds the report of another process.
func (r *Report) Merge(other Report) {
	r.Granted.Merge(other.Granted)
	r.Passed.Merge(other.Passed)
	r.Cut.Merge(other.Cut)
	r.Intrusions += other.Intrusions
	for _, n := range other.Notes {
		if !slices.Contains(r.Notes, n) {
			r.Notes = append(r.Notes, n)
		}
	}
}

// What a parent and its worker send each other: first a setup, then an order to start, and
// orders when the window begins and ends. The worker first sends a message when it is ready,
// and ends with its report.
type (
	setup struct {
		Size size
		Job  Job
	}
	order   struct{ Begin, End int64 }
	message struct {
		Counters [][8]int64 // if it does not share the memory
		Report   *Report
	}
)
