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
			locktest.Work(rand.N(20 * time.Millisecond))
		}
	default:
		var r *holdfast.Reservation
		if r, err = l.Reserve(ctx); err != nil {
			break
		}
		if n < 90 {
			locktest.Work(r.Delay())
			break
		}
		if n < 95 {
			locktest.Work(rand.N(50 * time.Millisecond))
		}
		if err := r.Cancel(ctx); err != nil {
			return u, err
		}
		if !u.Cancelled {
			locktest.Work(r.Delay())
		}
	}
	u.Used = redistest.Now()
	return u, err
}

// Eight processes want more permits than there are. In no span of an interval they get more
// than the rate. (TestRateUnderLoad of holdfasttest tests that they get nearly all of it.)
func TestRateAcrossProcesses(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rate := holdfast.Rate{Permits: 300, Per: time.Second}
	c, err := openSpy(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	l := c.RateLimiter(locktest.Name(t))
	locktest.SetRate(t, l, rate)
	var (
		mu     sync.Mutex
		uses   []permitUse
		used   int
		enough = make(chan struct{})
		ws     []*redistest.Process
		read   sync.WaitGroup
	)
	add := func(u permitUse) {
		mu.Lock()
		defer mu.Unlock()
		uses = append(uses, u)
		if before := used; !u.Cancelled {
			if used += u.Permits; before < 6*rate.Permits && used >= 6*rate.Permits {
				close(enough)
			}
		}
	}
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
				add(u)
			}
		})
	}
	g := newLedger(t, s, l)
	for _, w := range ws {
		w.Send("go")
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		read.Wait()
	}()
	select {
	case <-enough:
	case <-ended: // with errors
	}
	for _, w := range ws {
		w.Send("stop")
	}
	for _, w := range ws {
		if err := w.Wait(); err != nil {
			t.Error(err)
		}
	}
	<-ended
	g.close()
	t.Logf("%d calls used %d permits", len(uses), used)
	checkRate(t, g.marks(t, uses), rate)
}
