package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/redis/rueidis"
)

const (
	lockName    = "peers"
	jobVariable = "PEERS_JOB"
)

// A job is what a worker process does.
type job struct {
	Library, Addr, Memory string

	Process    int // its number
	First      int // its first slot
	Clients    int
	Goroutines int // per client
	OwnNames   bool
	Hold       time.Duration
	Pause      time.Duration // after each release
	Record     bool          // it records all waits
}

// startWorker starts a process. Its first line says that it is ready.
func startWorker(s *scope, name string, j job) (*redistest.Process, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	return redistest.Worker(s, name, jobVariable+"="+string(text)), nil
}

// line returns the next line of a worker.
func line(ctx context.Context, p *redistest.Process) (string, error) {
	select {
	case text, ok := <-p.Lines():
		if !ok {
			return "", errors.New("a worker process has ended")
		}
		return text, nil
	case <-ctx.Done():
		return "", ctx.Err()
	case <-time.After(time.Minute):
		return "", errors.New("a worker process does not answer")
	}
}

// workers are what a process of this program can be, by name.
var workers = map[string]func(){"compete": compete, "wake": wake}

// parentJob returns the job of this process.
func parentJob() (j job) {
	if err := json.Unmarshal([]byte(os.Getenv(jobVariable)), &j); err != nil {
		fail(err)
	}
	return j
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// compete opens the clients of a job, starts when it reads a line and stops when it
// reads another line. At the end it prints the first error, or an empty line.
func compete() {
	j := parentJob()
	m, err := attach(j.Memory)
	if err != nil {
		fail(err)
	}
	library := find(j.Library)
	clients, err := openAll(library, j.Addr, j.Clients)
	if err != nil {
		fail(err)
	}
	in := bufio.NewScanner(os.Stdin)
	fmt.Println("ready")
	in.Scan()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	errs := make(chan error, 1)
	for i := range j.Clients * j.Goroutines {
		number, name := j.First+i, 0
		text := lockName
		if j.OwnNames {
			name = number
			text = fmt.Sprint(lockName, ":", number)
		}
		l := clients[i/j.Goroutines].lock(text)
		wg.Go(func() {
			v := visit{&m.names[name], &m.slots[number], visitor(j.Process, number), library.reads}
			if err := m.loop(ctx, l, v, j); err != nil {
				select {
				case errs <- err:
				default:
				}
			}
		})
	}
	in.Scan()
	cancel()
	wg.Wait()
	for _, c := range clients {
		wg.Go(c.close)
	}
	wg.Wait()
	select {
	case err := <-errs:
		fmt.Printf("%q\n", err.Error())
	default:
		fmt.Println()
	}
}

// openAll opens n clients, eight at a time.
func openAll(l library, addr string, n int) ([]client, error) {
	clients, errs := make([]client, n), make([]error, n)
	var wg sync.WaitGroup
	free := make(chan struct{}, 8)
	for i := range n {
		free <- struct{}{}
		wg.Go(func() {
			clients[i], errs[i] = l.open(context.Background(), addr)
			<-free
		})
	}
	wg.Wait()
	return clients, errors.Join(errs...)
}

// A visit is how one goroutine enters a section.
type visit struct {
	section *section
	slot    *slot
	id      int64
	reads   bool
}

// enter is called as soon as the goroutine holds the lock. It returns what to call before
// the release.
func (v visit) enter() (leave func()) {
	if v.reads {
		v.section.read()
		return v.section.unread
	}
	if v.section.enter(v.id) {
		return func() { v.section.leave(v.id) }
	}
	return func() {}
}

// loop locks and releases until ctx is done. It returns the first error.
func (m *memory) loop(ctx context.Context, l lock, v visit, j job) (first error) {
	slot := v.slot
	for ctx.Err() == nil {
		asked := now()
		slot.asked.Store(asked)
		err := l.acquire(ctx)
		if err != nil {
			slot.asked.Store(0)
			if ctx.Err() == nil {
				return err
			}
			break
		}
		leave := v.enter()
		entered := now()
		slot.waited(asked, entered, m.start.Load())
		if j.Record {
			m.record(asked, entered)
		}
		slot.asked.Store(0)
		slot.pairs.Add(1)
		if j.Hold > 0 {
			time.Sleep(j.Hold)
		}
		leave()
		if err := l.release(context.WithoutCancel(ctx)); err != nil && first == nil {
			first = err
		}
		if j.Pause > 0 {
			_ = pause(ctx, j.Pause)
		}
	}
	return first
}

// wake is the second process of the measurement of wake-ups. It reads "lock" or "floor",
// waits for the lock or for a message, and prints when it had it.
func wake() {
	ctx := context.Background()
	j := parentJob()
	c, err := find(j.Library).open(ctx, j.Addr)
	if err != nil {
		fail(err)
	}
	l := c.lock(lockName)
	f, err := openConn(j.Addr)
	if err != nil {
		fail(err)
	}
	received := make(chan struct{}, 1)
	conn, done := f.Dedicate()
	defer done()
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) { received <- struct{}{} }})
	if err := conn.Do(ctx, conn.B().Subscribe().Channel(floorChannel).Build()).Error(); err != nil {
		fail(err)
	}
	floor := bareLock{bareClient{Client: f}, []string{"floor"}, []string{"1"}}
	in := bufio.NewScanner(os.Stdin)
	fmt.Println("ready")
	for in.Scan() {
		var at int64
		switch in.Text() {
		case "lock":
			if err = l.acquire(ctx); err == nil {
				at = now()
				err = l.release(ctx)
			}
		case "floor":
			<-received
			err = floor.run(ctx, hashLock)
			at = now()
		}
		if err != nil {
			fail(err)
		}
		fmt.Println(at)
	}
}

const floorChannel = "peers:floor"
