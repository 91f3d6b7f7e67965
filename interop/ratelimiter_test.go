package interop_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// limiter is a rate limiter with an object of each side.
type limiter struct {
	name   string
	java   object
	golang *holdfast.RateLimiter
}

func (r *fixture) limiter(t *testing.T) limiter {
	t.Helper()
	n := name(t)
	return limiter{n, r.java.get(t, "getRateLimiter", n), r.golang.RateLimiter(n)}
}

// has checks the rate on both sides.
func (l limiter) has(t *testing.T, want holdfast.Rate) {
	t.Helper()
	gives(t, want)(l.golang.Rate(t.Context()))
	config := l.java.keep(t, "getConfig")
	config.says(t, want.Permits, "getRate")
	config.says(t, int(want.Per.Milliseconds()), "getRateInterval")
	kind := "OVERALL"
	if want.PerClient {
		kind = "PER_CLIENT"
	}
	config.says(t, kind, "getRateType")
}

// args returns the arguments of Redisson for a rate.
func (l limiter) args(t *testing.T, kind string, rate int, per string, keepState bool) object {
	t.Helper()
	args, err := peer(t, interop.Current).Static("org.redisson.api.ratelimiter.RateLimiterArgs", "of", kind, rate, per)
	if err != nil {
		t.Fatal(err)
	}
	return object{args}.keep(t, "keepState", keepState)
}

// Both sides share the rate and the acquired permits.
func TestRateIsShared(t *testing.T) {
	t.Parallel()
	ctx, r := t.Context(), newFixture(t, interop.Current)
	l := r.limiter(t)
	l.java.throws(t, "tryAcquire")
	_, err := l.golang.Allow(ctx)
	fails(t, err, holdfast.ErrNotFound)

	l.java.says(t, true, "trySetRate", "OVERALL", 5, "PT1M")
	gives(t, false)(l.golang.TrySetRate(ctx, holdfast.Rate{Permits: 9, Per: time.Hour}))
	l.has(t, holdfast.Rate{Permits: 5, Per: time.Minute})
	gives(t, true)(l.golang.AllowN(ctx, 2))
	l.java.says(t, 3, "availablePermits")
	l.java.says(t, true, "tryAcquire", 2)
	gives(t, 1)(l.golang.Available(ctx))
	gives(t, false)(l.golang.AllowN(ctx, 2))
	l.java.says(t, false, "tryAcquire", 2)
	l.java.says(t, false, "tryAcquire", 2, "PT0.2S")
	fails(t, l.golang.WaitN(ctx, 2, holdfast.Wait(time.Second)), holdfast.ErrNotAcquired)
	_, err = l.golang.AllowN(ctx, 6)
	fails(t, err, holdfast.ErrInvalid)
	l.java.throws(t, "tryAcquire", 6)

	// One side can release permits that the other has acquired.
	l.java.says(t, nil, "release", 1)
	gives(t, 2)(l.golang.Available(ctx))
	fails(t, l.golang.Release(ctx, 3), nil)
	l.java.says(t, 5, "availablePermits")

	// A new rate, set by any side, resets the acquired permits.
	gives(t, true)(l.golang.AllowN(ctx, 5))
	l.java.says(t, nil, "setRate", "OVERALL", 3, "PT2M")
	l.has(t, holdfast.Rate{Permits: 3, Per: 2 * time.Minute})
	gives(t, 3)(l.golang.Available(ctx))
	l.java.says(t, true, "tryAcquire", 3)
	fails(t, l.golang.SetRate(ctx, holdfast.Rate{Permits: 4, Per: time.Minute}), nil)
	l.has(t, holdfast.Rate{Permits: 4, Per: time.Minute})
	l.java.says(t, 4, "availablePermits")

	// An update does not.
	l.java.says(t, true, "tryAcquire", 2)
	gives(t, true)(l.golang.UpdateRate(ctx, holdfast.Rate{Permits: 10, Per: time.Minute}))
	l.java.says(t, 8, "availablePermits")
	l.java.says(t, true, "updateRate", l.args(t, "OVERALL", 6, "PT1M", true))
	l.has(t, holdfast.Rate{Permits: 6, Per: time.Minute})
	gives(t, 4)(l.golang.Available(ctx))
	l.java.says(t, true, "delete")
	gives(t, false)(l.golang.UpdateRate(ctx, holdfast.Rate{Permits: 6, Per: time.Minute}))
	l.java.says(t, false, "updateRate", l.args(t, "OVERALL", 6, "PT1M", true))
}

