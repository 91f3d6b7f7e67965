// Package cookbook has the code of docs/cookbook.md and its tests. The last recipe, which
// needs PostgreSQL, is in cmd/holdfast/cookbook_test.go.
package cookbook

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.RunTests(m)) }

// limit is the time for what takes milliseconds on an idle machine.
const limit = 30 * time.Second

// poll is the PollInterval of the clients.
const poll = 500 * time.Millisecond

// A server is a Redis server or the server of holdfasttest.
type server struct {
	newClient func() *holdfast.Client
	do        func(args ...string) any
	memory    bool
}

// each runs a test with a Redis server, and with the server of holdfasttest and faked time.
func each(t *testing.T, test func(*testing.T, *server)) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, startRedis(t))
	})
	t.Run("holdfasttest", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { test(t, startMemory(t)) })
	})
}

func startRedis(t *testing.T) *server {
	s := redistest.Start(t)
	return &server{
		newClient: func() *holdfast.Client {
			client, err := holdfast.Open(t.Context(), s.URL(), &holdfast.Options{PollInterval: poll})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { client.Close() })
			return client
		},
		do: func(args ...string) any { return s.Do(t, args...) },
	}
}

func startMemory(t *testing.T) *server {
	s := holdfasttest.NewServer(t)
	return &server{newClient: func() *holdfast.Client { return s.NewClient(&holdfast.Options{PollInterval: poll}) }, do: s.Do, memory: true}
}

// pass lets time pass for keys that no process renews. With a Redis server it shortens
// their TTLs instead of waiting.
func (s *server) pass(t *testing.T, d time.Duration, keys ...string) {
	t.Helper()
	if s.memory {
		time.Sleep(d)
		return
	}
	for _, key := range keys {
		left, _ := s.do("PTTL", key).(int64)
		if left <= 0 {
			t.Fatalf("the TTL of %s is %d", key, left)
		}
		s.do("PEXPIRE", key, fmt.Sprint(max(1, left-d.Milliseconds())))
	}
	time.Sleep(10 * time.Millisecond)
}

// together calls fn n times at the same time, and returns the results.
func together[T any](n int, fn func(i int) T) []T {
	results := make([]T, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { results[i] = fn(i) })
	}
	all.Wait()
	return results
}

// receive returns the next value of a channel.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(limit):
		t.Fatal("nothing has happened")
		panic("unreachable")
	}
}

// eventually waits until a condition is true.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	if !redistest.Poll(limit, condition) {
		t.Fatal("the condition is still false")
	}
}
