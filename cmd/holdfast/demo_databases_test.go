//go:build unix

package main_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // MySQL and MariaDB
	_ "github.com/jackc/pgx/v5/stdlib" // PostgreSQL
)

// secret is a password that needs care in a URL.
const secret = `s3cret/:@?#%`

// TestDemoDatabases holds the sale in each database server that is installed,
// started for the test and thrown away.
func TestDemoDatabases(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind, wrong string
		start       func(*testing.T) (*url.URL, *sql.DB)
		tables      string // a query for the names of all tables of ours
		forbid      string // makes a user weak, who may only look
	}{
		{"PostgreSQL", "password authentication failed", startPostgres, "SELECT tablename FROM pg_tables WHERE tablename LIKE 'holdfast%'", "CREATE ROLE weak LOGIN PASSWORD '" + secret + "'"},
		{"MariaDB", "Access denied", startMariaDB, "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'holdfast%'", "GRANT SELECT ON shop.* TO weak IDENTIFIED BY '" + secret + "'"},
	} {
		t.Run(test.kind, func(t *testing.T) {
			t.Parallel()
			u, db := test.start(t)
			b := holdWith(t, []string{"HOLDFAST_DB=" + u.String()}, "", append(small, "demo", "--server", "embedded", "--json", "--only", "mutex,fenced")...).sold(t)
			if b.Database != test.kind {
				t.Errorf("%+v", b)
			}
			rows, err := db.Query(test.tables)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			for rows.Next() {
				var name string
				_ = rows.Scan(&name)
				t.Errorf("a table is left: %s", name)
			}

			if _, err := db.Exec(test.forbid); err != nil {
				t.Fatal(err)
			}
			weak := *u
			weak.User = url.UserPassword("weak", secret)
			r := hold(t, "demo", "--server", "embedded", "--db", weak.String())
			r.want(t, 1, "", `^holdfast: cannot create the tables: [^\n]*denied[^\n]*\n(cannot clean up after the sale: cannot drop holdfast_demo_[0-9a-f]+_\*: [^\n]*denied[^\n]*\n)?Set a database with --db`)

			u.User = url.UserPassword(u.User.Username(), "wr0ng"+secret)
			r = hold(t, "demo", "--server", "embedded", "--db", u.String())
			r.want(t, 1, "", `^holdfast: cannot use the database: [^\n]*`+test.wrong+`[^\n]*\nSet a database with --db .* permission to create tables.*\n$`)
			if strings.Contains(r.err, "wr0ng") || strings.Contains(r.err, "s3cret") {
				t.Errorf("the password is in %q", r.err)
			}
		})
	}
}

