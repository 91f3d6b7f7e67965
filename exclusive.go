package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

// exclusive is the common part of all locks with one holder: how they are inspected
// and freed. They are acquired by named.acquire.
type exclusive struct {
	named
	wire interface {
		engine.Kind
		Inspect(context.Context, driver.Driver) (script.State, error)
		Force(ctx context.Context, d driver.Driver, owner string) (bool, error)
	}
}

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

	Waiting []string // the owners in the queue of a [FairMutex], first come first
}

func (x *exclusive) state(ctx context.Context) (State, error) {
	s, err := x.look(ctx)
	if err == nil && s.Locked {
		s.Client, _ = inspect.New(x.client.driver).Client(ctx, s.Owner) // not essential
	}
	return s, err
}

// look returns the state without the client.
func (x *exclusive) look(ctx context.Context) (State, error) {
	var s State
	err := x.ask(ctx, "inspect", true, func(ctx context.Context) error {
		seen, err := x.wire.Inspect(ctx, x.client.driver)
		s = State{Locked: seen.Owner != "", Owner: seen.Owner, Holds: seen.Count, TTL: seen.TTL, Waiting: seen.Waiting}
		return err
	})
	return s, err
}

func (x *exclusive) isLocked(ctx context.Context) (bool, error) {
	s, err := x.look(ctx)
	return s.Locked, err
}

func (x *exclusive) holdCount(ctx context.Context) (int, error) {
	s, err := x.look(ctx)
	if err != nil {
		return 0, err
	}
	if l := x.client.find(ctx, x.kind, x.name); l == nil || l.Owner() != s.Owner {
		return 0, err
	}
	return s.Holds, err
}

func (x *exclusive) forceUnlock(ctx context.Context) (bool, error) {
	return x.force(ctx, x.wire, func(ctx context.Context) (bool, error) { return x.wire.Force(ctx, x.client.driver, "") })
}

// asObject returns the lock as an object. Deleting it frees the lock.
func (x *exclusive) asObject() *Object {
	o := x.named.asObject()
	o.free = x.forceUnlock
	return o
}
