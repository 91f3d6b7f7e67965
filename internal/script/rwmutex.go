package script

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var (
	readAcquire  = load("rwmutex_read_acquire")
	readRelease  = load("rwmutex_read_release")
	readForce    = load("rwmutex_read_force")
	writeAcquire = load("rwmutex_write_acquire")
	writeRelease = load("rwmutex_write_release")
	writeForce   = load("rwmutex_write_force")
	rwInspect    = load("rwmutex_inspect")
)

const (
	// writerHeartbeat is how often a writer that goes first says that it waits.
	writerHeartbeat = time.Second
	// writerLife is for how long that keeps readers out.
	writerLife = 3 * writerHeartbeat
)

// rw is the wire format of Redisson's RReadWriteLock: a hash with the mode, the
// readers and the writer, a key for every hold of every reader, whose TTL is
// that of the hold, and a channel. The set of waiting writers with priority is
// an addition of Holdfast.
type rw struct {
	name     string
	root     string // the prefix of readers' keys
	writers  string
	channel  string
	channels []string // only that channel
	gate     string   // shared by all readers, or by all writers
}

func newRW(name string) rw {
	channel := prefixed("redisson_rwlock", name)
	return rw{name: name, root: root(name), writers: prefixed("holdfast:writers", name), channel: channel, channels: []string{channel}}
}

// Channels returns the channel on which a release is published.
func (l *rw) Channels(string) []string { return l.channels }

// Gate is shared by all readers, or by all writers.
func (l *rw) Gate() string { return l.gate }

// own returns the prefix of the keys of one reader.
func (l *rw) own(reader string) string { return readerKeys(l.root, reader) }

func readerKeys(root, reader string) string { return root + ":" + reader + ":rwlock_timeout" }

// Read is a read/write lock as its readers see it.
type Read struct {
	rw
	WriterFirst bool     // waiting writers have priority over later readers
	keys        []string // of a claim
	queued      Queued
}

// NewRead returns the read lock with that name.
func NewRead(name string) *Read {
	l := &Read{rw: newRW(name)}
	l.gate = l.channel + "\x00read"
	l.keys = []string{name, l.root}
	queue := queueKey(name)
	l.queued = Queued{unqueued: l, queue: queue, grant: readGrant, grantKeys: []string{name, l.root, queue}}
	return l
}

// Traits say that readers read together. They share holds, unless they have to ask the server
// whether a writer has priority.
func (l *Read) Traits() Traits {
	return Traits{Queue: Together, Shared: !l.WriterFirst, PerSide: true, Plain: true}
}

// Ref refers to the reader's field of the hash and to its own keys.
func (l *Read) Ref(owner string) LockRef {
	return LockRef{Key: l.name, Owner: owner, Reads: l.root}
}

// Claim returns the call that takes the lock if no writer but Under holds it, or
// enters it again if the count is more than one.
func (l *Read) Claim(c Claim) driver.Call {
	call := driver.Call{
		Script: readAcquire,
		Keys:   l.keys,
		Args:   args(millis(c.Lease), c.Owner, flag(c.Wait)),
	}
	if c.Count > 1 || c.Under != "" {
		call.Args = append(call.Args, strconv.Itoa(c.Count))
	}
	if c.Under != "" {
		call.Args = append(call.Args, writer(c.Under))
	}
	return call
}

// Decode decodes the reply to a claim.
func (l *Read) Decode(_ Claim, r driver.Reply) (Verdict, error) {
	return decodeVerdict(readAcquire, r)
}

// Release lowers the owner's hold count to left. Zero frees the lock.
func (l *Read) Release(ctx context.Context, d driver.Driver, owner string, left int) (Freed, error) {
	return leave(ctx, d, l.release(owner, left))
}

// Free returns the call that releases the lock if owner holds it.
func (l *Read) Free(owner string) driver.Call { return l.release(owner, 0) }

func (l *Read) release(owner string, left int) driver.Call {
	return driver.Call{
		Script: readRelease,
		Keys:   l.keys,
		Args:   args(owner, strconv.Itoa(left), publish),
	}
}

// Force frees the lock of all readers. It reports whether there were any.
func (l *Read) Force(ctx context.Context, d driver.Driver) (bool, error) {
	return force(ctx, d, driver.Call{Script: readForce, Keys: []string{l.name, l.channel, l.root}, Args: []string{publish}})
}

// Write is a read/write lock as its writers see it.
type Write struct {
	rw
	first  bool
	keys   []string // of a claim
	queued Queued
}

