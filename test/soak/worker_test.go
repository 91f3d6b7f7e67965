package soak_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A job tells a worker process what to do.
type job struct {
	Process  string // the worker and its life, as in "2.1"
	URL      string
	Dir      string // for its records
	Round    string // the prefix of all names
	Seed     uint64
	Replicas int // that must have each lock; 0 with one server
	Users    int // goroutines of each client
}

const jobEnv = "SOAK_JOB"

func (j job) env() string {
	text, err := json.Marshal(j)
	if err != nil {
		panic(err)
	}
	return jobEnv + "=" + string(text)
}

// lease is the usual lease time of renewed leases.
const lease = 3 * time.Second

// options are those of the clients of each process.
func (j job) options() []holdfast.Options {
	common := holdfast.Options{WatchdogTimeout: lease, PollInterval: poll, Anonymous: true, Logger: slog.New(slog.DiscardHandler)}
	if j.Replicas > 0 {
		common.Replication = holdfast.Replication{Mode: holdfast.Strict, Replicas: j.Replicas}
		common.ClockSkew = 20 * time.Millisecond // the servers share a clock
	}
	other := common
	other.MaxQueue, other.Anonymous, other.Label = 3, false, "soak"
	if j.Seed%3 == 0 {
		other.WakeAll = true
	}
	return []holdfast.Options{common, other}
}

// A worker is the state of a worker process.
type worker struct {
	job
	*recorder
	calls atomic.Int64
}

// work is the worker process. It ends when it receives a line.
func work() {
	w := &worker{}
	if err := json.Unmarshal([]byte(os.Getenv(jobEnv)), &w.job); err != nil {
		panic(err)
	}
	w.recorder = newRecorder(w.Dir, w.Process)
	ctx, cancel := context.WithCancel(context.Background())
	told := make(chan struct{})
	go func() {
		defer close(told)
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		cancel()
	}()
	before := runtime.NumGoroutine() - 1 // without that one
	var beats, users sync.WaitGroup
	stop := make(chan struct{})
	beats.Go(func() { heartbeat(w.recorder, stop) })
	for i, o := range w.options() {
		users.Go(func() { w.use(ctx, i, o) })
	}
	users.Wait()
	close(stop)
	beats.Wait()
	<-told
	if !redistest.Poll(10*time.Second, func() bool { return runtime.NumGoroutine() <= before }) {
		stacks := make([]byte, 1<<20)
		w.add(record{Event: evLeak, Text: "goroutines are left:\n" + string(stacks[:runtime.Stack(stacks, true)])})
	}
}

// use opens a client, lets its users work until ctx is done, and closes it.
func (w *worker) use(ctx context.Context, number int, o holdfast.Options) {
	c, err := holdfast.Open(ctx, w.URL, &o)
	for err != nil {
		if !rest(ctx.Done(), 50*time.Millisecond) { // a fault
			return
		}
		c, err = holdfast.Open(ctx, w.URL, &o)
	}
	var users sync.WaitGroup
	for i := range w.Users {
		u := &user{worker: w, number: number, client: c, rand: rand.New(rand.NewPCG(w.Seed, uint64(100*number+i)))}
		users.Go(func() {
			for ctx.Err() == nil {
				u.turn(ctx)
			}
		})
	}
	users.Wait()
	if err := c.Close(); err != nil && class(err) != "unavailable" {
		w.add(record{Event: evLeak, Text: fmt.Sprint("close: ", err)})
	}
}

// beat is how often a heartbeat looks at the clock, and late how late it may be without being
// a stall.
const (
	beat = 20 * time.Millisecond
	late = 10 * time.Millisecond
)

// heartbeat records when this process has no processor, until stop is closed.
func heartbeat(rec *recorder, stop <-chan struct{}) {
	for {
		due := redistest.Now() + int64(beat)
		if !rest(stop, beat) {
			return
		}
		if now := redistest.Now(); now-due > int64(late) {
			rec.add(record{At: due, Event: evStall, To: now})
		}
	}
}
