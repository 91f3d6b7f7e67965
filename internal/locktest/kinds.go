package locktest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/object"
)

// A MutexLike is a lock of any kind.
type MutexLike interface {
	holdfast.Locker
	IsLocked(ctx context.Context) (bool, error)
	HoldCount(ctx context.Context) (int, error)
	ForceUnlock(ctx context.Context) (bool, error)
}

// A Kind is a kind of lock to which the contract applies.
type Kind struct {
	Letter string // which tests are for it, see Each
	Name   string
	Late   time.Duration // how late a waiter may be after an expiry
	Make   func(c *holdfast.Client, name string) MutexLike
}

// Kinds are all kinds of locks. The first is the plain mutex.
var Kinds = []Kind{
	{"P", "push", Late, func(c *holdfast.Client, name string) MutexLike {
		return c.Mutex(name)
	}},
	{"S", "poll", Late + 128*time.Millisecond, func(c *holdfast.Client, name string) MutexLike {
		return c.Mutex(name, holdfast.Poll(holdfast.Backoff{}))
	}},
	{"F", "fair", Late, func(c *holdfast.Client, name string) MutexLike {
		return c.FairMutex(name)
	}},
	{"P", "fenced", Late, func(c *holdfast.Client, name string) MutexLike {
		return c.FencedMutex(name)
	}},
	{"R", "read", Late, func(c *holdfast.Client, name string) MutexLike {
		return Readers(c.RWMutex(name))
	}},
	{"W", "write", Late, func(c *holdfast.Client, name string) MutexLike {
		return c.RWMutex(name)
	}},
}

// Readers returns the lock of the readers.
func Readers(m *holdfast.RWMutex) MutexLike { return m.RLocker().(MutexLike) }

// Each runs a test for the kinds with the given letters: P plain, S spin,
// F fair, R and W the sides of a read/write lock.
func Each(t *testing.T, letters string, test func(t *testing.T, k Kind)) {
	t.Helper()
	for _, k := range Kinds {
		if strings.Contains(letters, k.Letter) {
			t.Run(k.Name, func(t *testing.T) { test(t, k) })
		}
	}
}

// Rival returns a lock that a holder of this kind excludes. For readers it is the
// write side, since readers do not exclude each other.
func (k Kind) Rival(c *holdfast.Client, name string) MutexLike {
	if k.Letter == "R" {
		return c.RWMutex(name)
	}
	return k.Make(c, name)
}

// ObjectOf returns an object of any type as an [object.Object], or nil if its type has none.
func ObjectOf(x any) *object.Object {
	switch x := x.(type) {
	case *holdfast.Mutex:
		return object.Of(x)
	case *holdfast.RWMutex:
		return object.Of(x)
	case *holdfast.Semaphore:
		return object.Of(x)
	case *holdfast.LeasedSemaphore:
		return object.Of(x)
	case *holdfast.Latch:
		return object.Of(x)
	case *holdfast.RateLimiter:
		return object.Of(x)
	case *holdfast.Election:
		return object.Of(x)
	case interface{ Object() *object.Object }:
		return x.Object()
	}
	return nil
}
