package sale_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// These are the tests of fence.SQL. They are here because the library has no
// dependency on a database. They use SQLite.

// open returns an empty database.
func open(t *testing.T) *sql.DB {
	t.Helper()
	file := filepath.ToSlash(filepath.Join(t.TempDir(), "test.db"))
	// Transactions wait for each other instead of failing.
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(120000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// A desk is a database with a guard and a table of the writes.
type desk struct {
	*testing.T
	db    *sql.DB
	guard fence.SQL
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{T: t, db: open(t)}
	for range 2 { // the second time the table exists
		if err := d.guard.CreateTable(t.Context(), d.db); err != nil {
			t.Fatal(err)
		}
	}
	d.exec(d.db, "CREATE TABLE written (n INTEGER NOT NULL PRIMARY KEY, token BIGINT NOT NULL)")
	return d
}

func (d *desk) exec(db fence.Execer, query string) {
	d.Helper()
	if _, err := db.ExecContext(context.Background(), query); err != nil {
		d.Errorf("%s: %v", query, err)
	}
}

func (d *desk) begin() *sql.Tx {
	d.Helper()
	tx, err := d.db.BeginTx(context.Background(), nil)
	if err != nil {
		d.Fatal(err)
	}
	return tx
}

func (d *desk) commit(tx *sql.Tx) {
	d.Helper()
	if err := tx.Commit(); err != nil {
		d.Error(err)
	}
}

// write adds a row to the table, numbered by the rows that it sees.
func (d *desk) write(tx *sql.Tx, token int64) {
	d.Helper()
	var n int
	if err := tx.QueryRow("SELECT COUNT(*) FROM written").Scan(&n); err != nil {
		d.Error(err)
	}
	d.exec(tx, fmt.Sprintf("INSERT INTO written VALUES (%d, %d)", n, token))
}

// written returns the tokens in the order of the rows.
func (d *desk) written() (tokens []int64) {
	d.Helper()
	rows, err := d.db.Query("SELECT token FROM written ORDER BY n")
	if err != nil {
		d.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var token int64
		if err := rows.Scan(&token); err != nil {
			d.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	if err := rows.Err(); err != nil {
		d.Fatal(err)
	}
	return tokens
}

// show checks a token and writes a row in one transaction.
func (d *desk) show(resource string, token int64) error {
	d.Helper()
	tx := d.begin()
	defer func() { _ = tx.Rollback() }()
	if err := d.guard.Check(context.Background(), tx, resource, token); err != nil {
		return err
	}
	d.write(tx, token)
	return tx.Commit()
}

func (d *desk) refused(err error, resource string, token, seen int64) {
	d.Helper()
	var stale *fence.StaleError
	if !errors.Is(err, fence.ErrStale) || !errors.As(err, &stale) || *stale != (fence.StaleError{Resource: resource, Token: token, Seen: seen}) {
		d.Errorf("error %v, want a refusal of %d because of %d", err, token, seen)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, step := range []struct{ token, seen int64 }{
		{5, 0}, {5, 0}, {6, 0}, {5, 6}, {6, 0}, {1, 6}, {1 << 53, 0}, {1<<53 + 1, 0}, {1 << 53, 1<<53 + 1}, {math.MaxInt64, 0}, {1, math.MaxInt64},
	} {
		err := d.show("r", step.token)
		if step.seen != 0 {
			d.refused(err, "r", step.token, step.seen)
		} else if err != nil {
			t.Error(err)
		}
	}
	if got := d.written(); !slices.Equal(got, []int64{5, 5, 6, 6, 1 << 53, 1<<53 + 1, math.MaxInt64}) {
		t.Errorf("written: %v", got)
	}
	// Resources are independent, even with similar names.
	for _, resource := range []string{"R", "r:1", "ŕ", "r%", strings.Repeat("ü", 256)} {
		if err := d.show(resource, 2); err != nil {
			t.Error(err)
		}
		d.refused(d.show(resource, 1), resource, 1, 2)
	}
}

func TestCheckTwiceInOneTransaction(t *testing.T) {
	d := newDesk(t)
	tx := d.begin()
	for _, token := range []int64{3, 3, 4} {
		if err := d.guard.Check(t.Context(), tx, "r", token); err != nil {
			t.Error(err)
		}
	}
	d.refused(d.guard.Check(t.Context(), tx, "r", 3), "r", 3, 4)
	d.commit(tx)
	d.refused(d.show("r", 3), "r", 3, 4)
}

// TestCheckRolledBack checks that a token in a rolled-back transaction has no effect.
func TestCheckRolledBack(t *testing.T) {
	d := newDesk(t)
	for range 2 {
		tx := d.begin()
		if err := d.guard.Check(t.Context(), tx, "r", 9); err != nil {
			t.Error(err)
		}
		_ = tx.Rollback()
		if err := d.show("r", 5); err != nil {
			t.Error(err)
		}
	}
}

// TestCheckWaits runs two overlapping transactions. The second check must wait for
// the first transaction and then see its changes, with any tokens.
func TestCheckWaits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name                  string
		before, first, second int64
	}{
		{"late holder first", 5, 5, 6},
		{"late holder first, first use", 0, 5, 6},
		{"late holder second", 5, 6, 5},
		{"late holder second, nothing changes", 6, 6, 5},
		{"late holder second, first use", 0, 6, 5},
		{"same holder", 5, 5, 5},
		{"same holder, first use", 0, 5, 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			var want []int64
			if test.before > 0 {
				if err := d.show("r", test.before); err != nil {
					t.Fatal(err)
				}
				want = append(want, test.before)
			}
			first := d.begin()
			if err := d.guard.Check(t.Context(), first, "r", test.first); err != nil {
				t.Fatal(err)
			}
			second := make(chan error, 1)
			go func() { second <- d.show("r", test.second) }()
			if !redistest.Poll(time.Minute, func() bool { return d.db.Stats().InUse == 2 || len(second) > 0 }) {
				t.Fatal("the second has not begun")
			}
			d.write(first, test.first)
			if len(second) > 0 {
				t.Error("the second did not wait")
			}
			d.commit(first)
			want = append(want, test.first)
			err := <-second
			if test.second < test.first {
				d.refused(err, "r", test.second, test.first)
			} else {
				if err != nil {
					t.Error(err)
				}
				want = append(want, test.second)
			}
			if got := d.written(); !slices.Equal(got, want) {
				t.Errorf("written: %v, want %v", got, want)
			}
		})
	}
}

// TestCheckConcurrently shows many tokens at once for a new resource. The writes must
// be in the order of tokens, and all errors must be refusals.
func TestCheckConcurrently(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	passed := 0
	for i := range int64(16) {
		wg.Go(func() {
			for j := range int64(5) {
				switch err := d.show("r", 1+j*16+(i*7)%16); {
				case err == nil:
					mu.Lock()
					passed++
					mu.Unlock()
				case !errors.Is(err, fence.ErrStale):
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got := d.written()
	if !slices.IsSorted(got) || len(got) != passed || passed == 0 || got[len(got)-1] != 80 {
		t.Errorf("%d passed; written: %v", passed, got)
	}
}

// TestCheckNewResources checks that first tokens of different resources do not
// conflict.
func TestCheckNewResources(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 10 {
				tx := d.begin()
				if err := d.guard.Check(context.Background(), tx, fmt.Sprintf("order:%d", j*8+i), 1); err != nil {
					t.Error(err)
				}
				d.commit(tx)
			}
		})
	}
	wg.Wait()
}

func TestCheckWithoutTable(t *testing.T) {
	d := newDesk(t)
	d.guard.Table = "nowhere"
	if err := d.show("r", 1); err == nil || errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrInvalid) {
		t.Errorf("error %v", err)
	}
}
