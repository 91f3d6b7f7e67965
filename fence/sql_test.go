package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
)

// A notebook is a database that only writes down what it is told. The tests on a
// real one are in cmd/holdfast/internal/sale, since this module has no use for one.
type notebook struct{ said []string }

func (n *notebook) ExecContext(_ context.Context, query string, _ ...any) (sql.Result, error) {
	n.said = append(n.said, query)
	return nil, nil
}

func TestSQLTable(t *testing.T) {
	for _, table := range []string{"", "f", "_f", "app.fence", "App1.Fence_2", strings.Repeat("x", 63)} {
		n := new(notebook)
		if err := (fence.SQL{Table: table}).CreateTable(t.Context(), n); err != nil {
			t.Errorf("%q: %v", table, err)
		}
		if table == "" {
			table = "holdfast_fence"
		}
		if len(n.said) != 1 || !strings.HasPrefix(n.said[0], "CREATE TABLE IF NOT EXISTS "+table+" (") {
			t.Errorf("%q: %q", table, n.said)
		}
	}
	for _, table := range []string{
		" ", "a b", "a;b", "a--", `"a"`, "`a`", "a.b.c", ".a", "a.", "1a", "a'", "a(", "Zürich", "a\n", strings.Repeat("x", 64),
	} {
		n := new(notebook)
		if err := (fence.SQL{Table: table}).CreateTable(t.Context(), n); !errors.Is(err, fence.ErrInvalid) || len(n.said) != 0 {
			t.Errorf("%q: %v, said %q", table, err, n.said)
		}
		if err := (fence.SQL{Table: table}).Check(t.Context(), new(sql.Tx), "a", 1); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("%q: %v", table, err)
		}
	}
}

func TestSQLBadInput(t *testing.T) {
	var s fence.SQL
	for what, err := range map[string]error{
		"no database":    s.CreateTable(t.Context(), nil),
		"no transaction": s.Check(t.Context(), nil, "a", 1),
		"no resource":    s.Check(t.Context(), new(sql.Tx), "", 1),
		"token zero":     s.Check(t.Context(), new(sql.Tx), "a", 0),
		"token negative": s.Check(t.Context(), new(sql.Tx), "a", -1),
	} {
		if !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
