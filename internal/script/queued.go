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
	mutexQueue  = load("mutex_queue")
	mutexGrant  = load("mutex_grant")
	fencedQueue = load("fenced_queue")
	fencedGrant = load("fenced_grant")
	writeQueue  = load("rwmutex_write_queue")
	writeGrant  = load("rwmutex_write_grant")
	queuePrune  = load("queue_prune")
	readGrant   = load("rwmutex_read_grant")
)

// A Queued is a lock whose waiting clients queue at the server. The release grants it to
// the first of them, and tells only that client. The queue is an addition of Holdfast.
// Clients that do not queue, such as Redisson, share the lock.
//
// All kinds of locks with one name share one queue.
type Queued struct {
	unqueued
	queue string         // the key
	enter *driver.Script // acquires or queues; nil if the kind does not queue
	grant *driver.Script // releases, and grants to the first in the queue

	enterKeys []string
	grantKeys []string

	// What follows the owner in its entry, if the scripts cannot know it. Then the entry is
	// the last argument of both.
	entry string
}

// unqueued is a kind of lock without its queue.
type unqueued interface {
	Claimer
	Traits() Traits
	Gate() string
	Channels(owner string) []string
	Ref(owner string) LockRef
	Free(owner string) driver.Call
	Release(ctx context.Context, d driver.Driver, owner string, left int) (Freed, error)
	Queued() *Queued
}

func queueKey(name string) string { return prefixed("holdfast:queue", name) }

// Queued returns the same mutex with a queue.
func (m *Mutex) Queued() *Queued { return &m.queued }

// Queued returns the same fenced mutex with a queue.
func (f *Fenced) Queued() *Queued { return &f.queued }

// Queued returns the same lock with a queue of writers.
func (l *Write) Queued() *Queued { return &l.queued }

// Queued returns the same lock. Readers do not queue, but the last one grants the lock to a
// writer that does.
func (l *Read) Queued() *Queued { return &l.queued }

// Queued returns the same fair mutex. Its queue is that of Redisson, in which owners wait
// and not clients. A release tells the next owner to ask, on the channel of its client. It
// grants nothing, because the owners in this queue are not secret.
func (f *Fair) Queued() *Queued { return &f.queued }

// Queued returns nil: votes are not granted by other clients.
func (v *Vote) Queued() *Queued { return nil }

// Unqueued returns the same lock without the queue.
func (q *Queued) Unqueued() unqueued { return q.unqueued }

// Queued returns q.
func (q *Queued) Queued() *Queued { return q }

// Joins reports whether waiting clients join the queue, so that a release grants the lock to
// one of them. Readers do not. A nil q is no queue.
func (q *Queued) Joins() bool { return q != nil && q.enter != nil }

// Traits say that the queue is used.
func (q *Queued) Traits() Traits {
	t := q.unqueued.Traits()
	t.Queued = q
	return t
}

// Channels returns the channels on which a release without a grant is published. Readers
// also listen on a channel by which a release counts them, since a client that has both a
// waiting reader and a writer in the queue would not be counted otherwise.
func (q *Queued) Channels(owner string) []string {
	cs := q.unqueued.Channels(owner)
	if q.enter == nil {
		cs = append(cs, q.queue+":readers")
	}
	return cs
}

// GrantChannels returns the channels on which the client of an owner must listen to be
// granted the lock by a release. Grants come on the last one.
func (q *Queued) GrantChannels(owner string) []string {
	id, _, _ := strings.Cut(owner, ":")
	return []string{q.queue, q.queue + ":" + id}
}

// LingeringChannel returns a channel to which a client is subscribed that has waited for the
// lock a moment ago.
func (q *Queued) LingeringChannel(owner string) string {
	if q.unqueued.Traits().Queue == AtServer { // its channels are those of one owner
		return q.GrantChannels(owner)[1]
	}
	return q.unqueued.Channels(owner)[0]
}

// IsGrantChannel reports whether a channel is one of those of GrantChannels.
func IsGrantChannel(channel string) bool { return strings.HasPrefix(channel, "holdfast:queue:") }

