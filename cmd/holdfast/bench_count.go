package main

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/load"
)

// benchDriver is a driver whose calls are counted. Counting in the client needs no
// permissions and excludes the commands of other clients.
type benchDriver struct {
	driver.Driver
	*load.Traffic
}

func (d benchDriver) Do(ctx context.Context, call driver.Call) (driver.Reply, error) {
	d.Traffic[load.Scripts].Add(1)
	return d.Driver.Do(ctx, call)
}

func (d benchDriver) DoMany(ctx context.Context, calls []driver.Call) []driver.Result {
	d.Traffic[load.Scripts].Add(int64(len(calls)))
	return d.Driver.DoMany(ctx, calls)
}

func (d benchDriver) DoAcked(ctx context.Context, calls []driver.Call, replicas int, timeout time.Duration) []driver.Result {
	d.Traffic[load.Scripts].Add(int64(len(calls)) + 1)
	return d.Driver.DoAcked(ctx, calls, replicas, timeout)
}

func (d benchDriver) Listen(h driver.Handler) driver.Listener {
	return &benchListener{d.Driver.Listen(&benchHandler{h, d.Traffic}), d.Traffic}
}

type benchListener struct {
	driver.Listener
	*load.Traffic
}

func (l *benchListener) Subscribe(channels ...string) {
	l.Traffic[load.Subscriptions].Add(int64(len(channels)))
	l.Listener.Subscribe(channels...)
}

func (l *benchListener) Unsubscribe(channels ...string) {
	l.Traffic[load.Subscriptions].Add(int64(len(channels)))
	l.Listener.Unsubscribe(channels...)
}

type benchHandler struct {
	driver.Handler
	*load.Traffic
}

func (h *benchHandler) Message(channel, payload string) {
	h.Traffic[load.Messages].Add(1)
	h.Handler.Message(channel, payload)
}

// A benchLog is a log handler that collects warnings without duplicates. A warning
// explains a result: if the user lacks a right, waiting clients poll or all wake up.
type benchLog struct {
	mu       sync.Mutex
	warnings []string
}

// Enabled implements slog.Handler.
func (l *benchLog) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

// Handle implements slog.Handler.
func (l *benchLog) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.warnings, r.Message) {
		l.warnings = append(l.warnings, r.Message)
	}
	return nil
}

func (l *benchLog) list() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.warnings)
}

// WithAttrs implements slog.Handler.
func (l *benchLog) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l *benchLog) WithGroup(string) slog.Handler { return l }
