package holdfasttest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/object"
)

// A lease of 30 s that is not renewed expires, in no time.
func TestExpires(t *testing.T) {
	real := time.Now()
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.NewServer(t)
		a, b := s.NewClient(nil), s.NewClient(nil)
		lease, err := a.Mutex("order:42").Lock(t.Context(), holdfast.LeaseTime(30*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		other, err := b.Mutex("order:42").TryLock(t.Context(), holdfast.Wait(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 30*time.Second || took > 32*time.Second {
			t.Errorf("granted after %v", took)
		}
		if lease.Valid() {
			t.Error("two have the lock")
		}
		if err := other.Release(t.Context()); err != nil {
			t.Error(err)
		}
		_ = lease.Release(t.Context())
	})
	if took := time.Since(real); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

// The watchdog renews for as long as the client lives.
func TestRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.NewServer(t)
		a, b := s.NewClient(nil), s.NewClient(nil)
		lease, err := a.Mutex("m").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if _, err := b.Mutex("m").TryLock(t.Context()); !errors.Is(err, holdfast.ErrNotAcquired) || !lease.Valid() {
			t.Errorf("after an hour: %v", err)
		}
		s.Cut()
		select {
		case <-lease.Context().Done():
		case <-time.After(time.Hour):
		}
		if !errors.Is(context.Cause(lease.Context()), holdfast.ErrLost) {
			t.Error(context.Cause(lease.Context()))
		}
		s.Restore()
		if err := lease.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Error(err)
		}
	})
}

// When a server is back, a waiting call is woken by a message and does not poll.
func TestMessagesAfterCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.NewServer(t)
		o := holdfast.Options{PollInterval: time.Hour}
		a, b := s.NewClient(&o), s.NewClient(&o)
		latch := a.Latch("x")
		if _, err := latch.TrySet(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		done := make(chan time.Time, 1)
		go func() {
			if err := b.Latch("x").Wait(t.Context()); err != nil {
				t.Error(err)
			}
			done <- time.Now()
		}()
		time.Sleep(time.Minute)
		s.Cut()
		time.Sleep(time.Second)
		s.Restore()
		time.Sleep(time.Minute)
		opened := time.Now()
		if _, err := latch.CountDown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if late := (<-done).Sub(opened); late > time.Second {
			t.Errorf("woken after %v", late)
		}
	})
}

// What goes wrong is noticed.
func TestFaults(t *testing.T) {
	for name, wrong := range map[string]func(s *holdfasttest.Server){
		"taken":       func(s *holdfasttest.Server) { s.Take("m") },
		"expired":     func(s *holdfasttest.Server) { s.Expire("m") },
		"failed over": func(s *holdfasttest.Server) { s.FailOver("m") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := holdfasttest.NewServer(t)
				c := s.NewClient(nil)
				lease, err := c.Mutex("m").Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				wrong(s)
				select {
				case <-lease.Context().Done():
				case <-time.After(time.Minute):
					t.Error("the loss was not noticed")
				}
				_ = lease.Release(t.Context())
			})
		})
	}
}

// A recorder is a test that notes its errors.
type recorder struct {
	testing.TB
	errors   []string
	cleanups []func()
}

func (*recorder) Helper()            {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// A loop over changes is no call that waits for a lock.
func TestWatchDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := holdfasttest.NewClient(t, nil)
		seen := make(chan struct{}, 2)
		go func() {
			for range object.NewBucket(c, "bucket", object.StringCodec{}).Watch(t.Context()) {
				seen <- struct{}{}
			}
		}()
		go func() {
			for range c.Election("election").Observe(t.Context()) {
				seen <- struct{}{}
			}
		}()
		<-seen
		<-seen
		time.Sleep(time.Hour)
		if s := c.Stats(); s.Waiting != 0 || len(s.Calls) != 0 || s.Subscriptions == 0 {
			t.Errorf("%d calls wait, %v; %d subscriptions", s.Waiting, s.Calls, s.Subscriptions)
		}
	})
}

func TestLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{TB: t}
		s := holdfasttest.NewServer(r)
		c, other := s.NewClient(nil), s.NewClient(nil)
		if _, err := c.Mutex("m").Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = other.Mutex("m").Lock(t.Context()) }()
		synctest.Wait()
		for i := len(r.cleanups) - 1; i >= 0; i-- {
			r.cleanups[i]()
		}
		if len(r.errors) != 2 {
			t.Errorf("%q", r.errors)
		}
	})
}

// What a test has left is reported with the line that created the client, and warnings are
// part of the output of the test.
func TestOutput(t *testing.T) {
	if os.Getenv("HOLDFASTTEST_OUTPUT") != "" {
		synctest.Test(t, func(t *testing.T) {
			s := holdfasttest.NewServer(t)
			c := s.NewClient(nil) // the line that is reported
			if _, err := c.Mutex("left").Lock(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.Cut()
			time.Sleep(time.Hour)
			s.Restore()
			if _, err := c.Mutex("left").Lock(t.Context()); err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = c.Mutex("left").Lock(context.Background()) }() // the context of the test ends first
			time.Sleep(time.Minute)
		})
		return
	}
	source, err := os.ReadFile("holdfasttest_test.go")
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(source), "// the line that is reported")
	at := fmt.Sprintf("holdfasttest_test.go:%d: holdfasttest: ", 1+strings.Count(before, "\n"))
	test := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOutput$")
	test.Env = append(os.Environ(), "HOLDFASTTEST_OUTPUT=1")
	var stdout, stderr strings.Builder
	test.Stdout, test.Stderr = &stdout, &stderr
	if err := test.Run(); err == nil {
		t.Error("the test passed")
	}
	for _, want := range []string{at + `a lease of this client on the mutex "left" was not released`, at + "1 calls of this client still wait", "level=WARN msg=\"lease lost: "} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, stdout.String())
		}
	}
	if stderr.Len() > 0 {
		t.Errorf("on stderr:\n%s", stderr.String())
	}
}
