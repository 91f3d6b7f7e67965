// Package fence checks fencing tokens at the resource that a lock protects.
//
// # The problem
//
// A process acquires a lock, reads a balance, and is paused, for example by a
// long garbage collection, by swapping, or because a laptop is closed. Its
// lease expires. Another process acquires the lock, adds 100 to the balance and
// releases the lock. Then the first process resumes. Even if it called
// [holdfast.Lease.Valid] just before the pause, it now writes the balance that
// it computed before, and the 100 are lost. No lock service can prevent this.
// The resource can: it remembers the highest token that it has seen, and
// refuses lower tokens.
//
// # The guards
//
//   - [Script] guards data in Redis: it checks the token and runs your Lua
//     script in one atomic step.
//   - [SQL] guards data in an SQL database: called in a transaction, it checks
//     the token and blocks other holders until the transaction ends.
//
// A single row can also have its own fence, without this package. If no row is
// affected, the token is stale or the row does not exist. In MySQL, it may also
// mean that the row already has these values, unless the connection has
// clientFoundRows=true.
//
//	UPDATE stock SET n = ?, fence = <token> WHERE id = ? AND fence <= <token>
//
// For all guards there are four rules:
//
//   - Check the token before you read, not only when you write. Otherwise a
//     late holder can write unnoticed between your read and your write, because
//     the resource has not seen your token yet. Read with a guarded script.
//     With SQL, call Check at the beginning of the transaction that reads. For
//     a row with its own fence, raise the fence first.
//   - All writers must use the guard. It does not see writers that bypass it.
//   - Use one lock per resource. Tokens increase from lease to lease of one
//     name. Tokens of different names, or of different kinds of locks with the
//     same name, cannot be compared. One lock may guard many resources.
//   - After [ErrStale], do not try again with the same token. Acquire the lock
//     again and read again.
//
// # What guards do not do
//
// A guard orders writes, but does not undo them: what a late holder wrote
// before the next holder showed its token stays. A guard does not know about
// effects elsewhere, such as a mail that was sent. If a guard loses its memory
// (the key is evicted, a replica without the last write is promoted, a backup
// is restored), a late holder can write until the guard sees a higher token.
// And a guard is only as reliable as the tokens.
//
// # Which lock to use
//
// The tokens of a [holdfast.Mutex] and of most other locks come from the
// server's clock. If the clock is set back, valid holders are refused until it
// has caught up.
//
// The tokens of a [holdfast.Client.FencedMutex] come from a counter on the server, 1,
// 2, 3, and do not depend on a clock. If the server loses its data but the
// guard does not, valid holders are refused until the counter has caught up,
// which may never happen. Then raise the counter by hand: SET
// redisson_lock_token:{name} to the value of Seen in the [StaleError].
//
// So use a fenced mutex if the data of the server is as durable as the data of
// the resource, or if Java programs share the lock. Otherwise use a plain one.
// Never change from one to the other while a guard remembers tokens.
//
// [holdfast.Mutex]: https://pkg.go.dev/github.com/holdfast-go/holdfast#Mutex
// [holdfast.Client.FencedMutex]: https://pkg.go.dev/github.com/holdfast-go/holdfast#Client.FencedMutex
// [holdfast.Lease.Valid]: https://pkg.go.dev/github.com/holdfast-go/holdfast#Lease.Valid
package fence

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/script"
)

var (
	// ErrStale means that the resource has seen a higher token: the lock was
	// lost, and the next holder has already used the resource. Nothing was
	// written. The error is a [*StaleError].
	ErrStale = errors.New("stale fencing token")

	// ErrInvalid means that an argument is invalid. The text says what to
	// change. Nothing was sent.
	ErrInvalid = errors.New("invalid argument")
)

// A StaleError is the error for a refused token. It matches [ErrStale].
type StaleError struct {
	Resource string // the name of the resource
	Token    int64  // the refused token
	Seen     int64  // the higher token that the resource has seen; 0 if it is not known
}

func (e *StaleError) Error() string {
	if e.Seen == 0 {
		return fmt.Sprintf("fence: %.80q refused token %d: it has seen a higher one", e.Resource, e.Token)
	}
	return fmt.Sprintf("fence: %.80q refused token %d: it has seen token %d", e.Resource, e.Token, e.Seen)
}

// Is reports whether target is [ErrStale].
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// check checks the arguments that all guards have.
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
