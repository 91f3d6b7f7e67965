package script_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

// asLong is Claim.Longest of a request that waits as long as it takes.
const asLong time.Duration = -1

func limiter(name string, n int) *script.RateLimiter { return script.NewRateLimiter(name, "c", n) }

func takeRate(owner string, n int, longest time.Duration) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		_, err := script.Acquire(ctx, d, limiter(name, n), script.Claim{Owner: owner, Longest: longest})
		return err
	}
}

// takeUnread is takeRate of a client that has just seen that the log is sound.
func takeUnread(owner string, n int, longest time.Duration) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		l := limiter(name, n)
		_, _ = l.Decode(script.Claim{}, driver.Reply{Type: driver.Int, Int: 1})
		_, err := script.Acquire(ctx, d, l, script.Claim{Owner: owner, Longest: longest})
		return err
	}
}

// TestReadsOfLog has a client whose requests do not read the log for a short time after one
// that did.
func TestReadsOfLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter("N", 1)
		reads := func(of *script.RateLimiter) bool { return of.Claim(script.Claim{Owner: "a:1"}).Args[3] == "1" }
		check := func(want bool, after string) {
			t.Helper()
			if reads(l) != want || reads(l.For(2)) != want {
				t.Errorf("after %s, requests read the log: %v", after, !want)
			}
		}
		reply := func(n int64, list ...driver.Reply) {
			r := driver.Reply{Type: driver.Int, Int: n}
			if list != nil {
				r = driver.Reply{Type: driver.List, List: list}
			}
			_, _ = l.Decode(script.Claim{}, r)
		}
		time.Sleep(time.Second)
		check(true, "nothing")
		reply(2)
		check(true, "a grant without a look")
		reply(1)
		check(false, "a grant")
		time.Sleep(4 * time.Millisecond)
		reply(2)
		check(false, "4 ms")
		time.Sleep(time.Millisecond)
		check(true, "5 ms")
		reply(1)
		reply(0, driver.Reply{Type: driver.Int}, driver.Reply{Type: driver.Int, Int: 10}, driver.Reply{Type: driver.Int, Int: 3})
		check(true, "a refusal")
	})
}

func cancelRate(owner string, n int) op {
	return calling(func(name string) driver.Call { return limiter(name, n).Cancel(owner) })
}

func freeRate(owner string, n int) op {
	return calling(func(name string) driver.Call { return limiter(name, n).Free(owner) })
}

func releaseRate(request string, n int) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		r, err := d.Do(ctx, limiter(name, n).Release(request))
		if err != nil {
			return err
		}
		if _, err := script.DecodeReleased(r); err != nil {
			return &driver.Error{Class: driver.Fatal, Err: err}
		}
		return nil
	}
}

func setRate(when script.When, r script.Rate) op {
	return calling(func(name string) driver.Call { return limiter(name, 0).Set("a:1:5", r, when) })
}

func inspectRate(ctx context.Context, d driver.Driver, name string) error {
	_, _, err := limiter(name, 0).Inspect(ctx, d)
	return err
}

// ten is a rate for the rows: ten per minute.
var (
	ten       = script.Rate{Permits: 10, Interval: time.Minute}
	tenOfEach = script.Rate{Permits: 10, Interval: time.Minute, PerClient: true}
)

// rated is the command that sets a rate as Redisson does.
func rated(r script.Rate) string {
	kind := 0
	if r.PerClient {
		kind = 1
	}
	return fmt.Sprintf("HSET N rate %d interval %d type %d keepAliveTime %d", r.Permits, r.Interval.Milliseconds(), kind, r.Keep.Milliseconds())
}

// rate is the line of the rate in a state.
func rate(r script.Rate, more ...string) string {
	kind := 0
	if r.PerClient {
		kind = 1
	}
	return fmt.Sprintf("N hash interval=%d keepAliveTime=%d rate=%d type=%d", r.Interval.Milliseconds(), r.Keep.Milliseconds(), r.Permits, kind) +
		strings.Join(more, "")
}

// keptFor returns a rate that is kept for that many seconds.
func keptFor(r script.Rate, s int) script.Rate {
	r.Keep = seconds(s)
	return r
}

// entryID is the id of an owner in the log.
func entryID(owner string) string {
	if owner == "old" {
		return "8 random" // of Redisson before 3.21
	}
	sum := sha256.Sum256([]byte(owner))
	return string(sum[:16])
}

