package holdfast_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A wait for a semaphore that does not exist is not silent.
func TestWaitForMissingSemaphore(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	for kind, acquire := range map[string]func(*holdfast.Client, context.Context) error{
		"plain": func(c *holdfast.Client, ctx context.Context) error { return c.Semaphore("plain").Acquire(ctx, 1) },
		"leased": func(c *holdfast.Client, ctx context.Context) error {
			return c.LeasedSemaphore("leased").Do(ctx, 1, func(context.Context) error { return nil })
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			log := new(safeBuffer)
			o := quick
			o.Logger = slog.New(slog.NewTextHandler(log, nil))
			c := open(t, s.URL(), o)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- acquire(c, ctx) }()
			eventually(t, 10*time.Second, "a word in the log", func() bool {
				return strings.Contains(log.String(), "does not exist") && strings.Contains(log.String(), "name="+kind) && strings.Contains(log.String(), "TrySet")
			})
			if n := strings.Count(log.String(), "\n"); n != 1 {
				t.Errorf("%d lines in the log", n)
			}
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}

// A logger that blocks keeps no waiter from its permit.
func TestWaitForMissingSemaphoreBlockedLogger(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	blocked := &blockedWriter{began: make(chan struct{}), release: make(chan struct{})}
	t.Cleanup(func() { close(blocked.release) })
	o := quick
	o.Logger = slog.New(slog.NewTextHandler(blocked, nil))
	sem := open(t, s.URL(), o).Semaphore("missing")
	done := make(chan error, 2)
	for range 2 {
		go func() { done <- sem.Acquire(t.Context(), 1) }()
	}
	<-blocked.began
	if _, err := open(t, s.URL()).Semaphore("missing").TrySet(t.Context(), 2, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

type blockedWriter struct{ began, release chan struct{} }

func (b *blockedWriter) Write(p []byte) (int, error) {
	select {
	case <-b.began:
	default:
		close(b.began)
	}
	<-b.release
	return len(p), nil
}
