//go:build unix

package main_test

import (
	"database/sql"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
)

// TestCheckChangesTheRow checks that a check always changes the row of the resource,
// also with a known token. If several MySQL servers accept writes, a transaction
// conflicts with others only on rows that it has changed.
func TestCheckChangesTheRow(t *testing.T) {
	t.Parallel()
	_, db := startMariaDBWith(t, "--log-bin=changes", "--binlog-format=ROW")
	logged := func() (n int) { // number of row changes
		t.Helper()
		rows, err := db.Query("SHOW BINLOG EVENTS")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var file, kind, info string
			var pos, id, end int64
			if err := rows.Scan(&file, &pos, &kind, &id, &end, &info); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(strings.ToLower(kind), "_rows") {
				n++
			}
		}
		return n
	}
	guard := fence.SQL{MySQL: true, Table: "shop.fence"}
	if err := guard.CreateTable(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		token, seen int64
	}{{1, 1}, {1, 1}, {2, 2}, {2, 2}, {7, 7}, {7, 7}, {3, 7}, {7, 7}, {math.MaxInt64 - 1, math.MaxInt64 - 1}, {math.MaxInt64 - 1, math.MaxInt64 - 1}} {
		before := logged()
		tx, err := db.BeginTx(t.Context(), &sql.TxOptions{})
		if err != nil {
			t.Fatal(err)
		}
		err = guard.Check(t.Context(), tx, "r", step.token)
		if stale := step.seen > step.token; stale != errors.Is(err, fence.ErrStale) || !stale && err != nil {
			t.Errorf("token %d: %v", step.token, err)
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
		if logged() == before {
			t.Errorf("token %d after %d: the transaction has changed no row", step.token, step.seen)
		}
		var token int64
		if err := db.QueryRow("SELECT token FROM shop.fence WHERE resource = 'r'").Scan(&token); err != nil || token != step.seen {
			t.Errorf("after token %d the table has %d, want %d: %v", step.token, token, step.seen, err)
		}
	}
	if err := guard.Check(t.Context(), new(sql.Tx), "r", math.MaxInt64); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("the largest token: %v, want ErrInvalid", err)
	}
}
