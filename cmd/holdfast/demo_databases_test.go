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

// secret is a password with characters that must be escaped in a URL.
const secret = `s3cret/:@?#%`

// TestDemoDatabases runs the sale with each installed database server. It starts a
// temporary server.
func TestDemoDatabases(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind, wrong string
		start       func(*testing.T) (*url.URL, *sql.DB)
		tables      string // query for the names of the demo's tables
		forbid      string // statement that creates the user weak, with read access only
	}{
		{"PostgreSQL", "password authentication failed", startPostgres, "SELECT tablename FROM pg_tables WHERE tablename LIKE 'holdfast%'", "CREATE ROLE weak LOGIN PASSWORD '" + secret + "'"},
		{"MariaDB", "Access denied", startMariaDB, "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'holdfast%'", "GRANT SELECT ON shop.* TO weak IDENTIFIED BY '" + secret + "'"},
	} {
		t.Run(test.kind, func(t *testing.T) {
			t.Parallel()
			u, db := test.start(t)
			b := executeWith(t, []string{"HOLDFAST_DB=" + u.String()}, "", append(smallSale, "demo", "--server", "embedded", "--json", "--only", "mutex,fenced")...).wantSale(t)
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
			r := execute(t, "demo", "--server", "embedded", "--db", weak.String())
			r.want(t, 1, "", `^holdfast: cannot create the tables: [^\n]*denied[^\n]*\n(cannot clean up after the sale: cannot drop holdfast_demo_[0-9a-f]+_\*: [^\n]*denied[^\n]*\n)?Set a database with --db`)

			u.User = url.UserPassword(u.User.Username(), "wr0ng"+secret)
			r = execute(t, "demo", "--server", "embedded", "--db", u.String())
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
	h := newDBServer(t, "postgres")
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

// startMariaDBWith is startMariaDB with more options of the server.
func startMariaDBWith(t *testing.T, options ...string) (*url.URL, *sql.DB) {
	t.Helper()
	install := installed(t, "MariaDB", "mariadb-install-db", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
	daemon := installed(t, "MariaDB", "mariadbd", "/usr/sbin", "/usr/libexec", "/usr/local/bin", "/opt/homebrew/bin")
	h := newDBServer(t, "mysql")
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
	t.Skipf("%s is not installed (no %s; ./scripts/deps --databases installs it): not tested", what, program)
	return ""
}

// A dbServer is the environment of a database server: a directory, a port and a
// user, because these servers refuse to run as root.
type dbServer struct {
	dir, port string
	as        *syscall.Credential // nil: the user of the test
}

func newDBServer(t *testing.T, account string) *dbServer {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdfast-db") // other users cannot enter the parents of TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	h := &dbServer{dir: dir}
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
	// It takes seconds until the server listens. No other process takes one of these
	// ports in the meantime: connections and package redistest use higher ones.
	for h.port == "" {
		port := strconv.Itoa(10000 + rand.IntN(9000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			h.port = port
			_ = l.Close()
		}
	}
	return h
}

func (h *dbServer) command(program string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd, said := exec.Command(program, args...), new(bytes.Buffer)
	cmd.Dir, cmd.Stdout, cmd.Stderr = h.dir, said, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: h.as}
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TMPDIR="+h.dir, "HOME="+h.dir)
	return cmd, said
}

// run runs a program and waits for its end.
func (h *dbServer) run(t *testing.T, program string, args ...string) {
	t.Helper()
	if cmd, said := h.command(program, args...); cmd.Run() != nil {
		t.Fatalf("%s: %s", program, said)
	}
}

// start starts the server and ends it at the end of the test.
func (h *dbServer) start(t *testing.T, program string, args ...string) {
	t.Helper()
	cmd, said := h.command(program, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT) // PostgreSQL: fast shutdown, which also ends its child processes
		if program := filepath.Base(program); program != "postgres" {
			_ = cmd.Process.Kill()
		}
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("output of %s:\n%s", program, said)
		}
	})
}

// open connects to the server as soon as it answers.
func (h *dbServer) open(t *testing.T, driver, source string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 2*waitLimit)
	defer cancel()
	for err = db.PingContext(ctx); err != nil; err = db.PingContext(ctx) {
		if ctx.Err() != nil {
			t.Fatal(fmt.Errorf("the server does not answer: %w", err))
		}
		time.Sleep(20 * time.Millisecond)
	}
	return db
}