// Permits that Redisson has released but left in the log do not become free a second time.
func TestRateGivenBackTwice(t *testing.T) {
	t.Parallel()
	ctx, r := t.Context(), newFixture(t, interop.Current)
	l := r.limiter(t)
	l.java.says(t, true, "trySetRate", "OVERALL", 5, "PT1M")
	l.java.says(t, true, "tryAcquire", 5)
	l.java.says(t, nil, "release", 5)
	fails(t, l.golang.Release(ctx, 5), nil)
	gives(t, 5)(l.golang.Available(ctx))
	l.java.says(t, true, "tryAcquire", 5)
	l.java.says(t, false, "tryAcquire", 5)
}

// allowsSoon checks that Go gets n permits. For some milliseconds after a refusal, Holdfast refuses
// without asking the server.
func (l limiter) allowsSoon(t *testing.T, n int) {
	t.Helper()
	locktest.Eventually(t, 10*time.Second, "Go gets the permits", func() bool {
		return must[bool](t)(l.golang.AllowN(t.Context(), n))
	})
}

// age makes all grants older by d, as if this time had passed.
func (r *fixture) age(t *testing.T, limiter string, d time.Duration) {
	t.Helper()
	aged := r.server.Int(t, "EVAL", `
		local all = redis.call('zrange', KEYS[1], 0, -1, 'withscores')
		for i = 1, #all, 2 do
			redis.call('zadd', KEYS[1], string.format('%d', all[i + 1] - ARGV[1]), all[i])
		end
		return #all / 2`, "1", "{"+limiter+"}:permits", fmt.Sprint(d.Milliseconds()))
	if aged == 0 {
		t.Error("the limiter has no grants")
	}
}

// With a rate per client, each client has its own permits. A rate that Redisson lowers also
// applies to permits that Holdfast has left from the old rate.
func TestRatePerClient(t *testing.T) {
	t.Parallel()
	ctx, r := t.Context(), newFixture(t, interop.Current)
	l := r.limiter(t)
	gives(t, true)(l.golang.TrySetRate(ctx, holdfast.Rate{Permits: 3, Per: time.Minute, PerClient: true}))
	l.java.says(t, false, "trySetRate", "PER_CLIENT", 9, "PT1M")
	l.has(t, holdfast.Rate{Permits: 3, Per: time.Minute, PerClient: true})
	gives(t, true)(l.golang.AllowN(ctx, 3))
	l.java.says(t, 3, "availablePermits")
	l.java.says(t, true, "tryAcquire", 2)
	join(t, peer(t, interop.Current), interop.Single(r.server.Addr())).get(t, "getRateLimiter", l.name).says(t, true, "tryAcquire", 3)
	gives(t, true)(open(t, r.server.URL()).RateLimiter(l.name).AllowN(ctx, 3))
	l.java.says(t, 1, "availablePermits")
	gives(t, false)(l.golang.Allow(ctx))

	l.java.says(t, nil, "setRate", "PER_CLIENT", 5, "PT1M")
	l.java.says(t, 5, "availablePermits")
	gives(t, 2)(l.golang.Available(ctx))
	l.java.says(t, nil, "setRate", "PER_CLIENT", 4, "PT1M")
	gives(t, 1)(l.golang.Available(ctx))
	l.allowsSoon(t, 1)
	gives(t, false)(l.golang.Allow(ctx))

	// Change from a rate per client to an overall rate.
	l.java.says(t, nil, "setRate", "OVERALL", 2, "PT1M")
	l.allowsSoon(t, 2)
	l.java.says(t, false, "tryAcquire")
}

