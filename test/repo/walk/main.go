// Command walk runs one event of docs/architecture.md as a client with the default options. It
// prints the functions and scripts that the event has used. A test compiles it so that
// functions are recorded: see package trace.
//
//	walk EVENT URL NAME
//
// The test is the other client. When the test has to take the lock away, walk prints
// "held".
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/test/repo/walk/trace"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: walk EVENT URL NAME")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "walk:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, event, url, name string) error {
	config, err := rueidis.ParseURL(url)
	if err != nil {
		return err
	}
	d, err := rueidis.Open(ctx, config)
	if err != nil {
		return err
	}
	renewal := make(chan struct{}, 1)
	logged := &lines{seen: make(chan struct{}, 1)}
	c, err := holdfast.New(scripts{d, renewal}, &holdfast.Options{
		Anonymous: true, // otherwise it says once who it is, which is no part of an event
		Logger:    slog.New(slog.NewTextHandler(logged, nil)),
	})
	if err != nil {
		return err
	}
	defer c.Close()
	// The first request of a client takes another way.
	if err := c.Mutex(name+":before").Do(ctx, func(context.Context) error { return nil }); err != nil {
		return err
	}
	m := c.Mutex(name)
	if event == "lock" || event == "wait" {
		trace.Start()
		_, err := m.Lock(ctx)
		return errors.Join(err, report())
	}
	l, err := m.Lock(ctx, holdfast.WatchdogTimeout(3*time.Second)) // the first renewal is due after a third of it
	if err != nil {
		return err
	}
	lost := l.Context().Done()
	trace.Start()
	switch event {
	case "release":
		err = l.Release(ctx)
	case "renewal":
		for range 2 { // when the second one is sent, the first one is complete
			select {
			case <-renewal:
			case <-lost:
				err = context.Cause(l.Context())
			}
		}
	case "loss":
		fmt.Println("held")
		<-lost
		<-logged.seen // after all that a loss does
	default:
		err = fmt.Errorf("no event %q", event)
	}
	return errors.Join(err, report())
}

// report ends the recording and prints it.
func report() error { return json.NewEncoder(os.Stdout).Encode(trace.Stop()) }

// lines tells seen that a line was logged.
type lines struct{ seen chan struct{} }

func (l *lines) Write(line []byte) (int, error) {
	select {
	case l.seen <- struct{}{}:
	default:
	}
	return len(line), nil
}

// scripts is a driver that records which scripts are sent. It tells renewal of each renewal
// before it is sent.
type scripts struct {
	driver.Driver
	renewal chan<- struct{}
}

func (s scripts) Do(ctx context.Context, call driver.Call) (driver.Reply, error) {
	trace.Send(call.Script.Name + ".lua")
	return s.Driver.Do(ctx, call)
}

func (s scripts) DoMany(ctx context.Context, calls []driver.Call) []driver.Result {
	for _, call := range calls {
		trace.Send(call.Script.Name + ".lua")
	}
	if calls[0].Script.Name == "renew" {
		select {
		case s.renewal <- struct{}{}:
		default:
		}
	}
	return s.Driver.DoMany(ctx, calls)
}

func (s scripts) DoAcked(ctx context.Context, calls []driver.Call, replicas int, timeout time.Duration) []driver.Result {
	for _, call := range calls {
		trace.Send(call.Script.Name + ".lua")
	}
	return s.Driver.DoAcked(ctx, calls, replicas, timeout)
}
