package faults_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/object"
)

// Many add, with connections cut again and again: each addition counts once.
func TestAtomicLongCounts(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := locktest.Open(t, p.URL())
	var mu sync.Mutex
	var added, unknown int64
	enough := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return added >= 100
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				_, err := object.NewAtomicLong(c, "n").Add(t.Context(), 1)
				mu.Lock()
				if err == nil {
					added++
				} else {
					unknown++
				}
				mu.Unlock()
			}
		})
	}
	locktest.Repeat(20*time.Millisecond, 20*time.Millisecond, longEnough(2*time.Second, enough), func(int) { p.Cut() })
	cancel()
	wg.Wait()
	if n := s.Int(t, "GET", "n"); n < added || n > added+unknown || added < 100 {
		t.Errorf("the number is %d after %d additions and %d of unknown fate", n, added, unknown)
	}
	t.Logf("%d additions, %d of unknown fate", added, unknown)
}

// A reply is lost and the request sent again: it is done once, and its answer
// is the first.
func TestValueReplyLost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	stalls := redistest.MeterStalls(t, s)
	ctx, c := t.Context(), locktest.Open(t, p.URL())
	n, b, g := object.NewAtomicLong(c, "n"), object.NewBucket(c, "b", object.StringCodec{}), object.NewIDGenerator(c, "g")
	text := func(v string, ok bool, err error) (any, error) {
		if !ok {
			return nil, err
		}
		return v, err
	}
	for _, test := range []struct {
		what  string
		given []string
		do    func() (any, error)
		want  any
		key   string
		left  any
	}{
		{"add", []string{"SET", "n", "5"}, func() (any, error) { return n.Add(ctx, 2) }, int64(7), "n", "7"},
		{"swap number", []string{"SET", "n", "5"}, func() (any, error) { return n.Swap(ctx, 2) }, int64(5), "n", "2"},
		{"compare number", []string{"SET", "n", "5"}, func() (any, error) { return n.CompareAndSwap(ctx, 5, 2) }, true, "n", "2"},
		{"delete number", []string{"SET", "n", "5"}, func() (any, error) { return n.LoadAndDelete(ctx) }, int64(5), "n", nil},
		{"if absent", []string{"DEL", "b"}, func() (any, error) { return b.SetIfAbsent(ctx, "x", 0) }, true, "b", "x"},
		{"if exists", []string{"SET", "b", "y"}, func() (any, error) { return b.SetIfExists(ctx, "x", 0) }, true, "b", "x"},
		{"swap", []string{"SET", "b", "y"}, func() (any, error) { return text(b.Swap(ctx, "x", 0)) }, "y", "b", "x"},
		{"delete", []string{"SET", "b", "y"}, func() (any, error) { return text(b.GetAndDelete(ctx)) }, "y", "b", nil},
		{"compare", []string{"SET", "b", "y"}, func() (any, error) { return b.CompareAndSwap(ctx, "y", "x") }, true, "b", "x"},
		{"compare and delete", []string{"SET", "b", "y"}, func() (any, error) { return b.CompareAndDelete(ctx, "y") }, true, "b", nil},
		{"init", []string{"DEL", "g"}, func() (any, error) { return g.TryInit(ctx, 9, 10) }, true, "g", "9"},
	} {
		// Once without a fault, so that the server knows the script.
		s.Do(t, test.given...)
		if got, err := test.do(); got != test.want || err != nil {
			t.Errorf("%s: %v, %v, want %v", test.what, got, err, test.want)
		}
		s.Do(t, "DEL", "n", "b", "g", "{g}:allocation")
		s.Do(t, test.given...)
		p.ResetCounts()
		dropped := p.DropReply(1, redistest.Command("EVALSHA"))
		start := time.Now()
		got, err := test.do()
		<-dropped
		if locktest.StoodStill(stalls, err, start) {
			continue
		}
		if got != test.want || err != nil || p.Count("EVALSHA") < 2 {
			t.Errorf("%s: %v, %v after %d requests, want %v", test.what, got, err, p.Count("EVALSHA"), test.want)
		}
		if left := s.Do(t, "GET", test.key); left != test.left {
			t.Errorf("%s: the server has %v, want %v", test.what, left, test.left)
		}
	}
}
