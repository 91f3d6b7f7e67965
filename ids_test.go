package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestIDGenerator(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	ctx, c := t.Context(), open(t, s.URL())
	draw := func(g *holdfast.IDGenerator, want int64) {
		t.Helper()
		if id := must[int64](t)(g.Next(ctx)); id != want {
			t.Fatalf("id %d, want %d", id, want)
		}
	}
	a, b := c.IDGenerator("a"), c.IDGenerator("a")
	draw(a, 1)
	draw(b, 5001)
	draw(a, 2)
	want(t, false)(a.TryInit(ctx, 1, 1))
	if got := fmt.Sprint(s.Do(t, "GET", "a"), "+", s.Do(t, "GET", "{a}:allocation")); got != "10001+5000" {
		t.Errorf("the server has %s", got)
	}
	g := c.IDGenerator("g")
	want(t, true)(g.TryInit(ctx, -1, 2))
	want(t, false)(c.IDGenerator("g").TryInit(ctx, 100, 2))
	for i := range int64(10) {
		draw(g, i-1)
	}
	top := c.IDGenerator("top")
	want(t, true)(top.TryInit(ctx, math.MaxInt64-3, 2))
	draw(top, math.MaxInt64-3)
	draw(top, math.MaxInt64-2)
	for range 3 {
		if _, err := top.Next(ctx); !errors.Is(err, holdfast.ErrRefused) {
			t.Fatalf("no number is left: %v", err)
		}
	}
	s.Do(t, "HSET", "hash", "a", "1")
	if _, err := c.IDGenerator("hash").Next(ctx); !errors.Is(err, holdfast.ErrRefused) {
		t.Errorf("another type: %v", err)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	draw(a, 3)
	if id, err := a.Next(done); id != 4 || err != nil {
		t.Errorf("an id at hand, for a context that is done: %d, %v", id, err)
	}
	if _, err := c.IDGenerator("new").Next(done); !errors.Is(err, context.Canceled) {
		t.Errorf("no id at hand, for a context that is done: %v", err)
	}
	_ = c.Close()
	if _, err := a.Next(ctx); !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// A block is fetched by one of those who want it. The others wait with their own
// contexts, and that of the one who fetches does not end their wait.
func TestIDFetchIsShared(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := open(t, p.URL()+"?timeout=30s")
	must[int64](t)(c.IDGenerator("warm-up").Next(t.Context()))
	g := c.IDGenerator("g")
	p.ResetCounts()
	arrived, letGo := p.HoldReply(redistest.Command("EVALSHA"))
	type result struct {
		id  int64
		err error
	}
	start := func(ctx context.Context) <-chan result {
		ch := make(chan result, 1)
		go func() {
			id, err := g.Next(ctx)
			ch <- result{id, err}
		}()
		return ch
	}
	fetching, giveUp := context.WithCancel(t.Context())
	first := start(fetching)
	<-arrived
	var others []<-chan result
	for range 20 {
		others = append(others, start(t.Context()))
	}
	leaving, leave := context.WithCancel(t.Context())
	second := start(leaving)
	leave()
	if r := <-second; !errors.Is(r.err, context.Canceled) {
		t.Errorf("one who has waited: %v", r.err)
	}
	if n := p.Count("EVALSHA"); n != 1 {
		t.Errorf("%d requests for one block", n)
	}
	time.Sleep(1200 * time.Millisecond) // longer than a server is tried
	giveUp()
	if r := <-first; !errors.Is(r.err, context.Canceled) {
		t.Errorf("the one who has fetched: %v", r.err)
	}
	letGo()
	seen := make(map[int64]bool)
	for _, ch := range others {
		r := <-ch
		if r.err != nil || seen[r.id] {
			t.Fatalf("one of those who have waited: %d, %v", r.id, r.err)
		}
		seen[r.id] = true
	}
	if n := p.Count("EVALSHA"); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

// Many who wait for a server that is gone do not try one after the other.
func TestIDFetchFails(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	g := open(t, p.URL()).IDGenerator("g")
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
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	p.Refuse(false)
	must[int64](t)(g.Next(t.Context()))
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
		g := open(t, s.URL()).IDGenerator("g")
		_ = must[bool](t)(g.TryInit(ctx, 1, 10))
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
		eventually(t, 20*time.Second, "500 ids more", func() bool {
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

// A generator that outlives the memory of its server repeats nothing of its own,
// and lifts the counter for others.
func TestIDsOfSurvivor(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL())
	g := c.IDGenerator("g")
	var last int64
	for range 3 {
		for range 12_000 {
			id := must[int64](t)(g.Next(t.Context()))
			if id <= last {
				t.Fatalf("%d after %d", id, last)
			}
			last = id
		}
		s.Restart()
	}
	for last%5000 != 0 { // to the end of the block
		last = must[int64](t)(g.Next(t.Context()))
	}
	must[int64](t)(g.Next(t.Context()))
	if id := must[int64](t)(c.IDGenerator("g").Next(t.Context())); id <= last {
		t.Errorf("another generator begins at %d, below %d", id, last)
	}
}

func TestTimeID(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	ctx, c := t.Context(), open(t, s.URL())
	ids := c.TimeID("t")
	before := time.Now().Truncate(time.Second)
	id := must[int64](t)(ids.Next(ctx))
	at, seq := holdfast.ParseTimeID(id)
	if after := time.Now().Add(time.Second); at.Before(before) || at.After(after) || seq < 1 || seq > 1e9 {
		t.Errorf("an id of %v and %d, drawn between %v and %v", at, seq, before, after)
	}
	if at, seq := holdfast.ParseTimeID(1<<32 | 7); at != time.Date(2022, 1, 1, 0, 0, 1, 0, time.UTC) || seq != 7 {
		t.Errorf("parsed as %v and %d", at, seq)
	}
	many := must[[]int64](t)(ids.NextN(ctx, 1000))
	if later, n := holdfast.ParseTimeID(many[0]); many[0] <= id || n != seq+1 && later.Day() == at.Day() {
		t.Errorf("id %d after %d", many[0], id)
	}
	for i, next := range many {
		if next != many[0]+int64(i) {
			t.Fatalf("id %d at %d after %d", next, i, many[0])
		}
	}
	if ttl := s.Int(t, "TTL", "t"); ttl < 47*3600 || ttl > 48*3600 {
		t.Errorf("idle for %d s at most", ttl)
	}
	// The clock was ahead, or is set back: the time stands still.
	ahead := time.Now().Add(time.Hour).Unix() - 1640995200
	s.Do(t, "HSET", "t", "sec", fmt.Sprint(ahead), "seq", "4294967290")
	for i := range int64(5) {
		if id := must[int64](t)(ids.Next(ctx)); id != ahead<<32|(4294967291+i) {
			t.Errorf("id %d, want %d", id, ahead<<32|(4294967291+i))
		}
	}
	_, err := ids.Next(ctx)
	if !errors.Is(err, holdfast.ErrRefused) {
		t.Errorf("no number is left: %v", err)
	}
	t.Log(err)
	// A TimeID does not go below what it has given out.
	s.Do(t, "DEL", "t")
	if _, err := ids.Next(ctx); !errors.Is(err, holdfast.ErrRefused) {
		t.Errorf("no number is left: %v", err)
	}
}

// A server that forgets everything, again and again within a second, gives out
// nothing twice, and nothing below what it gave out before.
func TestTimeIDsForgotten(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL())
	var last int64
	draw := func(n int) {
		t.Helper()
		ids := must[[]int64](t)(c.TimeID("t").NextN(t.Context(), n)) // a new one each time: it knows nothing
		if ids[0] <= last {
			t.Fatalf("%d after %d", ids[0], last)
		}
		last = ids[n-1]
	}
	lost := 0
	for end := time.Now().Add(3500 * time.Millisecond); lost < 100 || time.Now().Before(end); lost++ {
		for range lost % 4 {
			draw(1)
		}
		draw(1000)
		s.Do(t, "FLUSHALL")
	}
	for range 3 {
		draw(1000)
		s.Restart()
		draw(1)
		s.Restart()
		lost += 2
	}
	t.Logf("lost %d times", lost)
}

// The same with many who draw at full speed.
func TestTimeIDsForgottenByMany(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rows := make([][][2]int64, 16)
	var wg sync.WaitGroup
	for i := range rows {
		c := open(t, s.URL())
		wg.Go(func() {
			for ctx.Err() == nil {
				ids, err := c.TimeID("t").NextN(context.Background(), 1000)
				if err != nil {
					t.Error(err)
					return
				}
				rows[i] = append(rows[i], [2]int64{ids[0], int64(len(ids))})
			}
		})
	}
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		s.Do(t, "FLUSHALL")
	}
	cancel()
	wg.Wait()
	all := slices.Concat(rows...)
	slices.SortFunc(all, func(a, b [2]int64) int { return int(a[0] - b[0]) })
	for i := 1; i < len(all); i++ {
		if all[i][0] < all[i-1][0]+all[i-1][1] {
			t.Fatalf("%v and %v overlap", all[i-1], all[i])
		}
	}
	t.Logf("%d rows of 1000 ids", len(all))
}
