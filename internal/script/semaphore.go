package script

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var (
	number           = load("number")
	semaphoreAcquire = load("semaphore_acquire")
	semaphoreUndo    = load("semaphore_undo")
	semaphoreRelease = load("semaphore_release")
	semaphoreSet     = load("semaphore_set")
	semaphoreDrain   = load("semaphore_drain")
)

// The reasons of a refusal.
const (
	notEnough   = "there are not enough free permits"
	noSemaphore = "the semaphore does not exist: declare the number of permits with WithPermits, or set it with TrySet"
)

// A Semaphore is the wire format of Redisson's RSemaphore, for a request of that
// many permits: a number, and a channel for the waiters. The marks by which the
// server recognizes a repeated request are an addition of Holdfast.
type Semaphore struct {
	*series
	permits int
}

// series has the keys of the requests to one semaphore.
type series struct {
	name, channel string
	last          atomic.Pointer[seriesKeys] // mostly those of the next request, too
}

// seriesKeys are the keys of one series of requests.
type seriesKeys struct {
	series string
	keys   [3]string // semaphore, mark, channel
}

// NewSemaphore returns a request to the semaphore with that name.
func NewSemaphore(name string, permits int) *Semaphore {
	return &Semaphore{&series{name: name, channel: prefixed("redisson_sc", name)}, permits}
}

// For returns a request for another number of permits.
func (s *Semaphore) For(permits int) *Semaphore {
	if permits == s.permits {
		return s
	}
	return &Semaphore{s.series, permits}
}

// of returns the keys of a request, and its number.
func (s *series) of(request string) (keys *[3]string, number string) {
	i := strings.LastIndexByte(request, ':')
	last := s.last.Load()
	if last == nil || last.series != request[:i] {
		key, _ := mark(s.name, request)
		last = &seriesKeys{request[:i], [3]string{s.name, key, s.channel}}
		s.last.Store(last)
	}
	return &last.keys, request[i+1:]
}

// Wants returns how many permits are requested.
func (s *Semaphore) Wants() int { return s.permits }

// Traits say that a request is known by its number.
func (s *Semaphore) Traits() Traits { return Traits{Queue: InOrder, Numbered: true} }

// Gate is shared by all requests, however many permits they want.
func (s *Semaphore) Gate() string { return s.channel }

// Channels returns the channel on which free permits are published.
func (s *Semaphore) Channels(string) []string { return []string{s.channel} }

// Claim returns the call that takes the permits if enough are free.
func (s *Semaphore) Claim(c Claim) driver.Call {
	keys, n := s.of(c.Owner)
	return Spend(driver.Call{Script: semaphoreAcquire, Keys: keys[:2:2], Args: args(strconv.Itoa(s.permits), n, markLife)}, c.Spent)
}

// Decode decodes the reply to a claim.
func (s *Semaphore) Decode(_ Claim, r driver.Reply) (Verdict, error) {
	switch {
	case r.Type != driver.Int || r.Int < -1 || r.Int > 1:
		return Verdict{}, unexpected(semaphoreAcquire, r)
	case r.Int < 0:
		return Verdict{TTL: -1, Why: noSemaphore, Missing: s.name}, nil
	case r.Int == 0:
		return Verdict{TTL: -1, Why: notEnough}, nil
	}
	return Verdict{Token: 1}, nil
}

// Free returns the call that releases the permits that a request may have
// acquired.
func (s *Semaphore) Free(request string) driver.Call {
	return s.told(semaphoreUndo, request)
}

// Release returns the call that adds the permits, a number that may be negative.
// Optionally it does so only if the semaphore exists. The reply is zero if it
// does not exist, and else one more than the number of clients that received the
// message.
func (s *Semaphore) Release(request string, existing bool) driver.Call {
	keys, n := s.of(request)
	return driver.Call{Script: semaphoreRelease, Keys: keys[:], Args: args(strconv.Itoa(s.permits), n, markLife, publish, flag(existing))}
}

// Set returns the call that sets the number of permits, with a TTL or for ever,
// unless it is set. The reply says whether it did.
func (s *Semaphore) Set(request string, ttl time.Duration) driver.Call {
	return s.told(semaphoreSet, request, millis(ttl))
}

// told returns the call of a numbered request that publishes a message to the
// waiters.
func (s *Semaphore) told(script *driver.Script, request string, more ...string) driver.Call {
	c := numbered(script, s.name, request, strconv.Itoa(s.permits), append([]string{publish}, more...)...)
	c.Keys = append(c.Keys, s.channel)
	return c
}

// Drain returns the call that acquires all free permits. The reply is their
// number.
func (s *Semaphore) Drain(request string) driver.Call {
	key, n := mark(s.name, request)
	return driver.Call{Script: semaphoreDrain, Keys: []string{s.name, key}, Args: []string{n, markLife}}
}

// Available returns how many permits are free.
func (s *Semaphore) Available(ctx context.Context, d driver.Driver) (int, error) {
	return readNumber(ctx, d, s.name)
}

// readNumber reads a small number from a key. A missing key counts as zero.
func readNumber(ctx context.Context, d driver.Driver, key string) (int, error) {
	r, err := d.Do(ctx, driver.Call{Script: number, Keys: []string{key}})
	if err != nil {
		return 0, err
	}
	return DecodeInt(r)
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// DecodeInt decodes a reply that is a number, or its text.
func DecodeInt(r driver.Reply) (int, error) {
	n, err := DecodeInt64(r)
	return int(n), err
}

func decodeBool(s *driver.Script, r driver.Reply, err error) (bool, error) {
	if err == nil && (r.Type != driver.Int || r.Int < 0 || r.Int > 1) {
		err = unexpected(s, r)
	}
	return r.Int == 1, err
}
