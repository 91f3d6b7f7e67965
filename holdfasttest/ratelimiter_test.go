package holdfasttest_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// A rateLedger has the permits that may be used, by the ms from which on they may be.
type rateLedger struct {
	mu        sync.Mutex
	used      map[int64]int
	cancelled int
}

func (g *rateLedger) use(permits int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used[time.Now().UnixMilli()] += permits
}

// between returns how many permits were used from a time on, and before another.
func (g *rateLedger) between(from, to int64) (n int) {
	for at := from; at < to; at++ {
		n += g.used[at]
	}
	return n
}

// check checks every span of an interval that begins with a use: those are the fullest.
func (g *rateLedger) check(t *testing.T, rate holdfast.Rate) {
	t.Helper()
	for at := range g.used {
		if n := g.between(at, at+rate.Per.Milliseconds()+1); n > rate.Permits { // two of the same ms as the ends may be closer than the interval
			t.Fatalf("%d permits from %d on, of %d", n, at, rate.Permits)
		}
	}
}

// usePermits mostly waits for permits. One time in ten it reserves a permit and cancels the
// reservation, at once or after later reservations of others. All pauses are whole
// milliseconds, as the times of the server, so that both agree on whether a time has come.
func usePermits(ctx context.Context, l *holdfast.RateLimiter, g *rateLedger) error {
	pause := func(most int) { time.Sleep(time.Duration(rand.IntN(most)) * time.Millisecond) }
	switch n := rand.IntN(100); {
	case n < 35:
		if err := l.Wait(ctx); err != nil {
			return err
		}
		g.use(1)
	case n < 75:
		permits := 2 + rand.IntN(4)
		if err := l.WaitN(ctx, permits); err != nil {
			return err
		}
		g.use(permits)
	case n < 85:
		for range 10 {
			ok, err := l.Allow(ctx)
			if err != nil {
				return err
			}
			if ok {
				g.use(1)
				break
			}
			pause(20)
		}
	default:
		r, err := l.Reserve(ctx)
		if err != nil {
			return err
		}
		if n >= 90 {
			if n < 95 {
				pause(50)
			}
			early := r.Delay() > 0
			if err := r.Cancel(ctx); err != nil {
				return err
			}
			if early {
				g.mu.Lock()
				g.cancelled++
				g.mu.Unlock()
				return nil
			}
		}
		time.Sleep(r.Delay())
		g.use(1)
	}
	return nil
}

// Eight clients want more permits than there are, for a minute. In no span of an interval they
// get more than the rate, and they get nearly all of it.
func TestRateUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.NewServer(t)
		rate := holdfast.Rate{Permits: 100, Per: 3 * time.Second}
		first := s.NewClient(nil).RateLimiter("x")
		if err := first.SetRate(t.Context(), rate); err != nil {
			t.Fatal(err)
		}
		g := &rateLedger{used: make(map[int64]int)}
		// Use all permits of a first interval bit by bit, so that they do not become free all at
		// once, and the others get reservations in the future.
		for range 20 {
			if ok, err := first.AllowN(t.Context(), rate.Permits/20); !ok || err != nil {
				t.Fatal(ok, err)
			}
			g.use(rate.Permits / 20)
			time.Sleep(rate.Per / 25)
		}
		cycle := rate.Per.Milliseconds() + 1
		begin := time.Now().Add(rate.Per).UnixMilli()
		end := begin + 20*cycle
		var wg sync.WaitGroup
		for range 8 {
			l := s.NewClient(nil).RateLimiter("x")
			for range 8 {
				wg.Go(func() {
					for time.Now().UnixMilli() < end {
						if err := usePermits(t.Context(), l, g); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
		}
		wg.Wait()
		g.check(t, rate)
		used, could := g.between(begin, end), 20*rate.Permits
		t.Logf("%d permits used of %d (%.2f %%), %d cancelled", used, could, 100*float64(used)/float64(could), g.cancelled)
		// A cancelled reservation may leave a permit that no call can use.
		if used < (could-g.cancelled)*95/100 {
			t.Errorf("only %d permits were used, of %d", used, could)
		}
		if g.cancelled < used/100 {
			t.Errorf("only %d permits were cancelled, beside %d that were used", g.cancelled, used)
		}
	})
}

// Other clients write the time of their own clocks, which may be wrong. Ours
// grant no more than the rate nevertheless. (Nothing helps against a client whose
// clock is ahead: it takes entries of the log for expired, and deletes them.)
func TestRateBesideWrongClocks(t *testing.T) {
	for peer, test := range map[string]struct {
		skew time.Duration
		most int // so that something is left for ours
	}{
		"ahead":  {5 * time.Second, 40},
		"behind": {-5 * time.Second, 1 << 30},
	} {
		t.Run(peer, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := holdfasttest.NewServer(t)
				l := s.NewClient(nil).RateLimiter("x")
				rate := holdfast.Rate{Permits: 100, Per: 3 * time.Second}
				if err := l.SetRate(t.Context(), rate); err != nil {
					t.Fatal(err)
				}
				g := &rateLedger{used: make(map[int64]int)}
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				var wg sync.WaitGroup
				foreign := 0
				wg.Go(func() {
					for ; ctx.Err() == nil && foreign < test.most; time.Sleep(5 * time.Millisecond) {
						foreign += takeAsOther(s, foreign, test.skew)
					}
				})
				for i := range 16 {
					wg.Go(func() {
						for ctx.Err() == nil {
							var ok bool
							var err error
							if i == 0 { // seldom, or the others would never find one that is free
								err = l.Wait(ctx)
								ok = err == nil
							} else {
								ok, err = l.Allow(ctx)
							}
							if ok {
								g.use(1)
							} else if err != nil && ctx.Err() == nil && !errors.Is(err, holdfast.ErrNotAcquired) {
								t.Error(err)
							}
							time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
						}
					})
				}
				wg.Wait()
				g.check(t, rate)
				ours := 0
				for _, n := range g.used {
					ours += n
				}
				t.Logf("%d permits for us, %d for the other", ours, foreign)
				if ours < rate.Permits || foreign < 10 {
					t.Errorf("%d permits for us, %d for the other: too few to mean anything", ours, foreign)
				}
			})
		})
	}
}

// takeAsOther takes a permit as a client does that goes by its own clock, and
// returns how many it got.
func takeAsOther(s *holdfasttest.Server, number int, skew time.Duration) int {
	s.Do("SETNX", "{x}:value", "100")
	if free, _ := s.Do("GET", "{x}:value").(string); free == "0" || free[0] == '-' {
		return 0
	}
	entry := binary.LittleEndian.AppendUint32(fmt.Appendf([]byte{16}, "%016d", number), 1)
	s.Do("ZADD", "{x}:permits", fmt.Sprint(time.Now().Add(skew).UnixMilli()), string(entry))
	s.Do("DECRBY", "{x}:value", "1")
	return 1
}
