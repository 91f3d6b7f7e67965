package holdfast_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func init() { workers["permits"] = permitsWorker }

// permitsWorker has goroutines that use permits, in every way there is, from
// the first line that it reads to the second. It writes down what each has used.
func permitsWorker() {
	c, err := openSpy(os.Getenv("TEST_URL"))
	if err != nil {
		panic(err)
	}
	l := c.RateLimiter(os.Getenv("TEST_NAME"))
	if _, err := l.Rate(context.Background()); err != nil { // connected
		panic(err)
	}
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	in.Scan()
	done := make(chan struct{})
	go func() {
		defer close(done)
		in.Scan()
	}()
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				u, err := usePermits(l)
				if errors.Is(err, holdfast.ErrUnavailable) {
					continue // the machine stood still, and nobody has used anything
				}
				if err != nil {
					panic(err)
				}
				if u.ID != "" {
					mu.Lock()
					err = out.Encode(u)
					mu.Unlock()
				}
				if err != nil {
					panic(err)
				}
			}
		})
	}
	wg.Wait()
}

// usePermits waits for permits, mostly; one time in ten it takes some ahead of
// time and changes its mind, at once or when others have come after.
func usePermits(l *holdfast.RateLimiter) (u permitUse, err error) {
	ctx := context.WithValue(context.Background(), spyKey{}, &u)
	switch n := rand.IntN(100); {
	case n < 35:
		err = l.Wait(ctx)
	case n < 75:
		err = l.WaitN(ctx, 2+rand.IntN(4))
	case n < 85:
		var ok bool
		for range 10 {
			if ok, err = l.Allow(ctx); ok || err != nil {
				break
			}
			time.Sleep(rand.N(20 * time.Millisecond))
		}
	default:
		var r *holdfast.Reservation
		if r, err = l.Reserve(ctx); err != nil {
			break
		}
		if n < 90 {
			time.Sleep(r.Delay())
			break
		}
		if n < 95 {
			time.Sleep(rand.N(50 * time.Millisecond))
		}
		if err := r.Cancel(ctx); err != nil {
			return u, err
		}
		if !u.Cancelled {
			time.Sleep(r.Delay())
		}
	}
	u.Used = redistest.Now()
	return u, err
}

