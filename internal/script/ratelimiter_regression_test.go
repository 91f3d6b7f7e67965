package script_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

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
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(3 * time.Millisecond) {
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

// What is given back is given out again once, not once per interval from then
// on.
func TestLimiterGivenBackOnce(t *testing.T) {
	t.Parallel()
	r := newDrain(t, "c")
	r.set("c", script.Rate{Permits: 10, Interval: 300 * time.Millisecond}, script.WhenNew)
	r.run(500 * time.Millisecond)
	if _, err := r.d.Do(t.Context(), limiter("N", 5).Release("b:0:1")); err != nil {
		t.Fatal(err)
	}
	// Somebody may have taken them all at once when they were given back, and
	// again when that was over.
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

// Nothing is forgotten that lies ahead, whatever else is done meanwhile.
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

// A limiter that somebody asks is in use, also if it says no, as Redisson has
// it.
func TestLimiterRefusalKeepsIt(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	l := newLab(t, s, d, "N")
	l.run(rated(keptFor(ten, 120)), "EXPIRE N 60", "SET ./value 0", "EXPIRE ./value 60", "ZADD ./permits +-25 @j:7*10", "EXPIRE ./permits 60")
	if got := l.call(d, takeRate("a:1", 3, 0)); got != "[0 40s]" {
		t.Fatal(got)
	}
	l.has(
		rate(keptFor(ten, 120), ", TTL 120s"),
		"permits zset @j:7*10+past, TTL 120s",
		"value string 0, TTL 120s",
	)
}

// A cancellation where nobody knows how much is free leaves what the log says.
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
			if got := l.call(d, takeRate("b:1", 1, 0)); got != "[0 40s]" {
				t.Errorf("ten of ten are taken, and one more: %s", got)
			}
		})
	}
}

// Who gives something back can do so while the memory of the server is full.
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

// The model again, for a limiter that is gone when nobody has used it for a
// while and is then set up anew: what was promised is kept all the same.
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
