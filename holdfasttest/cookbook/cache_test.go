package cookbook

import (
	"context"
	"errors"
	"log"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/object"
)

// An Entry is a value in the cache.
type Entry[T any] struct {
	Value T
	Fresh time.Time // until when it need not be computed again
}

// cached returns a value from the cache. If it is missing or not fresh any more, one process
// computes it. The others use the old value, or wait if there is none.
func cached[T any](ctx context.Context, client *holdfast.Client, name string, fresh, stale time.Duration, compute func(context.Context) (T, error)) (T, error) {
	cache := object.NewBucket(client, "cache:"+name, object.JSONCodec[Entry[T]]{})
	old, ok, err := cache.Get(ctx)
	if err != nil || ok && time.Now().Before(old.Fresh) {
		return old.Value, err
	}
	wait := 30 * time.Second
	if ok {
		wait = 0 // there is an old value
	}
	v, err := holdfast.DoValue(ctx, client.Mutex("compute:"+name), func(ctx context.Context) (T, error) {
		// Another process may have computed it in the meantime.
		e, ok, err := cache.Get(ctx)
		if err != nil || ok && time.Now().Before(e.Fresh) {
			return e.Value, err
		}
		v, err := compute(ctx)
		if err != nil {
			return v, err
		}
		return v, cache.Set(ctx, Entry[T]{v, time.Now().Add(fresh)}, fresh+stale)
	}, holdfast.Wait(wait))
	if ok && err != nil {
		if !errors.Is(err, holdfast.ErrNotAcquired) { // else another process computes it
			log.Printf("the old value of %s is used: %v", name, err)
		}
		return old.Value, nil
	}
	return v, err
}

// Twenty calls in two processes compute a value once. When it is old, one call computes it
// while the others use the old value.
func TestCache(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		clients := []*holdfast.Client{s.newClient(), s.newClient()}
		var computed atomic.Int32
		get := func(i int, compute func(context.Context) (string, error)) (string, error) {
			return cached(t.Context(), clients[i%2], "prices", time.Hour, 24*time.Hour, compute)
		}
		for _, v := range together(20, func(i int) string {
			v, err := get(i, func(context.Context) (string, error) {
				time.Sleep(20 * time.Millisecond)
				computed.Add(1)
				return "first", nil
			})
			if err != nil {
				t.Error(err)
			}
			return v
		}) {
			if v != "first" {
				t.Errorf("value %q", v)
			}
		}
		if n := computed.Load(); n != 1 {
			t.Errorf("computed %d times", n)
		}
		if ttl, _ := s.do("PTTL", "cache:prices").(int64); ttl <= 0 || ttl > (25*time.Hour).Milliseconds() {
			t.Errorf("TTL %d", ttl)
		}

		age := func() {
			bucket := object.NewBucket(clients[0], "cache:prices", object.JSONCodec[Entry[string]]{})
			if err := bucket.Set(t.Context(), Entry[string]{Value: "first", Fresh: time.Now()}, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		age()
		if v, err := get(0, func(context.Context) (string, error) { return "", errors.New("failed") }); v != "first" || err != nil {
			t.Errorf("while it cannot be computed: %q, %v", v, err)
		}
		computing, finish, ended := make(chan bool), make(chan bool), make(chan string, 1)
		go func() {
			v, err := get(0, func(context.Context) (string, error) {
				computing <- true
				<-finish
				return "second", nil
			})
			if err != nil {
				t.Error(err)
			}
			ended <- v
		}()
		receive(t, computing)
		fail := func(context.Context) (string, error) {
			t.Error("computed twice")
			return "", nil
		}
		began := time.Now()
		for i := range 4 {
			if v, err := get(i, fail); v != "first" || err != nil {
				t.Errorf("in the meantime: %q, %v", v, err)
			}
		}
		if waited := time.Since(began); s.memory && waited > 0 {
			t.Errorf("the old value took %v", waited)
		}
		close(finish)
		if v := receive(t, ended); v != "second" {
			t.Errorf("the new value is %q", v)
		}
		if v, err := get(1, fail); v != "second" || err != nil {
			t.Errorf("afterwards: %q, %v", v, err)
		}
	})
}

// Without an old value, a failure is returned, and the next call computes again.
func TestCacheFails(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, failed := s.newClient(), errors.New("failed")
		for range 2 {
			if _, err := cached(t.Context(), client, "prices", time.Hour, time.Hour, func(context.Context) (int, error) { return 0, failed }); !errors.Is(err, failed) {
				t.Error(err)
			}
		}
	})
}