func startPostgres(t *testing.T) (*url.URL, *sql.DB) {
	t.Helper()
	initdb := installed(t, "PostgreSQL", "initdb", "/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin", "/opt/homebrew/bin")
	h := newHouse(t, "postgres")
	file := filepath.Join(h.dir, "password")
	if err := os.WriteFile(file, []byte(secret), 0o644); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(h.dir, "data")
	h.run(t, initdb, "-D", data, "-U", "shop", "-A", "scram-sha-256", "--pwfile", file, "--no-sync", "-E", "UTF8")
	h.start(t, filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-p", h.port, "-h", "127.0.0.1", "-k", h.dir, "-F")
	u := &url.URL{Scheme: "postgres", User: url.UserPassword("shop", secret), Host: "127.0.0.1:" + h.port, Path: "/postgres"}
	return u, h.open(t, "pgx", u.String())
}

func startMariaDB(t *testing.T) (*url.URL, *sql.DB) {
	t.Helper()
	return startMariaDBWith(t)
}

// startMariaDBWith gives the server more options.
func startMariaDBWith(t *testing.T, options ...string) (*url.URL, *sql.DB) {
	t.Helper()
	install := installed(t, "MariaDB", "mariadb-install-db", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
	daemon := installed(t, "MariaDB", "mariadbd", "/usr/sbin", "/usr/libexec", "/usr/local/bin", "/opt/homebrew/bin")
	h := newHouse(t, "mysql")
	data, socket := filepath.Join(h.dir, "data"), filepath.Join(h.dir, "socket")
	h.run(t, install, "--no-defaults", "--datadir="+data, "--skip-test-db", "--auth-root-authentication-method=normal", "--skip-name-resolve", "--innodb-flush-log-at-trx-commit=0")
	h.start(t, daemon, append([]string{
		"--no-defaults", "--datadir=" + data, "--socket=" + socket, "--port=" + h.port, "--bind-address=127.0.0.1", "--skip-networking=0",
		"--pid-file=" + filepath.Join(h.dir, "pid"), "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=16M",
	}, options...)...)
	db := h.open(t, "mysql", "root@unix("+socket+")/")
	for _, statement := range []string{"CREATE DATABASE shop", "CREATE USER shop IDENTIFIED BY '" + secret + "'", "GRANT ALL ON shop.* TO shop"} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	return &url.URL{Scheme: "mariadb", User: url.UserPassword("shop", secret), Host: "127.0.0.1:" + h.port, Path: "/shop"}, db
}

// installed returns the path of a program, or skips the test.
func installed(t *testing.T, what, program string, dirs ...string) string {
	t.Helper()
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	for _, dir := range dirs {
		if found, _ := filepath.Glob(filepath.Join(dir, program)); len(found) > 0 {
			return slices.Max(found)
		}
	}
	t.Skipf("%s is not installed (no %s): the demo was not tested with it", what, program)
	return ""
}

// A house is where a database server lives for a test: a directory, a port, and
// a user, since these servers refuse to run as root.
type house struct {
	dir, port string
	as        *syscall.Credential // nil: who runs the test
}

func newHouse(t *testing.T, account string) *house {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdfast-db") // not TempDir, whose parents others cannot enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	h := &house{dir: dir}
	if os.Geteuid() == 0 {
		u, err := user.Lookup(account)
		if err != nil {
			t.Skipf("the test runs as root, and there is no user %s to run the database: it was not tested", account)
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		h.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, int(uid), int(gid)); err != nil {
			t.Fatal(err)
		}
	}
	// It takes seconds until the server listens. Meanwhile nobody else takes one
	// of these ports: connections have higher ones, and so has package redistest.
	for h.port == "" {
		port := strconv.Itoa(10000 + rand.IntN(9000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			h.port = port
			_ = l.Close()
		}
	}
	return h
}

func (h *house) command(program string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd, said := exec.Command(program, args...), new(bytes.Buffer)
	cmd.Dir, cmd.Stdout, cmd.Stderr = h.dir, said, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: h.as}
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TMPDIR="+h.dir, "HOME="+h.dir)
	return cmd, said
}

// run runs a program to its end.
func (h *house) run(t *testing.T, program string, args ...string) {
	t.Helper()
	if cmd, said := h.command(program, args...); cmd.Run() != nil {
		t.Fatalf("%s: %s", program, said)
	}
}

// start starts the server, and ends it with the test.
func (h *house) start(t *testing.T, program string, args ...string) {
	t.Helper()
	cmd, said := h.command(program, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT) // PostgreSQL: at once; its children end with it
		if program := filepath.Base(program); program != "postgres" {
			_ = cmd.Process.Kill()
		}
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s has said:\n%s", program, said)
		}
	})
}

// open connects with the server as soon as it answers.
func (h *house) open(t *testing.T, driver, source string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 2*late)
	defer cancel()
	for err = db.PingContext(ctx); err != nil; err = db.PingContext(ctx) {
		if ctx.Err() != nil {
			t.Fatal(fmt.Errorf("the server does not answer: %w", err))
		}
		time.Sleep(20 * time.Millisecond)
	}
	return db
}
