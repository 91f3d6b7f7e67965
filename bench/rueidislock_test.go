package bench

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func init() {
	versions["rueidislock"] = func() (version, error) {
		locker, err := newRueidislock(os.Getenv("TEST_ADDR"), false)
		return func(ctx context.Context, fn func(context.Context) error) error {
			ctx, cancel, err := locker.WithContext(ctx, "order:42")
			if err != nil {
				return err
			}
			defer cancel()
			return fn(ctx)
		}, err
	}
	versions["rueidislock and holdfast"] = func() (version, error) {
		client, err := openInFleet()
		return func(ctx context.Context, fn func(context.Context) error) error {
			return transition(client, "order:42").Do(ctx, fn)
		}, err
	}
}

// newRueidislock returns a locker with the defaults, except that a busy machine may take longer
// for a request. A request that takes longer than TryNextAfter fails, and WithContext then waits,
// even if the lock is free.
func newRueidislock(addr string, noCache bool) (rueidislock.Locker, error) {
	return rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: noCache},
		TryNextAfter: 2 * time.Second,
	})
}

func openRueidislock(t *testing.T, addr string, noCache bool) rueidislock.Locker {
	t.Helper()
	l := locktest.Must[rueidislock.Locker](t)(newRueidislock(addr, noCache))
	t.Cleanup(l.Close)
	return l
}

// A fleet migrates from rueidislock as docs/from-rueidislock.md says. No two processes have the
// lock at the same time, and each gets it.
func TestMigrationFromRueidislock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	migrate(t, []string{"TEST_URL=" + s.URL(), "TEST_ADDR=" + s.Addr()}, "rueidislock", "rueidislock and holdfast", "holdfast")
}

// A process dies with the lock. A process of the other library gets it when the lease is over,
// and not before.
func TestMigrationFromRueidislockAfterDeath(t *testing.T) {
	t.Parallel()
	for dead, next := range map[string]string{
		"rueidislock":              "rueidislock and holdfast",
		"rueidislock and holdfast": "rueidislock",
	} {
		t.Run(dead, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			env := []string{"TEST_URL=" + s.URL(), "TEST_ADDR=" + s.Addr()}
			p := holdUntilKilled(t, env, dead)
			w := redistest.Worker(t, "fleet", append(env, "TEST_VERSION="+next, "TEST_STAY=1")...)
			if line, ok := locktest.Receive(w.Lines(), fleetLease+2*time.Second); ok {
				t.Fatalf("while %s holds it: %q", dead, line)
			}
			p.Kill()
			left := time.Duration(s.Do(t, "PTTL", "rueidislock:0:order:42").(int64)) * time.Millisecond
			start := time.Now()
			line, _ := locktest.Receive(w.Lines(), time.Minute)
			took := time.Since(start)
			t.Logf("%s gets it %v after the death of %s, whose lease had %v left", next, took, dead, left)
			if line != "held" || took < left-50*time.Millisecond {
				t.Errorf("%q", line)
			}
		})
	}
}

