package cookbook

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// schedule runs a step every second, in the process that leads. It returns when ctx is done.
func schedule(ctx context.Context, client *holdfast.Client, address string, step func(context.Context) error) error {
	election := client.Election("scheduler", holdfast.WatchdogTimeout(5*time.Second))
	return election.Lead(ctx, address, func(ctx context.Context) error {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			if err := step(ctx); err != nil {
				return err // resigns
			}
			select {
			case <-ctx.Done(): // the lead is lost, or the process shuts down
				return context.Cause(ctx)
			case <-tick.C:
			}
		}
	})
}

// leader returns the address of the process that leads.
func leader(ctx context.Context, client *holdfast.Client) (string, error) {
	l, err := client.Election("scheduler").Leader(ctx)
	if err == nil && l.Term == 0 {
		err = errors.New("there is no leader at the moment")
	}
	return l.Name, err
}

// Of two processes one leads. Both wait until the lease of a leader that has crashed ends. The
// second one leads when the first shuts down.
func TestLeader(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		crashed := s.newClient()
		if _, err := crashed.Election("scheduler").Campaign(t.Context(), "crashed", holdfast.LeaseTime(2*time.Second)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()

		type process struct {
			address string
			stop    context.CancelFunc
			ended   chan error
			steps   atomic.Int32
		}
		var processes []*process
		elected := make(chan *process, 100)
		for _, address := range []string{"a", "b"} {
			ctx, stop := context.WithCancel(t.Context())
			p := &process{address: address, stop: stop, ended: make(chan error, 1)}
			processes = append(processes, p)
			client := s.newClient()
			go func() {
				p.ended <- schedule(ctx, client, address, func(context.Context) error {
					if p.steps.Add(1) == 1 {
						elected <- p
					}
					return nil
				})
			}()
		}

		first := receive(t, elected)
		if waited := time.Since(began); waited < 1900*time.Millisecond || s.memory && waited > 3*time.Second {
			t.Errorf("there is a leader after %v", waited)
		}
		crashed.Close()
		if address, err := leader(t.Context(), s.newClient()); err != nil || address != first.address {
			t.Errorf("the leader is %q, %v", address, err)
		}
		if ttl, _ := s.do("PTTL", "scheduler").(int64); ttl <= 0 || ttl > 5000 {
			t.Errorf("the lead ends %d ms after a crash", ttl)
		}
		eventually(t, func() bool { return first.steps.Load() >= 2 })

		second := processes[0]
		if second == first {
			second = processes[1]
		}
		if n := second.steps.Load(); n > 0 {
			t.Errorf("the process that does not lead has made %d steps", n)
		}
		first.stop()
		if err := receive(t, first.ended); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if p := receive(t, elected); p != second {
			t.Errorf("%s leads", p.address)
		}
		second.stop()
		if err := receive(t, second.ended); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if _, err := leader(t.Context(), s.newClient()); err == nil {
			t.Error("there is a leader")
		}
	})
}

// A step that fails ends the lead.
func TestLeaderFails(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, failed := s.newClient(), errors.New("failed")
		if err := schedule(t.Context(), client, "a", func(context.Context) error { return failed }); !errors.Is(err, failed) {
			t.Error(err)
		}
		if _, err := leader(t.Context(), client); err == nil {
			t.Error("it still leads")
		}
	})
}