// An unused limiter expires as its rate says, whichever side has set the rate.
func TestRateKeptAlive(t *testing.T) {
	t.Parallel()
	ctx, r := t.Context(), newFixture(t, interop.Current)
	for _, who := range []string{"Java", "Go"} {
		t.Run(who, func(t *testing.T) {
			l, rate := r.limiter(t), holdfast.Rate{Permits: 9, Per: 100 * time.Millisecond, KeepAlive: time.Minute}
			if who == "Java" {
				l.java.says(t, true, "trySetRate", "OVERALL", 9, "PT0.1S", "PT1M")
			} else {
				gives(t, true)(l.golang.TrySetRate(ctx, rate))
			}
			l.has(t, rate)
			keys := []string{l.name, "{" + l.name + "}:value", "{" + l.name + "}:permits"}
			for user, use := range map[string]func(){
				"Java": func() { l.java.says(t, true, "tryAcquire") },
				"Go":   func() { gives(t, true)(l.golang.Allow(ctx)) },
			} {
				use()
				for _, key := range keys {
					r.server.Do(t, "PEXPIRE", key, "20000")
				}
				use()
				for _, key := range keys {
					if ttl := r.server.Int(t, "PTTL", key); ttl < 30000 || ttl > 60000 {
						t.Errorf("%s has %d ms after use by %s", key, ttl, user)
					}
				}
			}
			if left := l.java.do(t, "", "remainTimeToLive").Int(); left < 30000 || left > 60000 {
				t.Errorf("Java sees %d ms", left)
			}
		})
	}
}

// Java does not get permits that Go has reserved. It gets later ones.
func TestRatePromised(t *testing.T) {
	t.Parallel()
	ctx, r := t.Context(), newFixture(t, interop.Current)
	l := r.limiter(t)
	l.java.says(t, true, "trySetRate", "OVERALL", 2, "PT6S")
	began := time.Now()
	l.java.says(t, true, "tryAcquire", 2)
	promised, err := l.golang.ReserveN(ctx, 2)
	if err != nil || promised.Delay() < 500*time.Millisecond {
		t.Fatal(promised, err)
	}
	l.java.says(t, -2, "availablePermits")
	l.java.says(t, nil, "acquire")
	if d := time.Since(began); d < 11900*time.Millisecond {
		t.Errorf("Java got a permit after %v", d)
	}
	gives(t, 1)(l.golang.Available(ctx))
}

// If the log is lost, Redisson leaves a count without a log. This blocks Java forever (B21),
// but not Go.
func TestRateWithoutLog(t *testing.T) {
	t.Parallel()
	ctx, r := t.Context(), newFixture(t, interop.Current)
	l := r.limiter(t)
	l.java.says(t, true, "trySetRate", "OVERALL", 2, "PT1M")
	l.java.says(t, true, "tryAcquire", 2)
	r.server.Do(t, "DEL", "{"+l.name+"}:permits")
	l.java.throws(t, "tryAcquire")
	gives(t, 2)(l.golang.Available(ctx))
	gives(t, true)(l.golang.Allow(ctx))
	l.java.says(t, true, "tryAcquire")
}

