package deadlock_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/deadlock"
)

// A server keeps values, and says which owner holds a lock.
type server struct {
	driver.Driver
	mu      sync.Mutex
	values  map[string]string
	holders map[string]string
}

func (s *server) Do(_ context.Context, c driver.Call) (driver.Reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch key := c.Keys[0]; c.Script.Name {
	case "value_set":
		s.values[key] = c.Args[0]
		if c.Args[len(c.Args)-1] == "1" { // it is kept for a millisecond
			delete(s.values, key)
		}
	case "client_get":
		if v, ok := s.values[key]; ok {
			return driver.Reply{Type: driver.Str, Str: v}, nil
		}
		return driver.Reply{}, nil
	case "mutex_inspect":
		return driver.Reply{Type: driver.List, List: []driver.Reply{{Type: driver.Int, Int: 1000}, {Type: driver.Str, Str: s.holders[key]}, {Type: driver.Str, Str: "1"}}}, nil
	}
	return driver.Reply{Type: driver.Int, Int: 1}, nil
}

// published returns how many keys with that prefix there are.
func (s *server) published(prefix string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.values {
		if strings.HasPrefix(key, prefix) {
			n++
		}
	}
	return n
}

// Two clients wait for each other. Both report it once, and the one that has begun to wait last
// is told to end. Then nothing is left at the server but the report.
func TestCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{values: make(map[string]string), holders: map[string]string{"x": "a:1", "y": "b:1"}}
		var mu sync.Mutex
		found, ended := make(map[string]int), make(map[string]int)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		begin := time.Now()
		for i, c := range []struct{ id, holds, wants string }{{"a", "x", "y"}, {"b", "y", "x"}} {
			client := &deadlock.Client{Driver: s, ID: c.id, Who: "client " + c.id, Ends: true}
			d := deadlock.New(deadlock.Call{
				Client: client, Since: begin.Add(time.Duration(i) * time.Second),
				Wants: []deadlock.Lock{{Client: client, Kind: "mutex", Name: c.wants}},
				Holds: func() []deadlock.Lock {
					return []deadlock.Lock{{Client: client, Kind: "mutex", Name: c.holds, Owner: c.id + ":1"}}
				},
				Found: func(cycle deadlock.Cycle) {
					mu.Lock()
					defer mu.Unlock()
					if len(cycle.Waits) != 2 || cycle.Waits[0].Client != "a" {
						t.Errorf("%s found %v", c.id, cycle.Waits)
					}
					if cycle.New {
						found[c.id]++
					}
					if cycle.End {
						ended[c.id]++
					}
				},
			})
			all.Go(func() { d.Run(ctx) })
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		mu.Lock()
		if found["a"] != 1 || found["b"] != 1 || ended["a"] != 0 || ended["b"] == 0 {
			t.Errorf("found by %v, %v were told to end", found, ended)
		}
		mu.Unlock()
		if n := s.published("holdfast:blocked:"); n != 2 {
			t.Errorf("%d waits are published", n)
		}
		cancel()
		all.Wait()
		if left, reports := s.published("holdfast:blocked:"), s.published("holdfast:deadlock:"); left != 0 || reports != 1 {
			t.Errorf("%d waits and %d reports are left", left, reports)
		}
	})
}

// A call that waits for one that does not wait is in no deadlock.
func TestNoCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{values: make(map[string]string), holders: map[string]string{"x": "a:1", "y": "b:1"}}
		client := &deadlock.Client{Driver: s, ID: "a"}
		holds := []deadlock.Lock{{Client: client, Kind: "mutex", Name: "x", Owner: "a:1"}}
		var mu sync.Mutex
		d := deadlock.New(deadlock.Call{
			Client: client, Since: time.Now(),
			Wants: []deadlock.Lock{{Client: client, Kind: "mutex", Name: "y"}},
			Holds: func() []deadlock.Lock {
				mu.Lock()
				defer mu.Unlock()
				return holds
			},
			Found: func(cycle deadlock.Cycle) { t.Errorf("found %v", cycle.Waits) },
		})
		done := make(chan struct{})
		go func() {
			defer close(done)
			d.Run(t.Context())
		}()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := s.published("holdfast:blocked:"); n != 1 {
			t.Errorf("%d waits are published", n)
		}
		mu.Lock()
		holds = nil
		mu.Unlock()
		<-done // a call that holds nothing cannot be in a deadlock
		if n := s.published("holdfast:"); n != 0 {
			t.Errorf("%d keys are left", n)
		}
	})
}
