package script_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A pledge is a grant of permits.
type pledge struct {
	owner   string
	permits int
	at      int64 // in ms of the server
}

// A trial does to a rate limiter whatever can be done to it, in any order, and
// checks every grant against all others that count.
type trial struct {
	*testing.T
	s      *redistest.Server
	d      driver.Driver
	r      *rand.Rand
	rate   script.Rate
	n      int      // requests so far
	live   []pledge // grants that were not returned and can still matter
	counts map[string]int
	log    []string // the last operations, printed on failure
}

func (m *trial) key(name string) string {
	if m.rate.PerClient {
		name += ":c"
	}
	return "{N}:" + name
}

func (m *trial) note(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf("%d "+format, append([]any{now(m, m.s)}, args...)...))
	m.log = m.log[max(0, len(m.log)-40):]
}

func (m *trial) fail(format string, args ...any) {
	m.Helper()
	for _, line := range m.log {
		m.Log(line)
	}
	m.Fatalf(format, args...)
}

// do makes a call that changes nothing but what it says.
func (m *trial) do(c driver.Call) int64 {
	m.Helper()
	r, err := m.d.Do(m.Context(), c)
	if err != nil {
		m.fail("%s: %v", c.Script.Name, err)
	}
	return r.Int
}

func (m *trial) set(r script.Rate, when script.When) {
	m.n++
	ok := m.do(limiter("N", 0).Set(fmt.Sprint("m:0:", m.n), r, when))
	m.note("set %s %+v: %d", when, r, ok)
	if ok == 1 {
		m.rate = r
	}
}

// anyRate returns a rate of the same sort as the present one.
func (m *trial) anyRate() script.Rate {
	r := m.rate
	r.Permits = 1 + m.r.IntN(8)
	r.Interval = time.Duration(30+m.r.IntN(50)) * time.Millisecond
	return r
}

// take takes permits for a new owner, perhaps ahead of time.
func (m *trial) take() {
	m.n++
	p := pledge{owner: fmt.Sprint("m:", m.n), permits: 1 + m.r.IntN(m.rate.Permits)}
	longest := []time.Duration{asLong, 0, time.Duration(m.r.Int64N(int64(100 * time.Millisecond)))}[m.r.IntN(3)]
	asked := time.Now()
	free := m.rate.Permits - m.taken(fmt.Sprint(now(m, m.s)-m.rate.Interval.Milliseconds()))
	v, err := script.Acquire(m.Context(), m.d, limiter("N", p.permits), script.Claim{Owner: p.owner, Longest: longest})
	err = cmp.Or(err, v.Err)
	if errors.Is(err, script.ErrNoRate) && m.rate.Keep > 0 {
		m.note("gone")
		m.set(m.rate, script.WhenNew)
		m.counts["set anew"]++
		return
	}
	if err != nil {
		m.fail("take %d: %v", p.permits, err)
	}
	m.note("%s takes %d, %v ahead at most: %+v", p.owner, p.permits, longest, v)
	switch {
	case p.permits <= free && (!v.Granted() || v.After > 0):
		m.fail("%d were free and %s wanted %d: %+v", free, p.owner, p.permits, v)
	case !v.Granted():
		m.counts["refused"]++
		return
	case v.After > 0:
		m.counts["ahead"]++
	default:
		m.counts["at once"]++
	}
	if p.at = m.score(p); p.at < 0 {
		if !m.mayBeOver(asked) {
			m.fail("%s is not in the log", p.owner)
		}
		m.note("the log is over")
		return
	}
	if longest >= 0 && v.After > longest {
		m.fail("%s was given permits %v ahead, and wanted %v at most", p.owner, v.After, longest)
	}
	m.live = append(m.live, p)
	m.check(p)
}

// mayBeOver reports whether the log may have expired since a request: it expires
// one second after its last entry is over.
func (m *trial) mayBeOver(asked time.Time) bool {
	return (m.rate.Keep > 0 || m.rate.PerClient) && time.Since(asked) >= time.Second
}

// score returns when a pledge may be used, by the log.
func (m *trial) score(p pledge) int64 {
	m.Helper()
	return scored(m, m.s, m.key("permits"), longEntry(fmt.Sprintf("@%s*%d", p.owner, p.permits)))
}

// scored returns the score of an entry in a log, -1 if it is not there.
func scored(t testing.TB, s *redistest.Server, log, entry string) int64 {
	t.Helper()
	text, ok := s.Do(t, "ZSCORE", log, entry).(string)
	if !ok {
		return -1
	}
	at, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("score %q", text)
	}
	return at
}

// within returns how many permits may be used in a span of time.
func (m *trial) within(from, to int64) (permits int) {
	for _, p := range m.live {
		if p.at >= from && p.at <= to {
			permits += p.permits
		}
	}
	return permits
}

// check checks all spans of an interval that have p in them: those that begin
// with an entry are the fullest.
func (m *trial) check(p pledge) {
	m.Helper()
	interval := m.rate.Interval.Milliseconds()
	for _, first := range m.live {
		if first.at > p.at || first.at < p.at-interval {
			continue
		}
		if n := m.within(first.at, first.at+interval); n > m.rate.Permits {
			m.fail("%d permits from %d on for %d ms, when %s was given %d at %d; the rate is %d",
				n, first.at, interval, p.owner, p.permits, p.at, m.rate.Permits)
		}
	}
}