// Threads and goroutines together get the permits of the rate, and in no interval more.
func TestRateOfFleet(t *testing.T) {
	const each, rate, interval, length = 3, 20, 500 * time.Millisecond, 8 * time.Second
	const cut = 5 * time.Millisecond // Redisson uses whole milliseconds and another clock
	for _, test := range []struct {
		name      string
		take      string // Java's method
		golang    func(l *holdfast.RateLimiter) (bool, error)
		perClient bool
	}{
		{"tries", "tryAcquire", func(l *holdfast.RateLimiter) (bool, error) { return l.Allow(context.Background()) }, false},
		{"waits", "acquire", func(l *holdfast.RateLimiter) (bool, error) { return true, l.Wait(context.Background()) }, false},
		{"per client", "tryAcquire", func(l *holdfast.RateLimiter) (bool, error) { return l.Allow(context.Background()) }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, interop.Current)
			l := r.limiter(t)
			fails(t, l.golang.SetRate(t.Context(), holdfast.Rate{Permits: rate, Per: interval, PerClient: test.perClient}), nil)
			began := redistest.Now()
			var answers []<-chan interop.Answer
			for i := range each {
				answers = append(answers, peer(t, interop.Current).Send(interop.Call{Thread: l.name + string(rune('a'+i)), Millis: length.Milliseconds(), Calls: []interop.Call{l.java.Call("", test.take), pause}}))
			}
			var f fleet
			done := make(chan error, each)
			for range each {
				go func() {
					for redistest.Now()-began < int64(length) {
						entered := redistest.Now()
						ok, err := test.golang(l.golang)
						if err != nil {
							done <- err
							return
						}
						if ok {
							f.record("Go", entered, redistest.Now())
						}
						locktest.Work(time.Millisecond)
					}
					done <- nil
				}()
			}
			for range each {
				fails(t, <-done, nil)
			}
			for _, ch := range answers {
				a := within(t, length+time.Minute, ch)
				for i, v := range a.Value.([]any) {
					if i%2 == 0 && v != false {
						f.record("Java", a.Spans[i][0], a.Spans[i][1])
					}
				}
			}
			count := map[string]int{}
			for _, v := range f.visits {
				count[v.Owner]++
			}
			took := time.Duration(redistest.Now() - began)
			t.Logf("%v in %v", count, took)
			for _, owner := range []string{"Java", "Go"} {
				var visits []redistest.Interval
				for _, v := range f.visits {
					if v.Owner == owner || !test.perClient {
						visits = append(visits, v)
					}
				}
				if most := busiest(visits, interval-cut); most > rate {
					t.Errorf("%d grants to %s within %v, with a rate of %d", most, owner, interval, rate)
				}
				if n, all := len(visits), rate*(int(took/interval)+1); n > all || n < all/2 {
					t.Errorf("%d grants in %v, want about %d", n, took, all)
				}
				if count[owner] == 0 && test.take != "acquire" { // Java waiters come after all Go waiters
					t.Errorf("none for %s", owner)
				}
			}
		})
	}
}

// busiest returns the largest number of grants that were requested and received within one
// interval of the given length.
func busiest(grants []redistest.Interval, span time.Duration) (most int) {
	for _, first := range grants {
		n := 0
		for _, g := range grants {
			if g.Enter >= first.Enter && g.Leave <= first.Enter+int64(span) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// The early Redisson writes another format of the log and cannot read the current one. The
// two must not be mixed. If they are, Holdfast still grants no more than the rate, and works
// normally again after one interval.
func TestRateOfOld(t *testing.T) {
	t.Parallel()
	ctx, r := t.Context(), newFixture(t, interop.Era)
	const rate, interval = 6, 8 * time.Minute
	l := r.limiter(t)
	l.java.says(t, true, "trySetRate", "OVERALL", rate, 8, "MINUTES")
	l.has(t, holdfast.Rate{Permits: rate, Per: interval})
	for range 4 {
		l.java.says(t, true, "tryAcquire")
	}
	before := slices.Clone(r.server.Strings(t, "ZRANGE", "{"+l.name+"}:permits", "0", "-1"))
	gives(t, 2)(l.golang.Available(ctx))
	gives(t, true)(l.golang.AllowN(ctx, 2))
	if ok, err := l.golang.AllowN(ctx, 4); ok {
		t.Error("more than the rate")
	} else {
		t.Log("with entries of the early format: ", err)
	}
	if after := r.server.Strings(t, "ZRANGE", "{"+l.name+"}:permits", "0", "-1"); len(after) != len(before)+1 {
		t.Errorf("%d entries, want %d", len(after), len(before)+1)
	}
	r.age(t, l.name, interval)
	t.Log("free permits according to Redisson: ", l.java.do(t, "", "availablePermits").Value)
	gives(t, rate)(l.golang.Available(ctx))
	l.allowsSoon(t, rate)
	gives(t, false)(l.golang.Allow(ctx))
}
