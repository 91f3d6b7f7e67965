package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/access"
)

// A State is the state of a lock at the server at one moment.
type State struct {
	Locked bool
	Owner  string // of a lease ([Lease.Owner]), or of a Java thread
	Holds  int    // how many times the owner holds it

	// TTL is the time until the lock expires, unless it is renewed. It is
	// negative if the lock never expires.
	TTL time.Duration

	// Client is the process of the owner, as far as it is known.
	Client *inspect.Client

	Waiting []string // the owners in the queue of a fair mutex, first come first
	Token   int64    // of the last grant of a fenced mutex, to any owner; zero before the first
}

// State asks the server for the holder of the mutex, the queue of a fair mutex, and the
// last token of a fenced mutex.
func (m *Mutex) State(ctx context.Context) (State, error) {
	s, err := m.look(ctx)
	if err == nil && s.Locked {
		s.Client, _ = inspect.New(m.client.driver).Client(ctx, s.Owner) // not essential
	}
	return s, err
}

// look returns the state without the client. It is one request.
func (m *Mutex) look(ctx context.Context) (State, error) {
	var s State
	err := m.ask(ctx, "inspect", true, func(ctx context.Context) error {
		seen, err := m.wire.Inspect(ctx, m.client.driver)
		s = State{Locked: seen.Owner != "", Owner: seen.Owner, Holds: seen.Count, TTL: seen.TTL, Waiting: seen.Waiting, Token: seen.Token}
		return err
	})
	return s, err
}

// IsLocked asks the server whether the mutex is held.
func (m *Mutex) IsLocked(ctx context.Context) (bool, error) {
	s, err := m.look(ctx)
	return s.Locked, err
}

// HoldCount asks the server how many times the owner in ctx holds the mutex. It
// is zero if ctx does not come from a lease on this mutex.
func (m *Mutex) HoldCount(ctx context.Context) (int, error) {
	s, err := m.look(ctx)
	if err != nil {
		return 0, err
	}
	if l := m.client.find(ctx, m.kind, m.name); l == nil || l.Owner() != s.Owner {
		return 0, err
	}
	return s.Holds, err
}

// ForceUnlock frees the mutex, regardless of its holder, and reports whether it was
// held. If a lease of this client holds the mutex, it is lost even if ForceUnlock
// returns an error, and its context ends at once. Other holders notice the loss at
// their next renewal. The queue of a fair mutex and the counter of a fenced mutex are
// kept.
func (m *Mutex) ForceUnlock(ctx context.Context) (bool, error) {
	return m.force(ctx, m.wire, func(ctx context.Context) (bool, error) { return m.wire.Force(ctx, m.client.driver, "") })
}

// managed returns the mutex with its keys. Deleting it frees the mutex.
func (m *Mutex) managed() access.Managed {
	o := m.named.managed()
	o.Free = m.ForceUnlock
	return o
}
