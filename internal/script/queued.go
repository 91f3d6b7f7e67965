package script

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

var (
	mutexQueue = load("mutex_queue", "pass")
	mutexPass  = load("mutex_pass", "pass")
)

// A QueuedMutex is a mutex whose waiting clients queue at the server. The release grants
// it to the first of them, and tells only that client. The queue is an addition of
// Holdfast. Clients that do not queue, such as Redisson, share the mutex.
type QueuedMutex Mutex

// Queued returns the same mutex with a queue.
func (m *Mutex) Queued() *QueuedMutex { return (*QueuedMutex)(m) }

// Plain returns the same mutex without the queue.
func (q *QueuedMutex) Plain() *Mutex { return (*Mutex)(q) }

// Traits say that a release grants the mutex to a client in the queue.
func (q *QueuedMutex) Traits() Traits { return Traits{Queue: OneAtATime, Directed: true} }

// Gate is the key.
func (q *QueuedMutex) Gate() string { return q.Plain().Gate() }

// Ref refers to the owner's field of the hash.
func (q *QueuedMutex) Ref(owner string) LockRef { return q.Plain().Ref(owner) }

// Channels returns the channel on which a release without a grant is published.
func (q *QueuedMutex) Channels(owner string) []string { return q.Plain().Channels(owner) }

// GrantChannels returns the channels on which the client of an owner must listen to be
// granted the mutex by a release. Grants come on the last one.
func (q *QueuedMutex) GrantChannels(owner string) []string {
	id, _, _ := strings.Cut(owner, ":")
	return []string{q.keys[2], q.keys[2] + ":" + id}
}

// IsGrantChannel reports whether a channel is one of those of GrantChannels.
func IsGrantChannel(channel string) bool { return strings.HasPrefix(channel, "holdfast:queue:") }

func (q *QueuedMutex) queueKeys() []string { return []string{q.keys[0], q.keys[2]} }

// Claim returns the call that takes the mutex if it is free, and queues for it if the
// client listens.
func (q *QueuedMutex) Claim(c Claim) driver.Call {
	if !c.Queue {
		return q.Plain().Claim(c)
	}
	return driver.Call{Script: mutexQueue, Keys: q.queueKeys(), Args: []string{millis(c.Lease), c.Owner}}
}

// Decode decodes the reply to a claim.
func (q *QueuedMutex) Decode(c Claim, r driver.Reply) (Verdict, error) {
	if !c.Queue || r.Type == driver.Int {
		return q.Plain().Decode(c, r)
	}
	if r.Type != driver.List || len(r.List) != 2 || r.List[0].Type != driver.Int || r.List[0].Int > 0 || r.List[1].Type != driver.Int {
		return Verdict{}, unexpected(mutexQueue, r)
	}
	v := verdict(r.List[0].Int)
	v.Place = int(min(max(r.List[1].Int, 0), maxPlace))
	return v, nil
}

// maxPlace bounds the place in a queue that callers see.
const maxPlace = 1_000_000

// Release lowers the owner's hold count to left. Zero frees the mutex, or grants it to a
// client in the queue.
func (q *QueuedMutex) Release(ctx context.Context, d driver.Driver, owner string, left int) (Freed, error) {
	if left > 0 {
		return q.Plain().Release(ctx, d, owner, left)
	}
	return leave(ctx, d, q.Free(owner))
}

// Free returns the call that releases the mutex if owner holds it, and removes owner from
// the queue.
func (q *QueuedMutex) Free(owner string) driver.Call {
	return q.free(owner, int(clock.Random(100)))
}

func (q *QueuedMutex) free(owner string, lot int) driver.Call {
	return driver.Call{Script: mutexPass, Keys: q.queueKeys(), Args: []string{owner, q.keys[1], publish, strconv.Itoa(lot)}}
}

// A Grant is a message that a release has granted a lock.
type Grant struct {
	Token int64
	Lease time.Duration // from the grant
}

// DecodeGrant decodes what follows the owner in the message of a grant. It returns false
// if it is not a grant.
func DecodeGrant(text string) (Grant, bool) {
	token, lease, _ := strings.Cut(text, " ")
	t, err := strconv.ParseInt(token, 10, 64)
	ms, err2 := strconv.ParseInt(lease, 10, 64)
	if err != nil || err2 != nil || t <= 0 || ms <= 0 || ms > maxGrant.Milliseconds() {
		return Grant{}, false
	}
	return Grant{t, time.Duration(ms) * time.Millisecond}, true
}

// maxGrant bounds the lease time of a grant.
const maxGrant = time.Minute
