package faults_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/object"
)

// Many callers that wait for a missing server do not try one after the other.
func TestIDFetchFails(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	g := object.NewIDGenerator(locktest.Open(t, p.URL()), "g")
	p.Refuse(true)
	p.Cut()
	start := time.Now()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := g.Next(t.Context()); !errors.Is(err, holdfast.ErrUnavailable) {
				t.Errorf("without a server: %v", err)
			}
		})
	}
	wg.Wait()
	if took := locktest.Took(start); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	p.Refuse(false)
	locktest.Must[int64](t)(g.Next(t.Context()))
}

// Nothing that was given out is given out again by a server that has written it
// down before it answered.
func TestIDsSurviveRestart(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	var all []int64
	var wg sync.WaitGroup
	for range 3 {
		g := object.NewIDGenerator(locktest.Open(t, s.URL()), "g")
		_ = locktest.Must[bool](t)(g.TryInit(ctx, 1, 10))
		for range 2 {
			wg.Go(func() {
				for ctx.Err() == nil {
					id, err := g.Next(ctx)
					switch {
					case err == nil:
						mu.Lock()
						all = append(all, id)
						mu.Unlock()
					case !errors.Is(err, holdfast.ErrUnavailable) && ctx.Err() == nil:
						t.Error(err)
						return
					}
				}
			})
		}
	}
	for range 3 {
		mu.Lock()
		n := len(all) + 500
		mu.Unlock()
		locktest.Eventually(t, 20*time.Second, "500 ids more", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(all) >= n
		})
		s.RestartWithData()
	}
	cancel()
	wg.Wait()
	slices.Sort(all)
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] {
			t.Fatalf("id %d was given out twice", all[i])
		}
	}
	t.Logf("%d ids", len(all))
}

// A generator whose server has lost its memory does not repeat its own ids, and
// raises the counter for others.
func TestIDsOfSurvivor(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL())
	g := object.NewIDGenerator(c, "g")
	var last int64
	for range 3 {
		for range 12_000 {
			id := locktest.Must[int64](t)(g.Next(t.Context()))
			if id <= last {
				t.Fatalf("%d after %d", id, last)
			}
			last = id
		}
		s.Restart()
	}
	for last%5000 != 0 { // to the end of the block
		last = locktest.Must[int64](t)(g.Next(t.Context()))
	}
	locktest.Must[int64](t)(g.Next(t.Context()))
	if id := locktest.Must[int64](t)(object.NewIDGenerator(c, "g").Next(t.Context())); id <= last {
		t.Errorf("another generator begins at %d, below %d", id, last)
	}
}
