package script

import (
	"context"
	"crypto/sha256"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

var (
	rateLimiterTake    = load("ratelimiter_take")
	rateLimiterCancel  = load("ratelimiter_cancel")
	rateLimiterRelease = load("ratelimiter_release")
	rateLimiterSet     = load("ratelimiter_set")
	rateLimiterInspect = load("ratelimiter_inspect")
)

// The errors of a limiter, as the server reports them.
var (
	ErrNoRate  = errors.New("the rate limiter has no rate")
	ErrTooMany = errors.New("more permits than the rate")
)

// notYet is the reason of a refusal while no permits are free.
const notYet = "the rate does not allow it yet"

// A RateLimiter is the wire format of Redisson's RRateLimiter, for a request of that
// many permits: a hash with the rate, the number of free permits, and a log of
// taken permits by time. The number and the log exist once for all clients and
// once for each client. All times are those of the server. A permit that becomes
// free later can be taken in advance, with a log entry at that later time.
// Redisson counts such an entry as used.
type RateLimiter struct {
	*limiter
	permits int
}

// A limiter is what the requests of a client have in common.
type limiter struct {
	keys    [6]string
	logRead atomic.Int64 // when a grant has last read the log; zero: the next one must
}

// logLife is how long grants do not read the log after one that did. Entries that are over
// stay in the log for as long.
const logLife = 5 * time.Millisecond

// NewRateLimiter returns a request of a client to the rate limiter with that
// name.
func NewRateLimiter(name, client string, permits int) *RateLimiter {
	value, log := suffixed(name, "value"), suffixed(name, "permits")
	own := suffixed(value, client)
	return &RateLimiter{&limiter{keys: [6]string{name, value, own, log, suffixed(log, client), suffixed(own, "rate")}}, permits}
}

// For returns a request for another number of permits.
func (l *RateLimiter) For(permits int) *RateLimiter {
	if permits == l.permits {
		return l
	}
	return &RateLimiter{l.limiter, permits}
}

// Wants returns how many permits are requested.
func (l *RateLimiter) Wants() int { return l.permits }

// Traits say that a grant leaves nothing to hold.
func (l *RateLimiter) Traits() Traits {
	return Traits{Unreplicated: true, Lasting: Lasting{l.keys[0], l.permits}}
}

// Gate is not needed: the server assigns a time to each request.
func (l *RateLimiter) Gate() string { return l.keys[3] }

// Channels returns none: permits become free with time and not by a release.
func (l *RateLimiter) Channels(string) []string { return nil }

// entry is the id of a request in the log.
func (l *RateLimiter) entry(owner string) string {
	var b [64]byte
	sum := sha256.Sum256(append(b[:0], owner...))
	return string(sum[:idSize])
}

// Claim returns the call that takes the permits, or reserves them for later.
func (l *RateLimiter) Claim(c Claim) driver.Call {
	longest := "-1"
	if c.Longest >= 0 {
		longest = strconv.FormatInt(c.Longest.Milliseconds(), 10)
	}
	return driver.Call{
		Script: rateLimiterTake,
		Keys:   l.keys[:],
		Args:   args(strconv.Itoa(l.permits), l.entry(c.Owner), longest, flag(l.mustReadLog())),
	}
}

// Decode decodes the reply to a claim. A refusal is final if the permits come free
// later than the claim can wait.
func (l *RateLimiter) Decode(c Claim, r driver.Reply) (Verdict, error) {
	v, err := decodeLimiter(r)
	l.noteLog(r)
	v.Final = !v.Granted() && c.Longest >= 0 && v.TTL.Milliseconds() > c.Longest.Milliseconds()
	return v, err
}

// The replies to a request whose permits may be used at once.
const (
	grantedByLog      = 1 // the log was read, and is sound
	grantedWithoutLog = 2
)

// mustReadLog reports whether the next request must read the log.
func (l *limiter) mustReadLog() bool {
	at := time.Duration(l.logRead.Load())
	return at == 0 || clock.Early()-at >= logLife
}

// noteLog notes whether a reply says that the log is sound.
func (l *limiter) noteLog(r driver.Reply) {
	switch {
	case r.Type == driver.Int && r.Int == grantedByLog:
		l.logRead.Store(int64(clock.Early()))
	case r.Type != driver.Int || r.Int != grantedWithoutLog:
		l.logRead.Store(0)
	}
}

func decodeLimiter(r driver.Reply) (Verdict, error) {
	if r.Type == driver.Int && (r.Int == grantedByLog || r.Int == grantedWithoutLog) {
		return Verdict{Token: 1}, nil
	}
	if r.Type != driver.List || len(r.List) < 2 || r.List[0].Type != driver.Int || r.List[1].Type != driver.Int {
		return Verdict{}, unexpected(rateLimiterTake, r)
	}
	refused := r.List[0].Int == 0
	if refused && (len(r.List) != 3 || r.List[2].Type != driver.Int) || !refused && len(r.List) != 2 {
		return Verdict{}, unexpected(rateLimiterTake, r)
	}
	ms := remaining(max(r.List[1].Int, 0))
	switch r.List[0].Int {
	case 1:
		return Verdict{Token: 1, After: ms, Why: notYet}, nil
	case 0:
		return Verdict{TTL: ms, Why: notYet, Most: r.List[2].Int}, nil
	case -1:
		return Verdict{Err: ErrNoRate, Missing: "rate"}, nil
	case -2:
		return Verdict{Err: ErrTooMany}, nil
	}
	return Verdict{}, unexpected(rateLimiterTake, r)
}

// Free returns the call that returns the permits that a request may have taken.
func (l *RateLimiter) Free(owner string) driver.Call { return l.cancel(owner, false) }

// Cancel returns the call that returns permits that cannot be used yet. The
// reply says whether it did.
func (l *RateLimiter) Cancel(owner string) driver.Call { return l.cancel(owner, true) }

func (l *RateLimiter) cancel(owner string, ahead bool) driver.Call {
	return driver.Call{
		Script: rateLimiterCancel,
		Keys:   l.keys[:],
		Args:   []string{strconv.Itoa(l.permits), l.entry(owner), flag(ahead)},
	}
}

// Release returns the call that returns the permits, up to the rate.
// DecodeReleased decodes the reply.
func (l *RateLimiter) Release(request string) driver.Call {
	key, n := mark(l.keys[0], request)
	return driver.Call{
		Script: rateLimiterRelease,
		Keys:   append(l.keys[:], key),
		Args:   []string{strconv.Itoa(l.permits), n, markLife},
	}
}

// DecodeReleased decodes the reply to a release of permits of a rate limiter:
// how many are left for another request.
func DecodeReleased(r driver.Reply) (left int, err error) {
	if r.Type != driver.Int {
		return 0, unexpected(rateLimiterRelease, r)
	}
	if r.Int < 0 {
		return 0, ErrNoRate
	}
	return int(max(r.Int-1, 0)), nil
}

// A Rate is a number of permits per interval.
type Rate struct {
	Permits   int
	Interval  time.Duration
	PerClient bool
	Keep      time.Duration // how long an unused limiter is kept; zero: for ever
}

// When says when to set a rate.
type When string

// When to set a rate.
const (
	WhenNew When = "new" // if there is no rate
	Always  When = "any" // always; taken permits no longer count
	WhenOld When = "old" // if there is a rate; taken permits still count
)

// Set returns the call that sets the rate. The reply says whether it did.
func (l *RateLimiter) Set(request string, r Rate, when When) driver.Call {
	key, n := mark(l.keys[0], request)
	return driver.Call{
		Script: rateLimiterSet,
		Keys:   append(l.keys[:], key),
		Args: []string{
			strconv.Itoa(r.Permits), millis(r.Interval), flag(r.PerClient), millis(r.Keep),
			n, markLife, string(when),
		},
	}
}

// Inspect returns the rate and how many permits are free. Without a rate,
// Rate.Permits is zero.
func (l *RateLimiter) Inspect(ctx context.Context, d driver.Driver) (Rate, int, error) {
	r, err := d.Do(ctx, driver.Call{Script: rateLimiterInspect, Keys: l.keys[:]})
	if err != nil {
		return Rate{}, 0, err
	}
	return decodeRate(r)
}

func decodeRate(r driver.Reply) (Rate, int, error) {
	if r.Type != driver.List || len(r.List) != 0 && len(r.List) != 5 {
		return Rate{}, 0, unexpected(rateLimiterInspect, r)
	}
	if len(r.List) == 0 {
		return Rate{}, 0, nil
	}
	var n [5]int64
	for i, e := range r.List {
		if e.Type != driver.Int || e.Int < 0 {
			return Rate{}, 0, unexpected(rateLimiterInspect, r)
		}
		n[i] = e.Int
	}
	return Rate{
		Permits:   int(n[0]),
		Interval:  remaining(n[1]),
		PerClient: n[2] == 1,
		Keep:      remaining(n[3]),
	}, int(n[4]), nil
}
