package script

import (
	"context"
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast/driver"
)

var (
	latchSet       = load("latch_set")
	latchCountdown = load("latch_countdown")
)

// A Latch is the wire format of Redisson's RCountDownLatch: a number that is
// deleted when it reaches zero, and a channel for the waiters.
type Latch struct {
	name    string
	channel string
}

// NewLatch returns the Latch with that name.
func NewLatch(name string) *Latch {
	// Redisson puts braces around the name even if the name contains braces. The
	// channel of such a latch may be in another slot than its key.
	return &Latch{name, "redisson_countdownlatch__channel__{" + name + "}"}
}

// Traits say that to wait for a latch changes nothing.
func (l *Latch) Traits() Traits { return Traits{Queue: Together, ReadOnly: true} }

// Gate is shared by all waiters.
func (l *Latch) Gate() string { return l.channel }

// Channels returns the channel on which the opening of the latch is published.
func (l *Latch) Channels(string) []string { return []string{l.channel} }

// Claim returns the call that reads the count.
func (l *Latch) Claim(Claim) driver.Call {
	return driver.Call{Script: number, Keys: []string{l.name}}
}

// Decode grants a claim if the latch is open.
func (l *Latch) Decode(_ Claim, r driver.Reply) (Verdict, error) {
	n, err := DecodeInt(r)
	if err != nil {
		return Verdict{}, err
	}
	if n <= 0 {
		return Verdict{Token: 1}, nil
	}
	return Verdict{TTL: -1, Why: fmt.Sprintf("the count was %d at the last look", n)}, nil
}

// Free has nothing to free.
func (l *Latch) Free(string) driver.Call { return l.Claim(Claim{}) }

// Count returns the count, zero if the latch is open.
func (l *Latch) Count(ctx context.Context, d driver.Driver) (int, error) {
	return readNumber(ctx, d, l.name)
}

// Set returns the call that sets the count of an open latch, or of any. The reply says
// whether it did.
func (l *Latch) Set(request string, count int, always bool) driver.Call {
	return numbered(latchSet, l.name, request, strconv.Itoa(count), publish, l.channel, flag(always))
}

// CountDown returns the call that counts down by one. The reply is the new
// count.
func (l *Latch) CountDown(request string) driver.Call {
	key, n := mark(l.name, request)
	return driver.Call{
		Script: latchCountdown,
		Keys:   []string{l.name, key},
		Args:   []string{n, markLife, publish, l.channel},
	}
}