// What docs/from-rueidislock.md says about rueidislock beside Holdfast.
func TestRueidislockBesideHoldfast(t *testing.T) {
	t.Parallel()
	for _, noCache := range []bool{false, true} {
		t.Run("DisableCache="+strconv.FormatBool(noCache), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			locker := openRueidislock(t, s.Addr(), noCache)
			client := locktest.Open(t, s.URL(), holdfast.Options{WatchdogTimeout: 3 * time.Second})
			lock := transition(client, "order:42")

			// Holdfast holds it: WithContext waits, and is woken. TryWithContext fails.
			lease := locktest.Lock(t, t.Context(), lock)
			if _, _, err := locker.TryWithContext(t.Context(), "order:42"); err == nil || errors.Is(err, rueidislock.ErrNotLocked) || !strings.HasPrefix(err.Error(), "WRONGTYPE") {
				t.Errorf("TryWithContext: %v", err)
			}
			if _, _, err := tryWithContext(t.Context(), locker, "order:42"); !errors.Is(err, rueidislock.ErrNotLocked) {
				t.Errorf("tryWithContext: %v", err)
			}
			got := make(chan context.CancelFunc)
			go func() {
				_, cancel, err := locker.WithContext(t.Context(), "order:42")
				if err != nil {
					t.Error(err)
				}
				got <- cancel
			}()
			if _, ok := locktest.Receive(got, 4*time.Second); ok { // some renewals later
				t.Fatal("WithContext has got a lock that Holdfast holds")
			}
			locktest.Release(t, lease)
			start := time.Now()
			cancel, ok := locktest.Receive(got, time.Minute)
			if took := locktest.Took(start); !ok || took > locktest.Late {
				t.Fatalf("WithContext was not woken in %v", took)
			}

			// rueidislock holds it.
			locktest.WantRefused(t, lock)
			if err := tryWithTransition(t.Context(), lock); !errors.Is(err, errBusy) {
				t.Errorf("Do with Wait(0): %v", err)
			}
			s.Do(t, "SET", "other", "token", "PX", "60000") // rueidislock may not hold each of its keys
			if freed, err := client.Mutex("other").ForceUnlock(t.Context()); freed || !errors.Is(err, holdfast.ErrRefused) {
				t.Errorf("ForceUnlock: %v, %v", freed, err)
			}
			waiting := locktest.Background(t.Context(), lock)
			locktest.WantWaiting(t, client, waiting)
			cancel()
			lease = locktest.Entered(t, waiting)

			// ForceWithContext takes the lock from Holdfast, whose holder finds out at its next renewal.
			ctx, cancel, err := locker.ForceWithContext(t.Context(), "order:42")
			if err != nil || ctx.Err() != nil {
				t.Fatalf("ForceWithContext: %v, %v", err, ctx.Err())
			}
			if !lease.Valid() {
				t.Error("Holdfast knows of ForceWithContext before it has asked")
			}
			<-lease.Context().Done()
			locktest.WantLost(t, lease, holdfast.LossNotOwner)
			cancel()

			// One of the keys is not enough to exclude rueidislock.
			one := locktest.Lock(t, t.Context(), client.Mutex("rueidislock:0:order:42"))
			_, cancel, err = locker.TryWithContext(t.Context(), "order:42")
			if err != nil {
				t.Errorf("with one key held by Holdfast: %v", err)
			}
			cancel()
			locktest.Release(t, one)

			// The end of the parent releases a lock of rueidislock, and not one of Holdfast.
			parent, end := context.WithCancel(t.Context())
			if _, _, err := locker.WithContext(parent, "order:42"); err != nil {
				t.Fatal(err)
			}
			end()
			lease = locktest.Lock(t, t.Context(), lock)
			locktest.Release(t, lease)
			parent, end = context.WithCancel(t.Context())
			lease = locktest.Lock(t, parent, lock)
			end()
			locktest.AwaitRenewals(t, client, 5) // more than one request renews: the last one was sent after the end
			locktest.WantRefused(t, lock)
			locktest.Release(t, lease)
		})
	}
}

func tryWithTransition(ctx context.Context, lock holdfast.Locker) error {
	err := lock.Do(ctx, charge, holdfast.Wait(0))
	if errors.Is(err, holdfast.ErrNotAcquired) {
		return errBusy
	}
	return err
}

// A holder that cannot reach the server: rueidislock ends its context after another process
// may have the lock.
func TestRueidislockCutOff(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	first, second := openRueidislock(t, p.Addr(), false), openRueidislock(t, s.Addr(), false)
	ctx, _, err := first.WithContext(t.Context(), "order:42")
	if err != nil {
		t.Fatal(err)
	}
	p.Freeze()
	defer p.Thaw()
	start := time.Now()
	if _, _, err := second.WithContext(t.Context(), "order:42"); err != nil {
		t.Fatal(err)
	}
	granted, overlap := time.Since(start), ctx.Err() == nil
	<-ctx.Done()
	t.Logf("the second has the lock after %v, the first is told after %v", granted, time.Since(start))
	if !overlap {
		t.Error("the first holder was told before the second had the lock: docs/from-rueidislock.md says otherwise")
	}
}

// The code of docs/from-rueidislock.md does the same in both libraries.
func TestFromRueidislock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker, client := openRueidislock(t, s.Addr(), false), locktest.Open(t, s.URL())
	for name, call := range map[string]func() error{
		"rueidislock": func() error { return chargeWithRueidislock(t.Context(), locker) },
		"holdfast":    func() error { return chargeWithDo(t.Context(), client) },
		"transition":  func() error { return chargeInTransition(t.Context(), client) },
	} {
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