// forget drops the pledges that were over at that time.
func (m *trial) forget(before int64) {
	var rest []pledge
	for _, p := range m.live {
		if p.at >= before {
			rest = append(rest, p)
		}
	}
	m.live = rest
}

// give returns the permits of a random pledge.
func (m *trial) give() {
	if len(m.live) == 0 {
		return
	}
	i := m.r.IntN(len(m.live))
	p := m.live[i]
	if m.r.IntN(2) == 0 {
		if m.do(limiter("N", p.permits).Free(p.owner)) == 1 {
			m.note("%s is freed", p.owner)
			m.counts["freed"]++
		}
	} else if m.do(limiter("N", p.permits).Cancel(p.owner)) != 1 {
		m.counts["cancelled too late"]++
		return
	} else {
		m.note("%s cancels", p.owner)
		m.counts["cancelled"]++
	}
	m.live = append(m.live[:i], m.live[i+1:]...)
}

// repeat sends a request again that was granted.
func (m *trial) repeat() {
	if len(m.live) == 0 {
		return
	}
	i, asked := m.r.IntN(len(m.live)), time.Now()
	p := m.live[i]
	if p.permits > m.rate.Permits || m.score(p) != p.at {
		return // it would be refused now, or is forgotten
	}
	before := m.s.Int(m, "ZCARD", m.key("permits"))
	v, err := script.Acquire(m.Context(), m.d, limiter("N", p.permits), script.Claim{Owner: p.owner})
	err = cmp.Or(err, v.Err)
	switch {
	case errors.Is(err, script.ErrNoRate) && m.rate.Keep > 0:
	case err == nil && v.Granted() && m.mayBeOver(asked): // taken anew, or was not
		if m.live[i].at = m.score(p); m.live[i].at < 0 {
			m.live = append(m.live[:i], m.live[i+1:]...)
		}
	case err != nil || !v.Granted() || m.score(p) != p.at && m.score(p) >= 0 || m.s.Int(m, "ZCARD", m.key("permits")) > before:
		m.fail("%s asks again: %+v, %v", p.owner, v, err)
	}
	m.counts["sent again"]++
}

func (m *trial) step() {
	switch n := m.r.IntN(100); {
	case n < 50:
		m.take()
	case n < 65:
		m.give()
	case n < 75:
		m.repeat()
	case n < 77: // what was over by the old rate, or is by the new one, may be forgotten
		old := m.rate.Interval
		m.set(m.anyRate(), script.WhenOld)
		m.forget(now(m, m.s) - min(old, m.rate.Interval).Milliseconds() - 1)
		m.counts["changed"]++
	case n < 78:
		m.set(m.anyRate(), script.Always)
		m.live = nil
	case n < 79 && m.rate.Keep == 0: // evicted
		m.s.Do(m, "DEL", m.key("value"))
		m.note("the value is evicted")
		m.take()
	case n < 98:
		locktest.Work(time.Duration(m.r.Int64N(int64(12 * time.Millisecond))))
	default:
		locktest.Work(100 * time.Millisecond)
	}
	m.forget(now(m, m.s) - 200) // twice the longest interval, and more
	m.sound()
}

// sound checks that what is written down as free is what the log leaves.
func (m *trial) sound() {
	m.Helper()
	value, ok := m.s.Do(m, "GET", m.key("value")).(string)
	if !ok {
		return
	}
	free, err := strconv.Atoi(value)
	if err != nil {
		m.fail("%q are free", value)
	}
	if n := m.taken("0"); n > 0 && free+n != m.rate.Permits {
		m.fail("%d are free and %d taken, of %d", free, n, m.rate.Permits)
	}
}

// taken returns how many permits are taken from some time on, by the log.
func (m *trial) taken(from string) (permits int) {
	m.Helper()
	for _, e := range m.s.Strings(m, "ZRANGEBYSCORE", m.key("permits"), from, "+inf") {
		permits += int(e[len(e)-4])
	}
	return permits
}

// Whatever is done to a rate limiter, apart from giving back what was used, no
// span of an interval sees more permits than the rate.
func TestLimiterModel(t *testing.T) {
	t.Parallel()
	steps := 4000
	if testing.Short() {
		steps = 500
	}
	for name, rate := range map[string]script.Rate{
		"for all":    {},
		"per client": {PerClient: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runTrial(t, rate, steps)
		})
	}
}

func runTrial(t *testing.T, rate script.Rate, steps int) {
	seed := uint64(time.Now().UnixNano())
	s := redistest.Start(t)
	m := &trial{
		T: t, s: s, d: connect(t, s.URL()), r: rand.New(rand.NewPCG(seed, 0)),
		rate: rate, counts: make(map[string]int),
	}
	m.set(m.anyRate(), script.WhenNew)
	for range steps {
		m.step()
	}
	t.Logf("seed %d: %v", seed, m.counts)
	for _, what := range []string{"at once", "ahead", "refused", "cancelled", "cancelled too late", "freed", "sent again", "changed"} {
		if m.counts[what] < steps/500 {
			t.Errorf("%s: only %d times", what, m.counts[what])
		}
	}
}
