package cookbook

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// runUntilSignal runs a job under a lock again and again, until the process gets SIGTERM. The
// job that runs at that moment has the grace period to end. Then its context is done.
func runUntilSignal(client *holdfast.Client, grace time.Duration, job func(context.Context) error) error {
	stop, unregister := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer unregister()
	ctx, cancel := context.WithCancel(context.Background()) // done a grace period after the signal
	defer cancel()
	defer context.AfterFunc(stop, func() { time.AfterFunc(grace, cancel) })()

	var err error
	for err == nil && stop.Err() == nil {
		err = runJob(ctx, stop, client, job)
	}
	if stop.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // it was asked to stop
	}
	return errors.Join(err, client.Close())
}

// runJob waits for the lock until stop is done, and runs the job until ctx is done.
func runJob(ctx, stop context.Context, client *holdfast.Client, job func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	unhook := context.AfterFunc(stop, cancel)
	lease, err := client.Mutex("import").Lock(ctx)
	unhook() // with the lock, the job may run after the signal
	if err != nil {
		return err
	}
	err = job(lease.Context())
	return errors.Join(err, lease.Release(ctx))
}

// terminate sends SIGTERM to this process.
func terminate(t *testing.T) {
	t.Helper()
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := self.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// After SIGTERM a job can end within the grace period, its context is done afterwards, and a
// process that waits for the lock stops at once. In all cases another process gets the lock
// at once. Signals come from outside of a bubble, so time is not faked here.
func TestShutdown(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no SIGTERM")
	}
	for name, start := range map[string]func(*testing.T) *server{"redis": startRedis, "holdfasttest": startMemory} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			run := func(grace time.Duration, job func(context.Context) error) (*holdfast.Client, chan error) {
				client, ended := s.newClient(), make(chan error, 1)
				go func() { ended <- runUntilSignal(client, grace, job) }()
				return client, ended
			}
			free := func() {
				t.Helper()
				lease, err := s.newClient().Mutex("import").TryLock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				lease.Release(t.Context())
			}

			// The job ends in time.
			begun, finish, whole, jobs := make(chan bool), make(chan bool), false, 0
			_, ended := run(time.Hour, func(ctx context.Context) error {
				if jobs++; jobs == 1 { // there are more if the signal comes late
					begun <- true
					<-finish
					whole = ctx.Err() == nil
				}
				return nil
			})
			receive(t, begun)
			for range 2 { // the loop has got the first signal when the second one has been delivered
				got, unregister := signal.NotifyContext(t.Context(), syscall.SIGTERM)
				terminate(t)
				receive(t, got.Done())
				unregister()
			}
			close(finish)
			if err := receive(t, ended); err != nil || !whole {
				t.Errorf("job ended: %v, error: %v", whole, err)
			}
			free()

			// It does not.
			_, ended = run(50*time.Millisecond, func(ctx context.Context) error {
				begun <- true
				<-ctx.Done()
				return ctx.Err()
			})
			receive(t, begun)
			terminate(t)
			if err := receive(t, ended); err != nil {
				t.Error(err)
			}
			free()

			// The process waits for the lock.
			lease, err := s.newClient().Mutex("import").Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			client, ended := run(time.Hour, func(context.Context) error { return errors.New("it ran") })
			eventually(t, func() bool { return client.Stats().Waiting > 0 })
			terminate(t)
			if err := receive(t, ended); err != nil {
				t.Error(err)
			}
			lease.Release(t.Context())
			free()

			// A job that fails ends the program with its error.
			failed := errors.New("failed")
			if err := runUntilSignal(s.newClient(), time.Hour, func(context.Context) error { return failed }); !errors.Is(err, failed) {
				t.Error(err)
			}
		})
	}
}
