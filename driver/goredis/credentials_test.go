package goredis_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A lease survives a change of the password, and a message wakes a waiter, on a
// client that asks for its credentials.
func TestRotation(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	s := redistest.StartWith(t, redistest.WithUser("app", "first"))
	var password atomic.Value
	password.Store("first")
	open := func() *holdfast.Client {
		client := redis.NewClient(&redis.Options{
			Addr: s.Addr(), ReadTimeout: silence, MaintNotificationsConfig: unannounced(),
			CredentialsProviderContext: func(context.Context) (string, string, error) {
				return "app", password.Load().(string), nil
			},
		})
		return locker(t, client, holdfast.Options{WatchdogTimeout: lease, RenewEvery: lease / 6, PollInterval: time.Minute})
	}
	subscribed := func() bool {
		return strings.Contains(s.Do(t, "CLIENT", "LIST", "TYPE", "PUBSUB").(string), "user=app")
	}
	holder, waiter := open(), open()
	held := locktest.Lock(t, t.Context(), holder.Mutex("m"))
	granted := make(chan error, 1)
	go func() {
		granted <- waiter.Mutex("m").Do(t.Context(), func(context.Context) error { return nil })
	}()
	locktest.Eventually(t, soon, "a subscription", subscribed)

	password.Store("second")
	s.Do(t, "ACL", "SETUSER", "app", ">second", "<first")
	s.Do(t, "CLIENT", "KILL", "USER", "app")
	since := time.Now()
	locktest.Eventually(t, soon, "the renewal of the lease", func() bool {
		if err := context.Cause(held.Context()); err != nil {
			t.Fatalf("the lease is lost: %v", err)
		}
		return held.Deadline().After(since.Add(lease))
	})
	locktest.Eventually(t, soon, "a new subscription", subscribed)
	locktest.Release(t, held)
	select {
	case err := <-granted:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(soon):
		t.Error("the waiter did not get the lock")
	}
}
