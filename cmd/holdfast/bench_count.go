package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// benchCalls counts what a client has sent to the server and received from it.
type benchCalls struct {
	Scripts       int64 // EVALSHA, and WAIT for replicas
	Subscriptions int64 // SUBSCRIBE and UNSUBSCRIBE, per channel
	Messages      int64 // received
}

// benchDriver counts the calls of a driver. Counting in the client needs no
// permissions and excludes the commands of other clients.
type benchDriver struct {
	driver.Driver
	scripts, subscriptions, messages atomic.Int64
}

func (d *benchDriver) calls() benchCalls {
	return benchCalls{d.scripts.Load(), d.subscriptions.Load(), d.messages.Load()}
}

func (d *benchDriver) Do(ctx context.Context, call driver.Call) (driver.Reply, error) {
	d.scripts.Add(1)
	return d.Driver.Do(ctx, call)
}

func (d *benchDriver) DoMany(ctx context.Context, calls []driver.Call) []driver.Result {
	d.scripts.Add(int64(len(calls)))
	return d.Driver.DoMany(ctx, calls)
}

func (d *benchDriver) DoAcked(ctx context.Context, calls []driver.Call, replicas int, timeout time.Duration) []driver.Result {
	d.scripts.Add(int64(len(calls)) + 1)
	return d.Driver.DoAcked(ctx, calls, replicas, timeout)
}

func (d *benchDriver) Listen(h driver.Handler) driver.Listener {
	return &benchListener{d.Driver.Listen(&benchHandler{h, d}), d}
}

type benchListener struct {
	driver.Listener
	d *benchDriver
}

func (l *benchListener) Subscribe(channels ...string) {
	l.d.subscriptions.Add(int64(len(channels)))
	l.Listener.Subscribe(channels...)
}

func (l *benchListener) Unsubscribe(channels ...string) {
	l.d.subscriptions.Add(int64(len(channels)))
	l.Listener.Unsubscribe(channels...)
}

type benchHandler struct {
	driver.Handler
	d *benchDriver
}

func (h *benchHandler) Message(channel, payload string) {
	h.d.messages.Add(1)
	h.Handler.Message(channel, payload)
}
