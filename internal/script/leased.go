package script

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var (
	leasedAcquire = load("leased_acquire")
	leasedRelease = load("leased_release")
	leasedQueue   = load("leased_queue")
	leasedGrant   = load("leased_grant")
	leasedReturn  = load("leased_return")
	leasedResize  = load("leased_resize")
	leasedInspect = load("leased_inspect")
)

// idSize is the length of the id of a permit, in bytes.
const idSize = 16

// Leased is the wire of Redisson's RPermitExpirableSemaphore, for those who
// want that many: the number of free permits, a sorted set of the ids of those
// that are taken by when their leases end, and a channel for those who wait.
// All times are the server's.
type Leased struct {
	name    string
	leases  string
	channel string
	n       int
}

// NewLeased returns a request to the leased semaphore with that name.
func NewLeased(name string, n int) *Leased {
	return &Leased{name, suffixed(name, "timeout"), prefixed("redisson_sc", name), n}
}

// Wants returns how many permits are requested.
func (p *Leased) Wants() int { return p.n }

// Traits say that permits go to those who came first.
func (p *Leased) Traits() Traits { return Traits{Queue: InOrder} }

// Gate is shared by all requests, however many permits they want.
func (p *Leased) Gate() string { return p.leases }

// Channels returns the channel on which free permits are published.
func (p *Leased) Channels(string) []string { return []string{p.channel} }

// ids returns the concatenated ids of an owner's permits. They are derived from
// the owner, so that a repeated request has the same ids.
func (p *Leased) ids(owner string) string {
	var row []byte
	for i := range p.n {
		sum := sha1.Sum([]byte(owner + ":" + strconv.Itoa(i))) // as in leased_grant
		row = append(row, sum[:idSize]...)
	}
	return string(row)
}

// IDs returns the ids of the permits as Redisson writes them; nil: the holding has none.
func (h LockRef) IDs() (ids []string) {
	for row := []byte(h.Permits); len(row) > 0; row = row[idSize:] {
		ids = append(ids, hex.EncodeToString(row[:idSize]))
	}
	return ids
}

// ParseIDs returns the concatenated ids, or false if one is not valid.
func ParseIDs(ids []string) (row string, ok bool) {
	var b strings.Builder
	for _, id := range ids {
		raw, err := hex.DecodeString(id)
		if err != nil || len(raw) != idSize {
			return "", false
		}
		b.Write(raw)
	}
	return b.String(), true
}

// Ref refers to the ids in the sorted set.
func (p *Leased) Ref(owner string) LockRef {
	return LockRef{Key: p.leases, Owner: owner, Name: p.name, Permits: p.ids(owner)}
}

// HoldingOf returns the reference to concatenated ids.
func (p *Leased) HoldingOf(row string) LockRef { return LockRef{Key: p.leases, Permits: row} }

// Queued returns the same request with a queue.
func (p *Leased) Queued() *Queued {
	q := &Queued{unqueued: p, queue: queueKey(p.name), enter: leasedQueue, grant: leasedGrant, entry: ":permits" + strconv.Itoa(p.n)}
	q.enterKeys = []string{p.name, p.leases, p.channel, q.queue}
	q.grantKeys = q.enterKeys
	return q
}

// Claim returns the call that takes the permits if enough are free.
func (p *Leased) Claim(c Claim) driver.Call {
	return driver.Call{
		Script: leasedAcquire,
		Keys:   []string{p.name, p.leases, p.channel},
		Args:   []string{millis(c.Lease), p.ids(c.Owner), publish},
	}
}

// Decode decodes the reply to a claim.
func (p *Leased) Decode(_ Claim, r driver.Reply) (Verdict, error) {
	if r.Type == driver.Nil {
		return Verdict{TTL: -1, Why: noSemaphore, Missing: p.name}, nil
	}
	v, err := decodeVerdict(leasedAcquire, r)
	if err == nil && !v.Granted() {
		v.Why = notEnough
	}
	return v, err
}

// Release releases the permits.
func (p *Leased) Release(ctx context.Context, d driver.Driver, owner string, _ int) (Freed, error) {
	return leave(ctx, d, p.Free(owner))
}

// Free returns the call that releases the permits that owner may have.
func (p *Leased) Free(owner string) driver.Call {
	return driver.Call{
		Script: leasedRelease,
		Keys:   []string{p.name, p.leases, p.channel},
		Args:   []string{p.ids(owner), publish},
	}
}

// Return returns the call that releases permits by their concatenated ids, all
// or none. The reply says whether it did.
func (p *Leased) Return(request, row string) driver.Call {
	key, n := mark(p.name, request)
	return driver.Call{
		Script: leasedReturn,
		Keys:   []string{p.name, p.leases, p.channel, key},
		Args:   []string{row, n, markLife, publish},
	}
}

// Resize sets the total number of permits. It returns how many are free.
func (p *Leased) Resize(ctx context.Context, d driver.Driver) (int, error) {
	r, err := d.Do(ctx, driver.Call{
		Script: leasedResize,
		Keys:   []string{p.name, p.leases, p.channel},
		Args:   []string{strconv.Itoa(p.n), publish},
	})
	if err != nil {
		return 0, err
	}
	return DecodeInt(r)
}

// PermitState is the state of a leased semaphore.
type PermitState struct {
	Free, Taken int
	Held        bool          // the given permit is taken
	TTL         time.Duration // the remaining lease of that permit; negative: without end
}

// Inspect returns the state of the permits, and of the permit with the given id
// if there is one.
func (p *Leased) Inspect(ctx context.Context, d driver.Driver, id string) (PermitState, error) {
	r, err := d.Do(ctx, driver.Call{Script: leasedInspect, Keys: []string{p.name, p.leases}, Args: []string{id}})
	if err != nil {
		return PermitState{}, err
	}
	return decodePermitState(r)
}

func decodePermitState(r driver.Reply) (PermitState, error) {
	if r.Type != driver.List || len(r.List) != 3 {
		return PermitState{}, unexpected(leasedInspect, r)
	}
	for _, e := range r.List {
		if e.Type != driver.Int {
			return PermitState{}, unexpected(leasedInspect, r)
		}
	}
	left := r.List[2].Int
	s := PermitState{Free: int(r.List[0].Int), Taken: int(r.List[1].Int), Held: left != -2}
	if s.Held {
		s.TTL = remaining(left)
	}
	return s, nil
}
