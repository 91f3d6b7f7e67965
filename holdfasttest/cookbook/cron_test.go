package cookbook

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// runOnce runs a job that all instances start at the same time, in one of them.
func runOnce(ctx context.Context, client *holdfast.Client, job string, atLeast time.Duration, fn func(context.Context) error) error {
	lease, err := client.Mutex("cron:"+job).TryLock(ctx, holdfast.AtLeast(atLeast))
	if errors.Is(err, holdfast.ErrNotAcquired) {
		return nil // another instance runs it, or has just run it
	} else if err != nil {
		return err
	}
	err = fn(lease.Context())
	return errors.Join(err, lease.Release(ctx))
}

// Three instances start a job, and one of them runs it. One whose clock is late does not.
func TestCron(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		clients := []*holdfast.Client{s.newClient(), s.newClient(), s.newClient()}
		var runs atomic.Int32
		start := func(i int) error {
			return runOnce(t.Context(), clients[i], "report", 10*time.Minute, func(context.Context) error {
				runs.Add(1)
				return nil
			})
		}
		for hour := range int32(3) {
			for _, err := range together(3, start) {
				if err != nil {
					t.Error(err)
				}
			}
			s.pass(t, 5*time.Minute, "cron:report")
			if err := start(2); err != nil { // five minutes late
				t.Error(err)
			}
			if n := runs.Load(); n != hour+1 {
				t.Fatalf("%d runs after %d hours", n, hour+1)
			}
			s.pass(t, 55*time.Minute, "cron:report")
		}

		failed := errors.New("failed")
		if err := runOnce(t.Context(), clients[0], "other", time.Minute, func(context.Context) error { return failed }); !errors.Is(err, failed) {
			t.Error(err)
		}
	})
}

// An instance that closes its client after the job keeps the lock, too.
func TestCronClosed(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		runs := 0
		for range 2 {
			client := s.newClient()
			if err := runOnce(t.Context(), client, "report", 10*time.Minute, func(context.Context) error { runs++; return nil }); err != nil {
				t.Error(err)
			}
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		}
		if runs != 1 {
			t.Errorf("%d runs", runs)
		}
	})
}
