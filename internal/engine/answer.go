package engine

import (
	"cmp"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A lastAnswer is what the server has said last about a lock that is held.
type lastAnswer struct {
	misses  int           // how many such answers there were
	ttl     time.Duration // what the holder had left; negative: it has no end; zero: not known
	seen    time.Duration // when it had that
	blocker string        // which lock of a group was held
	why     string        // why, if no holder is the reason
	plain   bool          // a client of another library holds it
	absent  bool          // what was to be taken does not exist

	// For the log.
	began   time.Duration // when the acquisition began, before it had an owner
	local   bool          // the log says that the holder is a lease of this client
	missing pace          // of messages that the object does not exist
}

func (l *lastAnswer) take(v *script.Verdict) {
	l.blocker, l.why, l.plain, l.absent = v.Key, v.Why, v.Plain, v.Missing != ""
	l.hold(v.TTL)
}

// hold sets what the holder has left. A holder that has less than a millisecond has some time.
func (l *lastAnswer) hold(ttl time.Duration) {
	l.ttl, l.seen = cmp.Or(ttl, time.Millisecond), clock.Early()
}

func (l *lastAnswer) remaining() time.Duration { return remaining(l.ttl, l.seen) }

// remaining returns what a holder has left that had the ttl at that time.
func remaining(ttl, seen time.Duration) time.Duration {
	if ttl <= 0 {
		return ttl
	}
	return max(ttl-(clock.Early()-seen), time.Millisecond)
}

// explain adds to an error which of several locks was held, and why.
func (l *lastAnswer) explain(b *Busy) {
	b.Key, b.Absent = l.blocker, l.absent
	if b.Why == "" {
		b.Why = l.why
	}
	if l.plain {
		b.Holder = plainHolder
	}
}

// pollAfter returns when a waiter without a queue asks by itself. A plain lock sends no message.
func (l *lastAnswer) pollAfter(poll, blind time.Duration, live bool) time.Duration {
	d := blind
	if live && !l.plain {
		d = poll
	}
	if l.ttl >= 0 {
		d = min(d, l.ttl+time.Millisecond)
	}
	return d
}
