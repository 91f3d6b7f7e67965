package holdfast_test

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
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
	case c.Script.Name == "ratelimiter_take" && r.List[0].Int == 1:
		n, _ := strconv.Atoi(c.Args[0])
		*u = permitUse{ID: hex.EncodeToString([]byte(c.Args[1])), Permits: n, Sent: sent, After: time.Duration(r.List[1].Int) * time.Millisecond}
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
	return holdfast.New(permitSpy{d}, holdfast.Options{})
}

// A ledger knows by the log of the server when permits may be used.
type ledger struct {
	s     *redistest.Server
	name  string
	log   string
	value string
	at    map[string]int64 // ms of the server, by id
	free  []int            // how many were, whenever it looked
	close func()           // look once more, and no more
}

// newLedger reads the log of a limiter again and again. An entry stays there
// for an interval and longer, so that none escapes.
func newLedger(t *testing.T, s *redistest.Server, l *holdfast.RateLimiter) *ledger {
	g := &ledger{s: s, name: l.Name(), log: "{" + l.Name() + "}:permits", value: "{" + l.Name() + "}:value", at: make(map[string]int64)}
	stop, done := make(chan struct{}), make(chan struct{})
	g.close = sync.OnceFunc(func() {
		close(stop)
		<-done
	})
	t.Cleanup(g.close)
	go func() {
		defer close(done)
		for {
			g.look(t)
			select {
			case <-stop:
				g.look(t)
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return g
}

func (g *ledger) look(t *testing.T) {
	reply, err := g.s.Try("ZRANGE", g.log, "0", "-1", "WITHSCORES")
	list, ok := reply.([]any)
	if err != nil || !ok {
		t.Error(reply, err)
		return
	}
	for i := 0; i < len(list); i += 2 {
		entry, _ := list[i].(string)
		score, _ := list[i+1].(string)
		at, err := strconv.ParseInt(score, 10, 64)
		if len(entry) != 21 || err != nil {
			t.Errorf("entry %q at %q: %v", entry, score, err)
			continue
		}
		g.at[hex.EncodeToString([]byte(entry[1:17]))] = at
	}
	if text, err := g.s.Try("GET", g.value); err == nil {
		free, _ := strconv.Atoi(fmt.Sprint(text))
		g.free = append(g.free, free)
	}
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
		at, ok := g.at[u.ID]
		switch {
		case u.Cancelled:
			continue
		case !ok:
			t.Errorf("%d permits were taken, but nobody saw entry %s", u.Permits, u.ID)
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

func serverTime(tb testing.TB, s *redistest.Server) int64 {
	tb.Helper()
	clock := s.Strings(tb, "TIME")
	sec, err1 := strconv.ParseInt(clock[0], 10, 64)
	usec, err2 := strconv.ParseInt(clock[1], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		tb.Fatal(err)
	}
	return sec*1000 + usec/1000
}

// A limiterRig is a rate limiter of a client whose replies can be lost, and an
// undisturbed look at the server.
type limiterRig struct {
	s *redistest.Server
	p *redistest.Proxy
	c *holdfast.Client
	l *holdfast.RateLimiter
}

// newLimiterRig returns a rig whose server knows the scripts, and of which
// nothing is taken.
func newLimiterRig(t *testing.T, rate holdfast.Rate, o ...holdfast.Options) *limiterRig {
	t.Helper()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := open(t, p.URL(), o...)
	r := &limiterRig{s, p, c, c.RateLimiter("rig")}
	setRate(t, r.l, rate)
	if err := r.l.WaitN(t.Context(), rate.Permits); err != nil {
		t.Fatal(err)
	}
	if err := reserve(t, r.l, 1).Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.l.Release(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	setRate(t, r.l, rate)
	return r
}

func setRate(tb testing.TB, l *holdfast.RateLimiter, rate holdfast.Rate) {
	tb.Helper()
	if err := l.SetRate(context.Background(), rate); err != nil {
		tb.Fatal(err)
	}
}

func reserve(tb testing.TB, l *holdfast.RateLimiter, n int) *holdfast.Reservation {
	tb.Helper()
	r, err := l.ReserveN(context.Background(), n)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// allow checks whether n permits can be had now.
func allow(tb testing.TB, l *holdfast.RateLimiter, n int, want bool) {
	tb.Helper()
	if ok, err := l.AllowN(context.Background(), n); ok != want || err != nil {
		tb.Errorf("AllowN(%d): %v, %v, want %v", n, ok, err, want)
	}
}

// has checks how many permits are free at the server, less than zero if some
// are taken ahead, and how many entries the log has.
func (r *limiterRig) has(t *testing.T, free, entries int64) {
	t.Helper()
	if f, n := r.s.Int(t, "GET", "{rig}:value"), r.s.Int(t, "ZCARD", "{rig}:permits"); f != free || n != entries {
		t.Errorf("%d permits are free after %d entries, want %d after %d", f, n, free, entries)
	}
}

// gets waits until the server has so many free permits.
func (r *limiterRig) gets(t *testing.T, free int64) {
	t.Helper()
	eventually(t, 10*time.Second, fmt.Sprintf("%d permits are free", free), func() bool {
		return r.s.Do(t, "GET", "{rig}:value") == fmt.Sprint(free)
	})
}

func (r *limiterRig) dropNext() <-chan struct{} {
	return r.p.DropReply(1, redistest.Command("EVALSHA"))
}