// longEntry packs an entry that is written as @owner*permits.
func longEntry(word string) string {
	owner, permits, _ := strings.Cut(word[1:], "*")
	n, err := strconv.Atoi(permits)
	if err != nil {
		panic(word)
	}
	id := entryID(owner)
	return string(rune(len(id))) + id + string([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
}

// shortEntries undoes longEntry in the members of a sorted set.
func shortEntries(list []string) []string {
	owners := make(map[string]string)
	for _, o := range []string{"a:1", "b:1", "c:1", "j:7", "old", me, other} {
		owners[entryID(o)] = o
	}
	for i := 0; i < len(list); i += 2 {
		if e := list[i]; len(e) > 5 && len(e) == 1+int(e[0])+4 {
			p := e[len(e)-4:]
			n := int(p[0]) | int(p[1])<<8 | int(p[2])<<16 | int(p[3])<<24
			list[i] = fmt.Sprintf("@%s*%d", owners[e[1:len(e)-4]], n)
		}
	}
	return list
}

func TestLimiter(t *testing.T) { check(t, limiterRows) }

// An entry is what Redisson writes: a length of 16, as many bytes, and the
// permits, the low byte first.
func TestLimiterEntry(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	for permits, want := range map[int]string{2: "02000000", 0x01020304: "04030201"} {
		l := newLab(t, s, d, "N")
		l.run(rated(script.Rate{Permits: 1 << 30, Interval: time.Minute}))
		before := now(t, s)
		if got := l.call(d, takeRate("a:1", permits, 0)); got != "1" {
			t.Fatal(got)
		}
		log := s.Strings(t, "ZRANGE", "{N}:permits", "0", "-1", "WITHSCORES")
		if len(log) != 2 || len(log[0]) != 21 {
			t.Fatalf("the log is %q, want one entry of 21 bytes", log)
		}
		if got := hex.EncodeToString([]byte(log[0])); got != "10"+hex.EncodeToString([]byte(entryID("a:1")))+want {
			t.Errorf("the entry is %s", got)
		}
		if at, err := strconv.ParseInt(log[1], 10, 64); err != nil || at < before || at > now(t, s) {
			t.Errorf("the score is %s, want the time of the server", log[1])
		}
		if got := s.Int(t, "GET", "{N}:value"); got != int64(1<<30-permits) {
			t.Errorf("%d are free", got)
		}
	}
}

// The reasons why nothing will ever be granted can be told apart.
func TestLimiterErrors(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	take := func(n int) error {
		v, err := script.Acquire(t.Context(), d, limiter("N", n), script.Claim{Owner: "a:1", Longest: asLong})
		return cmp.Or(err, v.Err)
	}
	if err := take(1); !errors.Is(err, script.ErrNoRate) {
		t.Error(err)
	}
	if err := releaseRate("a:1:1", 1)(t.Context(), d, "N"); !errors.Is(err, script.ErrNoRate) {
		t.Error(err)
	}
	newLab(t, s, d, "N").run(rated(ten))
	if err := take(11); !errors.Is(err, script.ErrTooMany) {
		t.Error(err)
	}
	if err := take(10); err != nil {
		t.Error(err)
	}
}

// However many were promised before, the next one is told its time, as long as
// either they or the rate are no more than a thousand entries; beyond that it is
// told when to ask again, and given nothing.
func TestLimiterFarAhead(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := connect(t, s.URL())
	l := newLab(t, s, d, "N")
	claim := func(i int, longest time.Duration) script.Verdict {
		t.Helper()
		v, err := script.Acquire(t.Context(), d, limiter("N", 1), script.Claim{Owner: fmt.Sprint("a:", i), Longest: longest})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	l.run(rated(script.Rate{Permits: 1, Interval: time.Minute}))
	// The first may be used now, and each a minute and a millisecond after the
	// one before.
	began := time.Now()
	for i := range 1100 {
		v := claim(i, asLong)
		due := time.Duration(i) * (time.Minute + time.Millisecond)
		if !v.Granted() || v.After > due || v.After < due-time.Since(began)-10*time.Second {
			t.Fatalf("%d: %+v, want to wait %v", i, v, due)
		}
	}
	l = newLab(t, s, d, "N")
	l.run(rated(script.Rate{Permits: 1100, Interval: time.Hour})) // so that none is over before the end of the test
	for i := range 1100 + 1000 {
		if v := claim(i, asLong); !v.Granted() {
			t.Fatalf("%d: %+v", i, v)
		}
	}
	for range 2 {
		if v := claim(3000, asLong); v.Granted() || v.Final || v.TTL > time.Hour || v.TTL < 30*time.Minute {
			t.Errorf("the next one: %+v", v)
		}
		if v := claim(3000, time.Second); v.Granted() || !v.Final {
			t.Errorf("the next one, with little time: %+v", v)
		}
	}
	if n, v := s.Int(t, "ZCARD", "{N}:permits"), s.Int(t, "GET", "{N}:value"); n != 2100 || v != -1000 {
		t.Errorf("%d entries, %d free", n, v)
	}
	if _, err := d.Do(t.Context(), limiter("N", 1).Cancel("a:2099")); err != nil {
		t.Fatal(err)
	}
	if v := claim(3000, asLong); !v.Granted() {
		t.Errorf("after a cancellation: %+v", v)
	}
}

// wireRate is a rate whose times are far from a multiple of ten seconds.
var wireRate = script.Rate{Permits: 10, Interval: seconds(65)}

var limiterWire = []step{
	{"set a rate", setRate(script.WhenNew, wireRate)},
	{"set it again", calling(func(name string) driver.Call { return limiter(name, 0).Set("a:1:6", ten, script.WhenNew) })},
	{"take permits", takeRate(me, 8, 0)},
	{"try to take more than there are", takeRate(other, 3, 0)},
	{"take them ahead of time", takeRate(other, 3, asLong)},
	{"look at it", inspectRate},
	{"cancel", cancelRate(other, 3)},
	{"cancel what may be used", cancelRate(me, 8)},
	{"give back what was not needed", releaseRate("a:1:7", 2)},
	{"return the permits of an abandoned request", freeRate(me, 8)},
	{"change the rate", calling(func(name string) driver.Call {
		return limiter(name, 0).Set("a:1:8", keptFor(script.Rate{Permits: 20, Interval: seconds(65)}, 600), script.WhenOld)
	})},
	{"set another, per client", calling(func(name string) driver.Call {
		return limiter(name, 0).Set("a:1:9", script.Rate{Permits: 10, Interval: seconds(65), PerClient: true}, script.Always)
	})},
	{"take permits of one's own", takeRate(me, 3, 0)},
}

// A stillRate is a rate limiter in still time: ten permits in a second.
type stillRate struct{ still }

// take asks for permits, and returns in how many ms they may be used, or less
// than zero if they were not given: -1 and the ms after which asking may help.
func (s *stillRate) take(owner string, n int, longest time.Duration) int64 {
	s.Helper()
	v, err := script.Acquire(s.Context(), s, script.NewRateLimiter(s.name, "c", n), script.Claim{Owner: owner, Longest: longest})
	switch {
	case err != nil || v.Err != nil:
		s.Fatal(err, v.Err)
	case !v.Granted():
		if !v.Final {
			s.Errorf("the refusal of %s is not final", owner)
		}
		return -1 - v.TTL.Milliseconds()
	}
	return v.After.Milliseconds()
}

// order runs a call of a limiter that is answered by a number.
func (s *stillRate) order(c driver.Call) int64 {
	s.Helper()
	r, err := s.Do(s.Context(), c)
	if err != nil {
		s.Fatal(err)
	}
	return r.Int
}

// of is the limiter for those who want that many.
func (s *stillRate) of(n int) *script.RateLimiter { return script.NewRateLimiter(s.name, "c", n) }

func (s *stillRate) has(free int) {
	s.Helper()
	if _, n, err := s.of(0).Inspect(s.Context(), s); n != free || err != nil {
		s.Errorf("%d are free at %d ms, want %d; %v", n, s.at, free, err)
	}
}

// What a rate limiter promises, to the millisecond.
func TestRateInStillTime(t *testing.T) {
	server := redistest.Start(t)
	d := connect(t, server.URL())
	const now, ever = time.Duration(0), time.Duration(-1)
	for promise, test := range map[string]func(s *stillRate){
		"no span of an interval sees more": func(s *stillRate) {
			s.wants(0, s.take("a:1", 10, now))
			s.at = 1000 // which may be less than a second after: times are cut
			s.wants(-2, s.take("a:2", 1, now))
			s.has(0)
			s.at = 1001
			s.has(10)
			s.wants(0, s.take("a:3", 10, now))
		},
		"also if it is taken ahead": func(s *stillRate) {
			s.wants(0, s.take("a:1", 10, now))
			s.at = 400
			s.wants(601, s.take("a:2", 4, ever))
			s.wants(601, s.take("a:3", 6, ever))
			s.wants(601+1001, s.take("a:4", 1, ever)) // after those
			s.at = 1001
			s.has(0)
			s.at = 2002
			s.has(9)
		},
		"nothing is taken further ahead than wanted": func(s *stillRate) {
			s.wants(0, s.take("a:1", 10, now))
			s.at = 400
			s.wants(-1-601, s.take("a:2", 10, 600*time.Millisecond))
			s.wants(601, s.take("a:3", 10, 601*time.Millisecond)) // the refused request is not before it
		},
		"taken once, if it is sent again": func(s *stillRate) {
			for range 2 {
				s.wants(0, s.take("a:1", 6, now))
				s.has(4)
			}
			for range 2 {
				s.wants(1001, s.take("a:2", 6, ever))
			}
			s.at = 1001
			s.has(4)
		},
		"taken once, if it is sent again while more are free": func(s *stillRate) {
			s.wants(0, s.take("a:1", 1, now))
			for range 2 {
				s.wants(0, s.take("a:2", 3, now))
				s.has(6)
			}
		},
		"refused until enough are over": func(s *stillRate) {
			s.wants(0, s.take("a:1", 2, now))
			s.at = 300
			s.wants(0, s.take("a:2", 8, now))
			s.at = 400
			s.wants(-1-601, s.take("a:3", 2, now))
			s.wants(-1-901, s.take("a:4", 3, now))
		},
		"cancelled once, and not what may be used": func(s *stillRate) {
			s.wants(0, s.take("a:1", 7, now))
			s.wants(1001, s.take("a:2", 4, ever))
			s.wants(0, s.order(s.of(7).Cancel("a:1")))
			for _, done := range []int64{1, 0} {
				s.wants(done, s.order(s.of(4).Cancel("a:2")))
				s.has(3)
			}
			s.wants(1, s.order(s.of(7).Free("a:1"))) // its caller got no reply
			s.has(10)
		},
		"given back once": func(s *stillRate) {
			s.wants(0, s.take("a:1", 5, now))
			s.wants(0, s.take("a:2", 5, now))
			s.at = 100
			for range 2 { // sent again
				s.wants(1, s.order(s.of(5).Release("e:1:1")))
				s.has(5)
			}
			s.at = 200
			s.wants(0, s.take("a:3", 5, now))
			s.at = 1001 // now the other five are over, and not ten
			s.has(5)
		},
		"each client has its own": func(s *stillRate) {
			s.rate(script.Rate{Permits: 10, Interval: time.Second, PerClient: true}, "e:1:2")
			s.wants(0, s.take("a:1", 10, now))
			if _, n, err := script.NewRateLimiter(s.name, "d", 0).Inspect(s.Context(), s); n != 10 || err != nil {
				s.Errorf("%d are free for another client; %v", n, err)
			}
		},
	} {
		t.Run(promise, func(t *testing.T) {
			s := &stillRate{still{T: t, Driver: d, name: promise}}
			s.rate(script.Rate{Permits: 10, Interval: time.Second}, "e:1:0")
			test(s)
		})
	}
}

func (s *stillRate) rate(r script.Rate, request string) {
	s.Helper()
	s.wants(1, s.order(s.of(0).Set(request, r, script.Always)))
}

// A drain takes single permits of a client as they become free, and remembers
// by the log when each was taken.
type drain struct {
	*testing.T
	s      *redistest.Server
	d      driver.Driver
	client string
	log    string
	n      int
	at     []int64
}

func newDrain(t *testing.T, client string) *drain {
	s := redistest.Start(t)
	return &drain{T: t, s: s, d: connect(t, s.URL()), client: client, log: "{N}:permits"}
}

// run takes what there is, and looks for it every few milliseconds.
func (r *drain) run(d time.Duration) {
	r.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); locktest.Work(3 * time.Millisecond) {
		r.n++
		owner, asked := fmt.Sprint("a:", r.n), time.Now()
		v, err := script.Acquire(r.Context(), r.d, script.NewRateLimiter("N", r.client, 1), script.Claim{Owner: owner})
		if err != nil {
			r.Fatal(err)
		}
		if !v.Granted() {
			continue
		}
		// What a client has of its own is gone a second after it was over.
		if at := scored(r, r.s, r.log, longEntry("@"+owner+"*1")); at >= 0 {
			r.at = append(r.at, at)
		} else if took := time.Since(asked); took < time.Second {
			r.Fatalf("not in the log after %v", took)
		}
	}
}

// most returns the most permits in any span of that many ms that begins at a
// time or later.
func (r *drain) most(from, interval int64) (most int) {
	for i, first := range r.at {
		n := 0
		for _, at := range r.at[i:] {
			if first >= from && at <= first+interval {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

func (r *drain) set(client string, rate script.Rate, when script.When) {
	r.Helper()
	r.n++
	_, err := r.d.Do(r.Context(), script.NewRateLimiter("N", client, 0).Set(fmt.Sprint("s:0:", r.n), rate, when))
	if err != nil {
		r.Fatal(err)
	}
}

// Returned permits are granted again once, not once in every interval.
func TestLimiterGivenBackOnce(t *testing.T) {
	t.Parallel()
	r := newDrain(t, "c")
	r.set("c", script.Rate{Permits: 10, Interval: 300 * time.Millisecond}, script.WhenNew)
	r.run(500 * time.Millisecond)
	if _, err := r.d.Do(t.Context(), limiter("N", 5).Release("b:0:1")); err != nil {
		t.Fatal(err)
	}
	// All of them may have been taken at once when they were returned, and
	// again one interval later.
	settled := now(t, r.s) + 600
	r.run(2 * time.Second)
	if n := r.most(settled, 300); n > 10 {
		t.Errorf("%d permits in an interval, long after 5 were given back; the rate is 10", n)
	}
}

// A lower rate holds for all clients, not only for the one that has set it.
func TestLimiterLowerRatePerClient(t *testing.T) {
	t.Parallel()
	for _, when := range []script.When{script.Always, script.WhenOld} {
		t.Run(string(when), func(t *testing.T) {
			t.Parallel()
			r := newDrain(t, "c")
			r.log += ":c"
			r.set("d", script.Rate{Permits: 20, Interval: 300 * time.Millisecond, PerClient: true}, script.WhenNew)
			r.run(700 * time.Millisecond)
			r.set("d", script.Rate{Permits: 4, Interval: 300 * time.Millisecond, PerClient: true}, when)
			settled := now(t, r.s) + 300
			r.run(2 * time.Second)
			if n := r.most(settled, 300); n > 4 {
				t.Errorf("%d permits in an interval, long after the rate became 4", n)
			}
		})
	}
}

// Future grants are kept, whatever else is done meanwhile.
func TestLimiterKeepsWhatIsAhead(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	for kind, rate := range map[string]script.Rate{"per client": tenOfEach, "kept for a time": keptFor(ten, 60)} {
		for what, do := range map[string]op{
			"taken now":     takeRate("b:1", 2, 0),
			"sent again":    takeRate("c:1", 3, 0),
			"given back":    releaseRate("a:1:5", 2),
			"changed":       setRate(script.WhenOld, rate),
			"taken ahead":   takeRate("b:1", 7, asLong),
			"cancelled":     cancelRate("a:1", 3),
			"refused":       takeRate("b:1", 7, 0),
			"looked at":     inspectRate,
			"taken further": takeRate("b:1", 10, asLong),
		} {
			t.Run(kind+"/"+what, func(t *testing.T) {
				l := newLab(t, s, d, "N")
				value, log := "{N}:value", "{N}:permits"
				if rate.PerClient {
					value, log = value+":c", log+":c"
				}
				// Three were used lately, three may be in 350 s: two are free.
				l.run(rated(rate), "SET "+value+" 2", "ZADD "+log+" +-5 @c:1*3", "ZADD "+log+" +300 @a:1*2", "ZADD "+log+" +350 @j:7*3")
				for _, key := range []string{"N", value, log} {
					s.Do(t, "EXPIRE", key, "600")
				}
				if rate.PerClient {
					s.Do(t, "PERSIST", "N")
				}
				_ = l.call(d, do)
				for _, key := range []string{value, log} {
					if ttl := s.Int(t, "PTTL", key); ttl < 400_000 {
						t.Errorf("%s is forgotten in %d ms, but what was taken ahead counts for 410 s", key, ttl)
					}
				}
			})
		}
	}
}

// What was taken counts for as long as the new rate says, also if the old one
// would have been gone by then.
func TestLimiterKeptNoLonger(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	l := newLab(t, s, d, "N")
	l.run(rated(keptFor(ten, 60)), "EXPIRE N 60", "SET ./value 0", "EXPIRE ./value 60", "ZADD ./permits +-5 @j:7*10", "EXPIRE ./permits 60")
	if got := l.call(d, setRate(script.WhenOld, script.Rate{Permits: 10, Interval: time.Hour})); got != "1" {
		t.Fatal(got)
	}
	l.has(
		rate(script.Rate{Permits: 10, Interval: time.Hour}),
		was,
		"permits zset @j:7*10+past",
		"value string 0",
	)
}

// A refused request also counts as use and extends the limiter's TTL, as in
// Redisson.
func TestLimiterRefusalKeepsIt(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	l := newLab(t, s, d, "N")
	l.run(rated(keptFor(ten, 120)), "EXPIRE N 60", "SET ./value 0", "EXPIRE ./value 60", "ZADD ./permits +-25 @j:7*10", "EXPIRE ./permits 60")
	if got := l.call(d, takeRate("a:1", 3, 0)); got != "[0 40s 10]" {
		t.Fatal(got)
	}
	l.has(
		rate(keptFor(ten, 120), ", TTL 120s"),
		"permits zset @j:7*10+past, TTL 120s",
		"value string 0, TTL 120s",
	)
}

// A cancellation without a stored value leaves the number of free permits that
// follows from the log.
func TestLimiterCancelWithoutValue(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	for what, do := range map[string]op{"cancel": cancelRate("a:1", 3), "free": freeRate("a:1", 3)} {
		t.Run(what, func(t *testing.T) {
			l := newLab(t, s, d, "N")
			l.run(rated(ten), "ZADD ./permits +-25 @j:7*10", "ZADD ./permits +35 @a:1*3")
			if got := l.call(d, do); got != "1" {
				t.Fatal(got)
			}
			if got := l.call(d, takeRate("b:1", 1, 0)); got != "[0 40s 10]" {
				t.Errorf("ten of ten are taken, and one more: %s", got)
			}
		})
	}
}

// Permits can be returned while the memory of the server is full.
func TestLimiterGiveBackMemoryFull(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	r := row{given: used, full: true}
	l := newLab(t, s, d, "N")
	defer r.prepare(l)()
	if got := l.call(d, releaseRate("a:1:5", 3)); got != "1" {
		t.Errorf("reply %s", got)
	}
}

// The model again, for a limiter that expires when it is not used for a while and
// is then set up anew. Earlier grants still count.
func TestLimiterModelKept(t *testing.T) {
	t.Parallel()
	runTrial(t, script.Rate{Keep: 80 * time.Millisecond}, 2000)
}

// What a client has of its own ends by itself, also after a cancellation.
func TestLimiterCancelLeavesAnEnd(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	for what, given := range map[string][]string{
		"as it was":     {"SET ./value:c:rate 10", "SET ./value:c -3"},
		"another rate":  {"SET ./value:c:rate 20", "SET ./value:c 7"},
		"no value":      {"SET ./value:c:rate 10"},
		"nothing known": nil,
	} {
		t.Run(what, func(t *testing.T) {
			l := newLab(t, s, d, "N")
			l.run(append([]string{
				rated(tenOfEach), "ZADD ./permits:c +-70 @b:1*2", "ZADD ./permits:c +-25 @j:7*8", "ZADD ./permits:c +35 @a:1*3",
			}, given...)...)
			for _, key := range s.Keys(t) {
				if key != "N" {
					s.Do(t, "EXPIRE", key, "100")
				}
			}
			if got := l.call(d, cancelRate("a:1", 3)); got != "1" {
				t.Fatal(got)
			}
			for _, key := range s.Keys(t) {
				if key != "N" && s.Int(t, "PTTL", key) < 0 {
					t.Errorf("%s stays for ever", l.short(key))
				}
			}
		})
	}
}
