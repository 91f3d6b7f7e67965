// Package inspect is the operator's view of the locks on a server: which are
// held, of which kind, by whom and for how long, and who waits. It reads what
// Holdfast and Redisson have left there, and changes nothing but for
// [Inspector.Break].
//
//	for lock, err := range inspect.New(client.Driver()).Locks(ctx, inspect.Query{}) {
//		...
//	}
//
// What it returns is true of one lock at one moment; the next may be seen a
// moment later.
//
// Redisson keeps no list of its locks, so the package scans all keys. SCAN runs
// inside a script: scripts are routed by a key, so no driver needs a method of
// its own for it. A hash counts as a lock if it has the fields of a lock and
// nothing else. Every script bounds what it reads, whatever is stored.
//
// The package needs an operator's rights. SCAN shows the names of all keys, so
// programs should not have the right to it. Redis knows the owner of a lock, but
// not which process is behind it.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
)

// A Kind is a kind of lock.
type Kind string

// The kinds. A fair mutex that nobody waits for looks like any other: it is a
// Mutex here. So is a lock that is free and has left nothing behind.
const (
	Mutex     Kind = "mutex"
	Fair      Kind = "fair"      // with a queue
	Fenced    Kind = "fenced"    // with a counter of tokens
	Election  Kind = "election"  // whose leader has proclaimed something
	RW        Kind = "rw"        // readers, or a writer
	Semaphore Kind = "semaphore" // a leased one, with permits that are taken
)

// A Mode is how a lock is held.
type Mode string

// The modes.
const (
	Exclusive Mode = "exclusive"
	Read      Mode = "read"
	Write     Mode = "write"
	Permit    Mode = "permit"
)

// A Lock is what the server says about a lock at one moment.
type Lock struct {
	Name    string
	Kind    Kind
	Holders []Holder // none if it is free; readers and permits may be several
	Queue   []string // owners that wait for a fair mutex, first come first
	// Clients is how many clients listen for the release, each for one or
	// more that wait; negative if the server does not tell.
	Clients int
	Token   int64  // the last that was given out; 0 if it has no counter
	Leader  string // what the leader of an election has proclaimed
	More    int    // how many holders and waiters more there are than are listed
}

// A Holder holds a lock.
type Holder struct {
	Owner string // of a lease, or of a Java thread; the id of a permit
	Mode  Mode
	Holds int           // how often it has entered the lock
	TTL   time.Duration // until it expires if it is not renewed; negative: never
}

// A Query says which locks to list. The zero value means all, within bounds that
// no server minds.
type Query struct {
	Match string        // a pattern as that of SCAN: * ? [ab] \
	Limit int           // how many locks at most; default 1,000
	Keys  int           // how many keys to go through, about; default 1,000,000
	Pause time.Duration // after every few hundred keys; default none
}

// ErrMore says that there are more keys than [Query] allows to look at, or more
// locks than to list.
var ErrMore = errors.New("the list is incomplete")

// ErrNotLock says that the key of that name belongs to something that is not a
// lock.
var ErrNotLock = errors.New("not a lock")

// An Inspector looks at the locks on one server, or on all masters of a cluster.
// It is safe for concurrent use.
type Inspector struct{ driver driver.Driver }

// New returns an inspector that asks through d: holdfast.Client.Driver.
func New(d driver.Driver) *Inspector { return &Inspector{d} }

// ready says what is wrong with the inspector, or with the context of a call.
func (i *Inspector) ready(ctx context.Context) error {
	switch {
	case i == nil || i.driver == nil:
		return fmt.Errorf("%w: the driver is nil: use inspect.New(client.Driver())", engine.ErrInvalid)
	case ctx == nil:
		return fmt.Errorf("%w: the context is nil: use context.Background()", engine.ErrInvalid)
	}
	return nil
}
