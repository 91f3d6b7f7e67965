// Package fence checks fencing tokens where it counts: at the resource that a
// lock protects.
//
// # The problem
//
// A process takes a lock, reads a balance, and is stopped: by a long collection
// of garbage, a machine that swaps, a laptop that is closed. Its lease runs
// out, another process takes the lock, pays in 100 and is done. Then the first
// one wakes up. It may have asked [holdfast.Lease.Valid] an instant before it
// was stopped, so nothing keeps it from writing what it had computed, and the
// 100 are gone. No lock service can prevent that. The resource can: it
// remembers the highest token that it was shown, and refuses lower ones.
//
// # The guards
//
//   - [Script] guards what is in Redis: it checks the token and runs a Lua
//     script of yours, in one atomic step.
//   - [SQL] guards what is in an SQL database: called in a transaction, it
//     checks the token and keeps rivals out until the transaction ends.
//
// A single row can carry its own fence, without this package. No row affected
// then means a stale token, or no such row; but in MySQL also that the row had
// these very values already, unless the connection has clientFoundRows=true.
//
//	UPDATE stock SET n = ?, fence = <token> WHERE id = ? AND fence <= <token>
//
// Whichever it is, there are four rules:
//
//   - Show the token before you read, not only when you write. Otherwise the
//     late holder can still write between your read and your write, unnoticed,
//     because the resource has not seen your token yet. Read with a guarded
//     script; with SQL, call Check at the beginning of the transaction that
//     reads; for a row with its own fence, raise that first.
//   - All writers use the guard. It does not see those who go around it.
//   - One resource, one lock. Tokens rise from lease to lease of one name; those
//     of different names, or of different kinds of locks by one name, cannot be
//     compared. A lock may guard many resources.
//   - After [ErrStale] do not try again with the same token. Take the lock
//     again, read again.
//
// # What guards do not do
//
// A guard orders writes, it does not undo them: what the late holder wrote
// before the next one showed its token stays. It knows nothing of effects
// elsewhere, such as a mail that was sent. If it loses its memory (the key is
// evicted, a replica is promoted that had not heard of the last write, a
// backup is restored), a late holder can pass until somebody shows a higher
// token. And it is as good as the tokens are.
//
// # Which lock to use
//
// The tokens of a [holdfast.Mutex] and most others come from the clock of the
// server. If that is set back, rightful holders are refused until it has caught
// up. Those of a [holdfast.FencedMutex] are counted at the server, 1, 2, 3, and
// do not depend on any clock; but if that server loses its data while the guard
// keeps its own, rightful holders are refused until the counter has caught up,
// which may be never. Then raise it by hand, with SET redisson_lock_token:{name}
// to the number that the [StaleError] says was seen. So use a FencedMutex where
// the server's data is as durable as that of the resource, or where Java
// programs share the lock, and a Mutex elsewhere. Never change from one to the
// other while a guard remembers.
//
// [holdfast.Mutex]: https://pkg.go.dev/github.com/holdfast-go/holdfast#Mutex
// [holdfast.FencedMutex]: https://pkg.go.dev/github.com/holdfast-go/holdfast#FencedMutex
// [holdfast.Lease.Valid]: https://pkg.go.dev/github.com/holdfast-go/holdfast#Lease.Valid
package fence

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/script"
)

var (
	// ErrStale says that the resource has seen a higher token: the lock has
	// been lost, and the next holder has been here. Nothing was written. The
	// error is a [*StaleError].
	ErrStale = errors.New("stale fencing token")

	// ErrInvalid says that an argument makes no sense; the text says what to
	// change. Nothing was sent.
	ErrInvalid = errors.New("invalid argument")
)

// A StaleError is a refused token. It matches [ErrStale].
type StaleError struct {
	Resource string
	Token    int64 // the one that was refused
	Seen     int64 // the one that the resource has seen; 0 if that is not known
}

func (e *StaleError) Error() string {
	if e.Seen == 0 {
		return fmt.Sprintf("fence: %.80q refused token %d: it has seen a higher one", e.Resource, e.Token)
	}
	return fmt.Sprintf("fence: %.80q refused token %d: it has seen token %d", e.Resource, e.Token, e.Seen)
}

// Is reports whether target is [ErrStale].
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// check looks at what all guards are given.
func check(resource string, token int64) error {
	if err := script.CheckName(resource); err != nil {
		return invalid("resource %.80q: %v", resource, err)
	}
	if token <= 0 {
		return invalid("the token is %d: use the token of a lease, lease.Token()", token)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("fence: %w: "+format, append([]any{ErrInvalid}, args...)...)
}
