package fence

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"regexp"
)

// SQL guards what is in an SQL database: it keeps the highest token of each
// resource in a table of its own. The zero value suits SQLite (3.24 or later).
//
//	SQL{}              SQLite
//	SQL{Dollar: true}  PostgreSQL, and what speaks its language
//	SQL{MySQL: true}   MySQL, MariaDB
//
// All transactions must meet at one place. That is one primary, or a cluster
// of MySQL whose primaries certify transactions against each other (Galera,
// Group Replication): there the commit of the late holder fails. Asynchronous
// replication between several primaries is not enough.
//
// The wrong one fails at the first Check, with an error of syntax or arguments.
type SQL struct {
	Table  string // name, or schema.name; default: holdfast_fence
	Dollar bool   // placeholders are $1, $2 instead of ?
	MySQL  bool   // upserts are written ON DUPLICATE KEY instead of ON CONFLICT
}

// An Execer is a *sql.DB, *sql.Conn or *sql.Tx.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// CreateTable creates the table if it does not exist. The place for it is where
// the other tables are created: several processes that do it at the same moment
// can get an error from PostgreSQL, and MySQL commits the transaction that it
// is done in. Those who would rather write it themselves:
//
//	CREATE TABLE holdfast_fence (
//		resource VARCHAR(512) NOT NULL PRIMARY KEY, -- MySQL: VARBINARY(512), lest A be a
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
		text, end = "VARBINARY(512)", " ENGINE=InnoDB" // others know no transactions
	}
	_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+table+
		" (resource "+text+" NOT NULL PRIMARY KEY, token BIGINT NOT NULL)"+end)
	if err != nil {
		return fmt.Errorf("fence: create table %s: %w", table, err)
	}
	return nil
}

// Check shows the token to the resource, as a part of the transaction. It fails
// with [ErrStale] if the resource has seen a higher token; then roll back. An
// equal one passes: a holder may have as many transactions as it likes.
//
// Check locks the row of the resource, whatever its answer. So the transactions
// on a resource go one after the other: a late holder that comes first is done
// before Check returns, and one that comes later waits, and is refused. (SQLite
// has one lock for the whole database.) One that is stopped inside its
// transaction keeps the next one waiting, until the database ends it: see
// idle_in_transaction_session_timeout in PostgreSQL, idle_transaction_timeout
// in MariaDB.
//
// Call it first in the transaction. What was read before is from before the
// lock, and at the level REPEATABLE READ, which is MySQL's default, so is
// everything that is read afterwards. If one transaction reads and another
// writes, both call it, and the first has to be committed as well: a rollback
// takes the token back. With several resources, check them in the same order
// everywhere, or the database may find a deadlock.
//
// Other errors come from the database. As with any transaction some of them
// mean "once more from the start": a deadlock, a failure to serialize at higher
// levels than READ COMMITTED, SQLITE_BUSY (set a busy_timeout). With several
// primaries the commit itself can fail with a deadlock: that is a refusal, too.
// A transaction whose Check or commit has failed must not be taken for done.
//
// TiDB reads from a snapshot of the moment at which the transaction began, which
// is before Check. Use a pessimistic transaction there, and read what the lock
// protects with SELECT ... FOR UPDATE.
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

// statements returns the two halves of a check. The first makes the row if
// there is none, and locks it in any case, also when the token stays as it is;
// being one statement, it needs no luck with a rival that makes the row at the
// same moment. (An UPDATE that finds nothing and then an INSERT would fail with
// a duplicate key in PostgreSQL, and in MySQL, where both rivals have locked
// the gap, with a deadlock.) The second sees what has come of it.
//
// MySQL does not write a row whose values stay as they are. With several
// primaries such a row is in no write set and conflicts with nothing. So the
// token is first made one too high, and Check takes that off again: one of the
// two changes the row.
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
		look += " FOR UPDATE" // or it would see what was there when the transaction first read
	}
	return raise, look
}

// identifier is what a name of a table may be without quotes. It is pasted into
// statements, which have no placeholders for names.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$`)

func (s SQL) table() (string, error) {
	table := cmp.Or(s.Table, "holdfast_fence")
	if !identifier.MatchString(table) {
		return "", invalid("table %.80q: use letters, digits and _, as in fence or app.fence", table)
	}
	return table, nil
}
