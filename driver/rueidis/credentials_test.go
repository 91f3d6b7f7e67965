package rueidis_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A function that never returns does not leave more and more goroutines behind.
func TestStuckCredentials(t *testing.T) {
	t.Parallel()
	s := redistest.StartWith(t, redistest.WithUser("app", "secret"))
	stuck := make(chan struct{})
	var calls atomic.Int32
	d, err := rueidis.Open(t.Context(), rueidis.Config{
		Addr: s.Addr(), DialTimeout: 10 * time.Millisecond,
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