// Claim returns the call that takes the lock if it is free, and queues for it if the
// client listens.
func (q *Queued) Claim(c Claim) driver.Call {
	call := q.unqueued.Claim(c)
	if c.Queue {
		call.Script, call.Keys = q.enter, q.enterKeys
		if q.entry != "" {
			call.Args = append(call.Args, c.Owner+q.entry)
		}
		switch q.enter {
		case fairAcquire:
		case leasedQueue:
			call.Args = append(call.Args, most(c), flag(c.Check))
		default:
			call.Args = append(call.Args, most(c), flag(c.Check), publish)
		}
	}
	return call
}

// most returns the argument that says how many may queue.
func most(c Claim) string {
	if c.Most == 0 {
		return ""
	}
	return strconv.Itoa(c.Most)
}

// Decode decodes the reply to a claim.
func (q *Queued) Decode(c Claim, r driver.Reply) (Verdict, error) {
	if !c.Queue || r.Type != driver.List {
		return q.unqueued.Decode(c, r)
	}
	return decodePlace(q.unqueued, c, q.enter, r)
}

// decodePlace decodes the reply to a claim that was not granted: how long the lock is held,
// and the place in the queue.
func decodePlace(k Claimer, c Claim, s *driver.Script, r driver.Reply) (Verdict, error) {
	if len(r.List) < 2 || len(r.List) > 3 || r.List[0].Type != driver.Int || r.List[1].Type != driver.Int {
		return Verdict{}, unexpected(s, r)
	}
	v, err := k.Decode(c, r.List[0])
	if err != nil || v.Granted() {
		return Verdict{}, unexpected(s, r)
	}
	if len(r.List) == 3 {
		v.Entry = r.List[2].Int
	}
	v.Place, v.Full = int(min(max(r.List[1].Int, 0), maxPlace)), r.List[1].Int == full
	return v, nil
}

const (
	maxPlace = 1_000_000 // bounds the place in a queue that callers see
	full     = -1        // the place of an owner that was not queued, since as many wait as may
)

// Release lowers the owner's hold count to left. Zero frees the lock, or grants it to a
// client in the queue.
func (q *Queued) Release(ctx context.Context, d driver.Driver, owner string, left int) (Freed, error) {
	if left > 0 {
		return q.unqueued.Release(ctx, d, owner, left)
	}
	return leave(ctx, d, q.Free(owner))
}

// Free returns the call that releases the lock if owner holds it, and removes owner from
// the queue.
func (q *Queued) Free(owner string) driver.Call {
	return q.free(owner, int(clock.Random(100)))
}

func (q *Queued) free(owner string, lot int) driver.Call {
	call := q.unqueued.Free(owner)
	call.Script, call.Keys, call.Args = q.grant, q.grantKeys, append(call.Args, strconv.Itoa(lot))
	if q.entry != "" {
		call.Args = append(call.Args, owner+q.entry)
	}
	return call
}

// Prune returns the call that removes entries of clients that do not listen from the queue.
func (q *Queued) Prune() driver.Call {
	return driver.Call{Script: queuePrune, Keys: []string{q.queue}, Args: []string{strconv.Itoa(int(clock.Random(100))), publish}}
}

// A Grant is a message that a release has granted a lock.
type Grant struct {
	Token int64
	Lease time.Duration // from the grant
	Entry int64         // the number of the entry that was granted, see Verdict
}

// DecodeGrant decodes what follows the owner in the message of a grant. It returns false
// if it is not a grant.
func DecodeGrant(text string) (Grant, bool) {
	var numbers [3]int64
	fields := strings.Split(text, " ")
	if len(fields) != len(numbers) {
		return Grant{}, false
	}
	for i, field := range fields {
		var err error
		if numbers[i], err = strconv.ParseInt(field, 10, 64); err != nil || numbers[i] <= 0 {
			return Grant{}, false
		}
	}
	if numbers[1] > maxGrant.Milliseconds() {
		return Grant{}, false
	}
	return Grant{numbers[0], time.Duration(numbers[1]) * time.Millisecond, numbers[2]}, true
}

// maxGrant bounds the lease time of a grant. It is that in lua/lib/grant.lua.
const maxGrant = 3 * time.Second
