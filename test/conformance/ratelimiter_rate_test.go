package conformance_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A permitUse is what one call has taken of a rate limiter. Times are those of
// redistest.Now.
type permitUse struct {
	ID        string // of the entry in the log
	Permits   int
	Sent      int64         // the request
	After     time.Duration // when they may be used, as the server has said
	Used      int64         // when the caller was told that they may be, or 0
	Cancelled bool          // and the server has agreed
}

// entry returns the entry in the log of a limiter.
func (u permitUse) entry() string {
	id, _ := hex.DecodeString(u.ID)
	return string(binary.LittleEndian.AppendUint32(append([]byte{byte(len(id))}, id...), uint32(u.Permits)))
}

// A permitSpy is a driver that notes what a call takes in the permitUse that
// the context of the call carries, and refuses to send times.
type permitSpy struct{ driver.Driver }

type spyKey struct{}

func (p permitSpy) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	if err := checkTimeless(c); err != nil {
		return driver.Reply{}, &driver.Error{Class: driver.Fatal, Err: err}
	}
	sent := redistest.Now()
	r, err := p.Driver.Do(ctx, c)
	u, ok := ctx.Value(spyKey{}).(*permitUse)
	switch {
	case err != nil || !ok:
	case c.Script.Name == "ratelimiter_take":
		ms, taken := int64(0), true
		if r.Type == driver.List {
			ms, taken = r.List[1].Int, r.List[0].Int == 1
		}
		if n, _ := strconv.Atoi(c.Args[0]); taken {
			*u = permitUse{ID: hex.EncodeToString([]byte(c.Args[1])), Permits: n, Sent: sent, After: time.Duration(ms) * time.Millisecond}
		}
	case c.Script.Name == "ratelimiter_cancel":
		u.Cancelled = r.Int == 1
	}
	return r, err
}

// checkTimeless says which argument of a call could be a time of day. Those of
// a rate limiter are numbers of permits, lengths of time, a word, and ids of 16
// bytes, which are hashes of a name; the time now is above 1.7e9 in any unit.
func checkTimeless(c driver.Call) error {
	for i, arg := range c.Args {
		if n, err := strconv.ParseFloat(arg, 64); err == nil && n > 1e9 {
			return fmt.Errorf("argument %d of %s is %s, which may be a time", i+1, c.Script.Name, arg)
		}
		if len(arg) > 10 && len(arg) != 16 {
			return fmt.Errorf("argument %d of %s is %q, which may hold a time", i+1, c.Script.Name, arg)
		}
	}
	return nil
}

func openSpy(url string) (*holdfast.Client, error) {
	config, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	d, err := rueidis.Open(context.Background(), config)
	if err != nil {
		return nil, err
	}
	return holdfast.New(permitSpy{d}, nil)
}

// A ledger knows from the log of the server when permits may be used.
type ledger struct {
	name  string
	log   string
	value string
	at    map[string]int64 // ms of the server, by entry, in the form of redistest.Printed
	close func()           // stop, after everything that the server has done was noted
}

// newLedger notes every entry that the server adds to the log of a limiter.
func newLedger(t *testing.T, s *redistest.Server, l *holdfast.RateLimiter) *ledger {
	t.Helper()
	g := &ledger{name: l.Name(), log: "{" + l.Name() + "}:permits", value: "{" + l.Name() + "}:value", at: make(map[string]int64)}
	g.close = s.Monitor(t, func(command string) {
		rest, ok := strings.CutPrefix(command, redistest.Printed("zadd", g.log)+" ")
		if !ok {
			return
		}
		rest, nx := strings.CutPrefix(rest, "nx ")
		score, entry, _ := strings.Cut(rest, " ")
		at, err := strconv.ParseInt(score, 10, 64)
		if err != nil {
			t.Errorf("entry %q at %q: %v", entry, score, err)
		}
		if _, ok := g.at[entry]; !ok || !nx {
			g.at[entry] = at
		}
	})
	return g
}

// A mark is permits that may be used from a time on.
type mark struct {
	at      int64 // ms of the server
	permits int
}

