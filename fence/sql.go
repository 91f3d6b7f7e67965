package fence

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"regexp"
)

// SQL guards data in an SQL database. It keeps the highest token of each
// resource in its own table. The zero value is for SQLite (3.24 or later).
//
//	SQL{}              SQLite
//	SQL{Dollar: true}  PostgreSQL and compatible databases
//	SQL{MySQL: true}   MySQL, MariaDB
//
// With the wrong settings, the first Check fails with an error about syntax or
// arguments.
//
// All transactions must be ordered by one authority: one primary, or a MySQL
// cluster whose primaries certify transactions against each other (Galera,
// Group Replication). In such a cluster, the commit of a late holder fails.
// Asynchronous replication between several primaries is not enough.
type SQL struct {
	Table  string // the table, as name or schema.name; the default is holdfast_fence
	Dollar bool   // use the placeholders $1, $2 instead of ?
	MySQL  bool   // use ON DUPLICATE KEY instead of ON CONFLICT
}

// An Execer is a *sql.DB, *sql.Conn or *sql.Tx.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// CreateTable creates the table if it does not exist. Call it where your other
// tables are created. In PostgreSQL, concurrent calls in several processes can
// fail. In MySQL, it commits the current transaction. You can also create the
// table yourself:
//
//	CREATE TABLE holdfast_fence (
//		resource VARCHAR(512) NOT NULL PRIMARY KEY, -- MySQL: VARBINARY(512), to distinguish A from a
//		token    BIGINT NOT NULL
//	)
func (s SQL) CreateTable(ctx context.Context, db Execer) error {
	table, err := s.table()
	if err != nil {
		return err
	}
	if db == nil {
		return invalid("the database is nil")
	}
	if ctx == nil {
		return invalid("the context is nil: use context.Background()")
	}
	text, end := "VARCHAR(512)", ""
	if s.MySQL {
		text, end = "VARBINARY(512)", " ENGINE=InnoDB" // other engines have no transactions
	}
	_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+table+
		" (resource "+text+" NOT NULL PRIMARY KEY, token BIGINT NOT NULL)"+end)
	if err != nil {
		return fmt.Errorf("fence: create table %s: %w", table, err)
	}
	return nil
}

// Check checks the token as a part of the transaction. If the resource has seen
// a higher token, Check fails with [ErrStale]. Then roll back. An equal token
// passes, so a holder can run several transactions.
//
// Check locks the row of the resource in any case. So the transactions on a
// resource run one after the other. If a late holder is first, its transaction
// ends before Check returns. If it is second, it waits and is refused. (SQLite
// has one lock for the whole database.) A holder that is paused inside its
// transaction blocks the next one until the database ends the transaction: see
// idle_in_transaction_session_timeout in PostgreSQL and
// idle_transaction_timeout in MariaDB.
//
// Call Check first in the transaction. Data that was read earlier is older than
// the lock. At the level REPEATABLE READ, the default of MySQL, this is also
// true for data that is read later. If one transaction reads and another one
// writes, both must call Check, and the first must be committed: a rollback
// also removes the token. With several resources, check them in the same order
// in all transactions to avoid deadlocks.
//
// Other errors come from the database. As with any transaction, some of them
// mean that the transaction must be repeated from the start: a deadlock, a
// serialization failure at a level above READ COMMITTED, SQLITE_BUSY (set a
// busy_timeout). With several primaries, the commit itself can fail with a
// deadlock, which is also a refusal. If Check or the commit fails, do not
// treat the transaction as done.
//
// TiDB reads from a snapshot of the beginning of the transaction, which is
// before Check. With TiDB, use a pessimistic transaction, and read the
// protected data with SELECT ... FOR UPDATE.
func (s SQL) Check(ctx context.Context, tx *sql.Tx, resource string, token int64) error {
	table, err := s.table()
	if err != nil {
		return err
	}
	if err := check(resource, token); err != nil {
		return err
	}
	if tx == nil {
		return invalid("the transaction is nil")
	}
	if ctx == nil {
		return invalid("the context is nil: use context.Background()")
	}
	raise, look := s.statements(table)
	args := []any{resource, token}
	if s.MySQL {
		if token == math.MaxInt64 {
			return invalid("the token is %d, the highest possible number: use the token of a lease, lease.Token()", token)
		}
		args = []any{resource, token + 1, token + 1}
	}
	if _, err := tx.ExecContext(ctx, raise, args...); err != nil {
		return fmt.Errorf("fence: raise token of %.80q: %w", resource, err)
	}
	if s.MySQL {
		if _, err := tx.ExecContext(ctx, "UPDATE "+table+" SET token = token - 1 WHERE resource = ?", resource); err != nil {
			return fmt.Errorf("fence: raise token of %.80q: %w", resource, err)
		}
	}
	var seen int64
	if err := tx.QueryRowContext(ctx, look, resource).Scan(&seen); err != nil {
		return fmt.Errorf("fence: read token of %.80q: %w", resource, err)
	}
	if seen > token {
		return &StaleError{Resource: resource, Token: token, Seen: seen}
	}
	return nil
}

// statements returns the two statements of a check. The first creates the row
// if it does not exist, and locks it in any case, even if the token does not
// change. It is one statement, so two transactions can create the row at the
// same time. (An UPDATE without a match followed by an INSERT would fail with a
// duplicate key in PostgreSQL. In MySQL it would fail with a deadlock, because
// both transactions have locked the gap.) The second statement reads the
// result.
//
// MySQL does not write a row whose values do not change. With several primaries
// such a row is not in the write set and conflicts with nothing. So the first
// statement sets the token one too high, and Check subtracts one again: at
// least one of the two statements changes the row.
func (s SQL) statements(table string) (raise, look string) {
	first, second, third := "?", "?", "?"
	if s.Dollar {
		first, second, third = "$1", "$2", "$3"
	}
	raise = "INSERT INTO " + table + " AS f (resource, token) VALUES (" + first + ", " + second + ")" +
		" ON CONFLICT (resource) DO UPDATE SET token = CASE WHEN f.token < excluded.token THEN excluded.token ELSE f.token END"
	look = "SELECT token FROM " + table + " WHERE resource = " + first
	if s.MySQL {
		raise = "INSERT INTO " + table + " (resource, token) VALUES (" + first + ", " + second + ")" +
			" ON DUPLICATE KEY UPDATE token = GREATEST(token + 1, " + third + ")"
		look += " FOR UPDATE" // otherwise it would read from the snapshot of the transaction
	}
	return raise, look
}

// identifier matches table names that need no quotes. The name is inserted into
// the statements, because there are no placeholders for names.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$`)

func (s SQL) table() (string, error) {
	table := cmp.Or(s.Table, "holdfast_fence")
	if !identifier.MatchString(table) {
		return "", invalid("table %.80q: use letters, digits and _, as in fence or app.fence", table)
	}
	return table, nil
}
