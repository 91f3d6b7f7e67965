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
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

// asLong is how far ahead somebody takes permits who waits as long as it takes.
const asLong time.Duration = -1

func limiter(name string, n int) *script.RateLimiter { return script.NewRateLimiter(name, "c", n) }

func takeRate(owner string, n int, longest time.Duration) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		_, err := script.Acquire(ctx, d, limiter(name, n), script.Claim{Owner: owner, Longest: longest})
		return err
	}
}

// calling is an op that makes a call whose reply is for somebody else to judge.
func calling(call func(name string) driver.Call) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		_, err := d.Do(ctx, call(name))
		return err
	}
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
		if got := l.call(d, takeRate("a:1", permits, 0)); got != "[1 0]" {
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
	{"take back what nobody waits for", freeRate(me, 8)},
	{"change the rate", calling(func(name string) driver.Call {
		return limiter(name, 0).Set("a:1:8", keptFor(script.Rate{Permits: 20, Interval: seconds(65)}, 600), script.WhenOld)
	})},
	{"set another, per client", calling(func(name string) driver.Call {
		return limiter(name, 0).Set("a:1:9", script.Rate{Permits: 10, Interval: seconds(65), PerClient: true}, script.Always)
	})},
	{"take permits of one's own", takeRate(me, 3, 0)},
}