// marks returns what was used by the times in the ledger, in order.
func (g *ledger) marks(t *testing.T, uses []permitUse) []mark {
	t.Helper()
	var ms []mark
	for _, u := range uses {
		at, ok := g.at[redistest.Printed(u.entry())]
		switch {
		case u.Cancelled:
			continue
		case !ok:
			t.Errorf("%d permits were taken, but entry %s was never added", u.Permits, u.ID)
		case time.Duration(u.Used-u.Sent) < u.After:
			t.Errorf("%d permits were used %v after they were asked for, and may be after %v", u.Permits, time.Duration(u.Used-u.Sent), u.After)
		}
		ms = append(ms, mark{at, u.Permits})
	}
	slices.SortFunc(ms, func(a, b mark) int { return cmp.Compare(a.at, b.at) })
	return ms
}

// checkRate checks every span of the length of the interval: those that begin
// with a use are the fullest. Times are cut to whole ms, so two that differ by
// the interval may be less than that apart.
func checkRate(t *testing.T, ms []mark, rate holdfast.Rate) {
	t.Helper()
	sum, last := 0, 0
	for _, m := range ms {
		sum += m.permits
		for ; m.at-ms[last].at > rate.Per.Milliseconds(); last++ {
			sum -= ms[last].permits
		}
		if sum > rate.Permits {
			t.Fatalf("%d permits between %d and %d, of %d", sum, ms[last].at, m.at, rate.Permits)
		}
	}
}

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
					continue // the machine stood still, and no permit was used
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

// usePermits mostly waits for permits. One time in ten it reserves some and cancels
// the reservation, at once or after later reservations of others.
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
// an interval they get more than the rate. While some are owed permits, they get
// nearly all of it.
func TestRateAcrossProcesses(t *testing.T) {
	t.Parallel()
	length := time.Minute
	if testing.Short() {
		length = 10 * time.Second
	}
	s := redistest.Start(t)
	rate := holdfast.Rate{Permits: 600, Per: 3 * time.Second}
	c, err := openSpy(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	l := c.RateLimiter(locktest.Name(t))
	locktest.SetRate(t, l, rate)
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
	// Use all permits of a first interval bit by bit, so that they do not become free
	// all at once, and the workers get reservations in the future.
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
	locktest.Eventually(t, time.Minute, "all want more than there is", func() bool { return s.Int(t, "GET", g.value) < -int64(rate.Permits)/3 })
	// An interval counts if permits were owed all the time. A busy machine may not ask for
	// more than there is. Each is a millisecond longer, since times are cut to whole ones.
	cycle, begin := rate.Per.Milliseconds()+1, locktest.ServerTime(t, s)
	owed := make([]bool, length.Milliseconds()/cycle)
	for i := range owed {
		owed[i] = true
	}
	for last := begin; last < begin+int64(len(owed))*cycle; time.Sleep(20 * time.Millisecond) {
		free, now := s.Int(t, "GET", g.value) >= 0, locktest.ServerTime(t, s)
		for i := range owed {
			if from := begin + int64(i)*cycle; (free || now-last > 500) && last < from+cycle && now >= from {
				owed[i] = false
			}
		}
		last = now
	}
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
	used, could, cancelled := 0, 0, 0
	for _, m := range ms {
		if i := (m.at - begin) / cycle; m.at >= begin && i < int64(len(owed)) && owed[i] {
			used += m.permits
		}
	}
	for _, o := range owed {
		if o {
			could += rate.Permits
		}
	}
	for _, u := range uses {
		if u.Cancelled {
			cancelled += u.Permits
		}
	}
	t.Logf("%d calls, %d permits used of %d (%.2f %%), %d cancelled", len(uses), used, could, 100*float64(used)/float64(could), cancelled)
	// A reservation that is cancelled late, on a busy machine, leaves permits that no call can use.
	if used < (could-cancelled)*95/100 {
		t.Errorf("only %d permits were used, of %d", used, could)
	}
	if cancelled < used/100 {
		t.Errorf("only %d permits were cancelled, of %d", cancelled, used)
	}
}

// Other clients write the time of their own clocks, which may be wrong. Ours
// grant no more than the rate nevertheless. (Nothing helps against a client whose
// clock is ahead: it takes entries of the log for expired, and deletes them.)
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
			rate := holdfast.Rate{Permits: 100, Per: 3 * time.Second}
			c, err := openSpy(s.URL())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			l := c.RateLimiter(locktest.Name(t))
			locktest.SetRate(t, l, rate)
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
						} else if err != nil && ctx.Err() == nil && !locktest.TimedOut(err) {
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
		return 1`, "3", g.value, g.log, g.name, fmt.Sprint(locktest.ServerTime(t, s)+skew.Milliseconds()), string(id))
	if err != nil {
		t.Error(err)
	}
	got, _ := n.(int64)
	return int(got)
}
