// Package access gives package object access to the inside of package holdfast: to the client
// of an object, and to the keys of a lock. Package holdfast implements it.
package access

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A Named is an object with a name, of one client. Without a client that can be used, every
// call fails, and there is no engine.
type Named interface {
	Kind() string                // as in errors and in script.Kinds
	Name() string                // the name that the program uses
	Key() string                 // the name at the server: with the prefix of the client
	Prefixed(name string) string // another name, at the server

	Engine() *engine.Engine // nil: there is none
	Driver() driver.Driver
	Combined() driver.Driver // the same, with combined calls

	// Ready returns what is wrong with the object or with the context of a call, or nil.
	Ready(ctx context.Context) error
	// Ask runs a request. With repeat, it is repeated while the server is unavailable.
	Ask(ctx context.Context, op string, repeat bool, question func(context.Context) error) error
	// Order makes the server carry out a request once, even if it is sent several times.
	Order(ctx context.Context, op string, call engine.Order) (driver.Reply, error)
	// Decide sends an order whose reply is yes or no.
	Decide(ctx context.Context, op string, call engine.Order) (bool, error)
	// Fail returns the error of an operation.
	Fail(op string, err error) error
	// Because adds the cause of ctx to an error that the end of ctx has caused.
	Because(ctx context.Context, err error) error
}

// A Managed is an object with its keys on the server.
type Managed struct {
	Named
	Wire *script.Object                      // nil: every call fails
	Free func(context.Context) (bool, error) // for a lock: frees it from its holder
	Deep string                              // for a lock: why its keys cannot be inspected; "" if they can
}

// Manage returns an object with its keys on the server.
func Manage(o Named) Managed {
	m := Managed{Named: o}
	if e := o.Engine(); e != nil {
		m.Wire = script.NewObject(o.Kind(), o.Key(), e.ID())
	}
	return m
}

// What package holdfast sets when it is initialized. Its types are not known here.
var (
	// New returns the object of that kind and name. The client is a *holdfast.Client. If
	// wrong is not nil, every call returns it.
	New func(client any, kind, name string, wrong error) Named

	// Of returns an object that package holdfast has made, such as a *holdfast.Mutex.
	Of func(x any) Managed

	// Zero stands for the zero value of a type. Every call fails.
	Zero Named
)

// MaxTime bounds all times. A longer one could overflow the arithmetic of clocks.
const MaxTime = 10 * 365 * 24 * time.Hour

// CheckTTL checks the time for which something is to exist.
func CheckTTL(d time.Duration) error {
	if d != 0 && (d < time.Millisecond || d > MaxTime) {
		return fmt.Errorf("%w: the TTL is %v: choose between 1ms and %v, or 0 for no end", engine.ErrInvalid, d, MaxTime)
	}
	return nil
}