// NewWrite returns the write lock with that name. If first is set, its waiting
// writers have priority over later readers.
func NewWrite(name string, first bool) *Write {
	l := &Write{rw: newRW(name), first: first}
	l.gate = l.channel + "\x00write"
	l.keys = []string{name, l.writers, l.root}
	queue := queueKey(name)
	l.queued = Queued{
		unqueued: l, queue: queue, enter: writeQueue, grant: writeGrant,
		enterKeys: []string{name, l.writers, l.root, queue},
		grantKeys: []string{name, l.writers, l.channel, l.root, queue},
	}
	return l
}

// Traits say whether a waiter must send heartbeats to keep new readers out.
func (l *Write) Traits() Traits {
	if l.first {
		return Traits{PerSide: true, Plain: true, Heartbeat: writerHeartbeat}
	}
	return Traits{PerSide: true, Plain: true}
}

// writer returns the field of an owner that holds the write lock.
func writer(owner string) string { return owner + ":write" }

// Ref refers to the writer's field of the hash.
func (l *Write) Ref(owner string) LockRef {
	return LockRef{Key: l.name, Owner: writer(owner)}
}

// Claim returns the call that takes the lock if it is free, or enters it again if
// the count is more than one.
func (l *Write) Claim(c Claim) driver.Call {
	first := "0"
	if l.first && c.Wait {
		first = strconv.FormatInt(writerLife.Milliseconds(), 10)
	}
	return driver.Call{
		Script: writeAcquire,
		Keys:   l.keys,
		Args:   args(millis(c.Lease), writer(c.Owner), strconv.Itoa(c.Count), first),
	}
}

// Decode decodes the reply to a claim.
func (l *Write) Decode(_ Claim, r driver.Reply) (Verdict, error) {
	return decodeVerdict(writeAcquire, r)
}

// Release lowers the owner's hold count to left. Zero frees the lock. The
// owner's read holds stay.
func (l *Write) Release(ctx context.Context, d driver.Driver, owner string, left int) (Freed, error) {
	return leave(ctx, d, l.release(owner, left))
}

// Free returns the call that releases the lock if owner holds it. If owner
// waited for it, new readers are allowed again.
func (l *Write) Free(owner string) driver.Call { return l.release(owner, 0) }

func (l *Write) release(owner string, left int) driver.Call {
	return driver.Call{
		Script: writeRelease,
		Keys:   l.queued.grantKeys[:4:4],
		Args:   args(writer(owner), strconv.Itoa(left), publish),
	}
}

// Force frees the lock of its writer. It reports whether there was one.
func (l *Write) Force(ctx context.Context, d driver.Driver) (bool, error) {
	return force(ctx, d, driver.Call{Script: writeForce, Keys: []string{l.name, l.channel, l.root}, Args: []string{publish}})
}

// RWState is the state of a read/write lock. The zero RWState is that of a free
// lock.
type RWState struct {
	Writer  Party
	Readers []Party
	TTL     time.Duration // of the whole lock; negative: it never expires
}

// A Party is a holder of a read/write lock.
type Party struct {
	Owner string
	Count int
	TTL   time.Duration // of a reader
}

// Inspect returns the state of both sides of the lock. If there are more than
// about a thousand readers, it returns only some of them, including the named
// one.
func (l *rw) Inspect(ctx context.Context, d driver.Driver, reader string) (RWState, error) {
	r, err := d.Do(ctx, driver.Call{Script: rwInspect, Keys: []string{l.name, l.root}, Args: []string{reader}})
	if err != nil {
		return RWState{}, err
	}
	return decodeRWState(r)
}

func decodeRWState(r driver.Reply) (RWState, error) {
	bad := func() (RWState, error) { return RWState{}, unexpected(rwInspect, r) }
	if r.Type != driver.List || len(r.List)%3 != 2 || r.List[0].Type != driver.Int || r.List[1].Type != driver.Str {
		return bad()
	}
	var s RWState
	if s.TTL = remaining(r.List[0].Int); r.List[0].Int == -2 {
		return RWState{}, nil
	}
	if r.List[1].Str == "" {
		return bad() // the hash of a lock of another kind
	}
	for p := r.List[2:]; len(p) > 0; p = p[3:] {
		if p[0].Type != driver.Str || p[1].Type != driver.Int || p[2].Type != driver.Int {
			return bad()
		}
		party := Party{Owner: p[0].Str, Count: int(p[1].Int), TTL: remaining(p[2].Int)}
		if owner, ok := strings.CutSuffix(party.Owner, ":write"); ok {
			s.Writer = Party{Owner: owner, Count: party.Count, TTL: s.TTL}
		} else if p[2].Int != -2 { // a dead reader holds nothing
			s.Readers = append(s.Readers, party)
		}
	}
	return s, nil
}