// Eight processes want more permits than there are, for a minute. In no span of
// an interval they get more than the rate, and over the whole time nearly all
// of it.
func TestRateAcrossProcesses(t *testing.T) {
	t.Parallel()
	length := time.Minute
	if testing.Short() {
		length = 10 * time.Second
	}
	s := redistest.Start(t)
	rate := holdfast.Rate{Permits: 600, Per: 3 * time.Second} // for so long the ledger may look away
	c, err := openSpy(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	l := c.RateLimiter(name(t))
	setRate(t, l, rate)
	var (
		mu   sync.Mutex
		uses []permitUse
		ws   []*redistest.Process
		read sync.WaitGroup
	)
	for range 8 {
		w := redistest.Worker(t, "permits", "TEST_URL="+s.URL(), "TEST_NAME="+l.Name())
		ws = append(ws, w)
		<-w.Lines()
		read.Go(func() {
			for line := range w.Lines() {
				var u permitUse
				if err := json.Unmarshal([]byte(line), &u); err != nil {
					t.Errorf("%q: %v", line, err)
				}
				mu.Lock()
				uses = append(uses, u)
				mu.Unlock()
			}
		})
	}
	g := newLedger(t, s, l)
	// Use all of a first interval bit by bit, so that they do not come back all
	// at once, and whatever the workers do lies ahead.
	for range 20 {
		var u permitUse
		ctx := context.WithValue(t.Context(), spyKey{}, &u)
		if ok, err := l.AllowN(ctx, rate.Permits/20); !ok || err != nil {
			t.Fatal(ok, err)
		}
		u.Used = redistest.Now()
		mu.Lock()
		uses = append(uses, u)
		mu.Unlock()
		time.Sleep(rate.Per / 25)
	}
	for _, w := range ws {
		w.Send("go")
	}
	eventually(t, time.Minute, "all want more than there is", func() bool { return s.Int(t, "GET", g.value) < -int64(rate.Permits)/3 })
	begin := serverTime(t, s)
	time.Sleep(length)
	end := serverTime(t, s)
	for _, w := range ws {
		w.Send("stop")
	}
	for _, w := range ws {
		if err := w.Wait(); err != nil {
			t.Error(err)
		}
	}
	read.Wait()
	g.close()

	ms := g.marks(t, uses)
	checkRate(t, ms, rate)
	// So many intervals have passed that were open to use, each a millisecond
	// longer, since times are cut to whole ones.
	cycle := rate.Per.Milliseconds() + 1
	cycles := (end - begin) / cycle
	used, cancelled := 0, 0
	for _, m := range ms {
		if m.at >= begin && m.at < begin+cycles*cycle {
			used += m.permits
		}
	}
	for _, u := range uses {
		if u.Cancelled {
			cancelled += u.Permits
		}
	}
	could := rate.Permits * int(cycles)
	slices.Sort(g.free)
	t.Logf("%d calls, %d permits used of %d (%.2f %%), %d cancelled; free between %d and %d, mostly %d",
		len(uses), used, could, 100*float64(used)/float64(could), cancelled, g.free[0], g.free[len(g.free)-1], g.free[len(g.free)/2])
	if used < could*95/100 {
		t.Errorf("only %d permits were used, of %d", used, could)
	}
	if cancelled < used/100 {
		t.Errorf("only %d permits were cancelled, of %d", cancelled, used)
	}
}

// Other clients write the time of their own clocks, which may be wrong. Ours
// give no more than the rate all the same. (Against a client that takes what is
// in the log for over because its own clock is ahead, nothing helps: it deletes
// it.)
func TestRateBesideWrongClocks(t *testing.T) {
	t.Parallel()
	length := 9 * time.Second
	if testing.Short() {
		length = 6 * time.Second
	}
	for peer, test := range map[string]struct {
		skew time.Duration
		most int // so that something is left for ours
	}{
		"ahead":  {5 * time.Second, 40},
		"behind": {-5 * time.Second, 1 << 30},
	} {
		t.Run(peer, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			rate := holdfast.Rate{Permits: 100, Per: 3 * time.Second} // for so long the ledger may look away
			c, err := openSpy(s.URL())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			l := c.RateLimiter(name(t))
			setRate(t, l, rate)
			g := newLedger(t, s, l)
			ctx, cancel := context.WithTimeout(t.Context(), length)
			defer cancel()
			var wg sync.WaitGroup
			foreign := 0
			wg.Go(func() {
				for ; ctx.Err() == nil && foreign < test.most; time.Sleep(5 * time.Millisecond) {
					foreign += takeAsOther(t, s, g, test.skew)
				}
			})
			var mu sync.Mutex
			var uses []permitUse
			for i := range 16 {
				wg.Go(func() {
					for ctx.Err() == nil {
						var u permitUse
						ctx := context.WithValue(ctx, spyKey{}, &u)
						var ok bool
						var err error
						if i == 0 { // seldom, or the others would never find one that is free
							err = l.Wait(ctx)
							ok = err == nil
						} else {
							ok, err = l.Allow(ctx)
						}
						if u.Used = redistest.Now(); ok {
							mu.Lock()
							uses = append(uses, u)
							mu.Unlock()
						} else if err != nil && ctx.Err() == nil && !inVain(err) {
							t.Error(err)
						}
						time.Sleep(rand.N(100 * time.Millisecond))
					}
				})
			}
			wg.Wait()
			g.close()
			ms := g.marks(t, uses)
			checkRate(t, ms, rate)
			t.Logf("%d permits for us, %d for the other", len(ms), foreign)
			if len(ms) < rate.Permits || foreign < 10 {
				t.Errorf("%d permits for us, %d for the other: too few to mean anything", len(ms), foreign)
			}
		})
	}
}

// takeAsOther takes a permit as a client does that goes by its own clock, and
// returns how many it got.
func takeAsOther(t *testing.T, s *redistest.Server, g *ledger, skew time.Duration) int {
	id := make([]byte, 16)
	for i := range id {
		id[i] = byte(rand.IntN(256))
	}
	n, err := s.Try("EVAL", `redis.call('setnx', KEYS[1], redis.call('hget', KEYS[3], 'rate'))
		if tonumber(redis.call('get', KEYS[1])) < 1 then return 0 end
		redis.call('zadd', KEYS[2], ARGV[1], struct.pack('Bc0I', #ARGV[2], ARGV[2], 1))
		redis.call('decrby', KEYS[1], 1)
		return 1`, "3", g.value, g.log, g.name, fmt.Sprint(serverTime(t, s)+skew.Milliseconds()), string(id))
	if err != nil {
		t.Error(err)
	}
	got, _ := n.(int64)
	return int(got)
}
