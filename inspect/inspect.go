// Package inspect shows the locks on a server: which locks are held, their
// kinds, their holders, their remaining times, and their waiters. It reads the
// keys of Holdfast and Redisson. It changes nothing, except for
// [Inspector.Break].
//
//	for lock, err := range inspect.New(client.Driver()).Locks(ctx, inspect.Query{}) {
//		...
//	}
//
// Each [Lock] is the state of one lock at one moment. The locks of a list are
// read one after the other.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
)

// A Kind is a kind of lock, as errors and events call it.
type Kind string

// The kinds. A fair mutex without waiters cannot be distinguished from a plain one
// and is reported as Mutex. A free lock that keeps no data on the server is also
// reported as Mutex, unless its first waiter wants another kind.
const (
	Mutex     Kind = "mutex"
	Fair      Kind = "fair mutex"       // with a queue
	Fenced    Kind = "fenced mutex"     // with a counter of tokens
	Election  Kind = "election"         // with a leader that has published its name
	RW        Kind = "read/write mutex" // see [Holder].Mode
	Semaphore Kind = "leased semaphore" // with taken permits, or with clients in the queue
)

// A Mode is the way in which a lock is held.
type Mode string

// The modes.
const (
	Exclusive Mode = "exclusive"
	Read      Mode = "read"
	Write     Mode = "write"
	Permit    Mode = "permit"
)

// A Lock is the state of a lock on the server at one moment.
type Lock struct {
	Name    string
	Kind    Kind
	Holders []Holder // the holders; several for readers and permits, none if the lock is free
	Queue   []Waiter // the waiters in the queues at the server, in the order of arrival; see [Waiter]
	// Queued is the number of waiters in the queues, listed or not. It is negative
	// if it is unknown, because the user lacks permission for holdfast:queue:*.
	Queued int
	// Clients is the number of clients that listen for the release. Each of
	// them may have several waiters. It is negative if the server does not show
	// it.
	Clients int
	Token   int64  // the token of the last grant; 0 if the lock has no counter
	Leader  string // the candidate that the leader of an election has published
	More    int    // the number of holders and waiters that are not listed
}

// A Holder is an owner that holds a lock.
type Holder struct {
	Owner string // the owner of a lease, a Java thread, or the id of a permit
	Mode  Mode
	Holds int           // how many times the owner has entered the lock
	TTL   time.Duration // the time until the hold expires if it is not renewed; negative if it never expires
	// Client is the process of the owner. It is nil for permits: their ids do not say
	// whose they are.
	Client *Client
}

// A Waiter is an owner that waits in a queue at the server. A lock can have two
// queues:
//
//   - Owners that wait for a fair mutex are in Redisson's queue. They are listed
//     first.
//   - Clients of Holdfast that wait for a mutex, a fenced mutex or an election,
//     for permits of a leased semaphore, or to write under a read/write mutex,
//     are in a queue of Holdfast. Of each client, only the first waiter is
//     there. Other goroutines that wait in the same process are not known to
//     the server.
//
// Readers, Redisson, and callers that poll or only try do not queue.
// [Lock.Clients] counts clients that wait outside of the queue, too. A process
// that was killed stays in the queue until a release passes over it, for at most
// five minutes after the last request of any client.
type Waiter struct {
	Owner string // up to 512 bytes of it
	// Place is the place in its queue; 1 is the first. Permits do not always go
	// to the first: a release passes over waiters that want more than are free.
	Place   int
	Kind    Kind          // the kind that it waits for: Fair, Mutex, Fenced (also an election), RW to write, or Semaphore; empty if the entry is not valid
	Permits int           // the number of permits that it waits for; 0 if Kind is not Semaphore
	Waited  time.Duration // the time since its first request, by the clock of the server; negative if unknown
	Client  *Client       // the process of the owner; nil if the entry is not valid
}

// A Query selects the locks to list. The zero value selects all locks, with
// limits that are safe for any server.
type Query struct {
	Match string        // a pattern for names, as for SCAN: * ? [ab] \; the default matches all
	Limit int           // the maximum number of locks; the default is 1,000
	Keys  int           // the approximate maximum number of keys to scan; the default is 1,000,000
	Pause time.Duration // a pause after every request to scan keys; the default is none
	Step  int           // the approximate number of keys per request, which delays other clients for as long as it runs; the default is 250
}

// ErrMore means that a limit of the [Query], or the maximum size of a list, was
// reached, so the list is not complete.
var ErrMore = errors.New("the list is incomplete")

// ErrNotLock means that the key with this name is not a lock.
var ErrNotLock = errors.New("not a lock")

// ErrNotLimiter means that the key with this name is not a rate limiter.
var ErrNotLimiter = errors.New("not a rate limiter")

// An Inspector inspects the locks on one server, or on all masters of a
// cluster. It is safe for concurrent use.
type Inspector struct{ driver driver.Driver }

// New returns an inspector that uses the driver d, for example that of
// holdfast.Client.Driver.
func New(d driver.Driver) *Inspector { return &Inspector{d} }

// ready returns an error if the inspector or the context of a call is invalid.
func (i *Inspector) ready(ctx context.Context) error {
	switch {
	case i == nil || i.driver == nil:
		return fmt.Errorf("%w: the driver is nil: use inspect.New(client.Driver())", engine.ErrInvalid)
	case ctx == nil:
		return fmt.Errorf("%w: the context is nil: use context.Background()", engine.ErrInvalid)
	}
	return nil
}
