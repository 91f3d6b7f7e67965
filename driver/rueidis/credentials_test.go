package rueidis_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A function that never returns does not leave more and more goroutines behind.
func TestStuckCredentials(t *testing.T) {
	t.Parallel()
	s := redistest.StartWith(t, redistest.WithUser("app", "secret"))
	stuck := make(chan struct{})
	var calls atomic.Int32
	d, err := rueidis.Open(t.Context(), rueidis.Config{
		Addr: s.Addr(), DialTimeout: 200 * time.Millisecond,
		Credentials: func(context.Context, rueidis.Peer) (string, rueidis.Secret, error) {
			if calls.Add(1) > 1 {
				<-stuck
			}
			return "app", "secret", nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	s.Do(t, "CLIENT", "KILL", "USER", "app")
	for begin := time.Now(); ; {
		_, err := d.Do(t.Context(), addOne("k"))
		if err == nil {
			t.Fatal("a call without credentials")
		}
		if strings.Contains(err.Error(), "16 earlier calls") {
			if driver.ClassOf(err) != driver.Definite {
				t.Errorf("%v is %v", err, driver.ClassOf(err))
			}
			break
		}
		if time.Since(begin) > patience {
			t.Fatalf("after %d calls: %v", calls.Load(), err)
		}
	}
	if n := calls.Load(); n > 17 {
		t.Errorf("%d calls", n)
	}
	close(stuck)
	for begin := time.Now(); ; {
		_, err := d.Do(t.Context(), addOne("k"))
		if err == nil {
			return
		}
		if time.Since(begin) > patience {
			t.Fatal(err)
		}
	}
}

// A server that answers NOAUTH on an open connection gets a new login.
func TestExpiredLogin(t *testing.T) {
	t.Parallel()
	s := redistest.StartWith(t, redistest.WithUser("app", "secret"))
	var calls atomic.Int32
	d, err := rueidis.Open(t.Context(), rueidis.Config{
		Addr: s.Addr(), Timeout: patience, DialTimeout: patience,
		Credentials: func(context.Context, rueidis.Peer) (string, rueidis.Secret, error) {
			calls.Add(1)
			return "app", "secret", nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	expired := driver.NewScript("expired", "return redis.error_reply('NOAUTH Authentication required.')")
	locktest.Eventually(t, patience, "a new login", func() bool {
		_, err := d.Do(t.Context(), driver.Call{Script: expired, Keys: []string{"k"}})
		if err == nil || driver.ClassOf(err) == driver.Fatal {
			t.Fatalf("%v is %v", err, driver.ClassOf(err))
		}
		return calls.Load() > 1
	})
	locktest.Eventually(t, patience, "a call on the new connection", func() bool {
		_, err := d.Do(t.Context(), addOne("k"))
		return err == nil
	})
	if n := calls.Load(); n > 3 {
		t.Errorf("%d logins: a new connection must not be closed again at once", n)
	}
}
