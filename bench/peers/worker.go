package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/holdfast-go/holdfast/internal/load"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/redis/rueidis"
)

const lockName = "peers"

// workers are what a process of this program can be, by name.
var workers = map[string]func(){"compete": compete, "wake": wake}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// An entry says what the clients of a competition use.
type entry struct {
	Library, Addr string
	OwnNames      bool // each goroutine has a name of its own
}

// competitor returns the command of a process that competes.
func competitor(ctx context.Context) (*exec.Cmd, error) {
	return redistest.WorkerCommand(ctx, "compete")
}

func compete() {
	if err := load.Serve(context.Background(), os.Stdin, os.Stdout, enter); err != nil {
		fail(err)
	}
}

// enter opens the clients of a job.
func enter(ctx context.Context, j load.Job, _ *load.Traffic) (load.Crew, error) {
	var e entry
	if err := json.Unmarshal(j.Front, &e); err != nil {
		return load.Crew{}, err
	}
	l := find(e.Library)
	clients, err := openAll(ctx, l, e.Addr, j.Clients)
	crew := load.Crew{Close: func() {
		_ = load.Each(len(clients), len(clients), func(i int) error { clients[i].close(); return nil })
	}}
	for i := range j.All() {
		name, number := lockName, 0
		if e.OwnNames {
			number = j.First + i
			name = fmt.Sprint(lockName, ":", number)
		}
		if err == nil {
			crew.Locks = append(crew.Locks, visitor{clients[i/j.Goroutines].lock(name), load.Grant{Name: number, Shared: l.reads}})
		}
	}
	return crew, err
}

// A visitor is one goroutine.
type visitor struct {
	lock
	grant load.Grant
}

func (v visitor) Acquire(ctx context.Context, _ int) (load.Grant, error) {
	return v.grant, v.acquire(ctx)
}
func (v visitor) Release(ctx context.Context, _ bool) error { return v.release(ctx) }

// openAll opens n clients, eight at a time.
func openAll(ctx context.Context, l library, addr string, n int) ([]client, error) {
	clients := make([]client, n)
	err := load.Each(n, 8, func(i int) (err error) {
		clients[i], err = l.open(ctx, addr)
		return err
	})
	return clients, err
}

const libraryVariable, addrVariable = "PEERS_LIBRARY", "PEERS_ADDR"

// wake is the second process of the measurement of wake-ups. It reads "lock" or "floor",
// waits for the lock or for a message, and prints when it had it.
func wake() {
	ctx := context.Background()
	addr := os.Getenv(addrVariable)
	c, err := find(os.Getenv(libraryVariable)).open(ctx, addr)
	if err != nil {
		fail(err)
	}
	l := c.lock(lockName)
	f, err := openConn(addr)
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
				at = redistest.Now()
				err = l.release(ctx)
			}
		case "floor":
			<-received
			err = floor.run(ctx, hashLock)
			at = redistest.Now()
		}
		if err != nil {
			fail(err)
		}
		fmt.Println(at)
	}
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

const floorChannel = "peers:floor"
