package sale

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // PostgreSQL
	_ "modernc.org/sqlite"             // SQLite

	"github.com/holdfast-go/holdfast/fence"
)

// A Database describes the database of the orders. It can be sent to another
// process.
type Database struct {
	Kind   string // name for display
	Driver string
	Source string // data source name of the driver
	Secret string // password in Source, hidden from errors
	Prefix string // prefix of the table names
	Guard  fence.SQL
}

// errDatabase says how to write the name of a database.
var errDatabase = errors.New("it must be sqlite, sqlite:FILE, postgres://user:password@host:5432/name or mysql://user:password@host:3306/name")

// Locate returns the database that text names. The caller must call cleanup, which
// removes the files that were created.
func Locate(text, prefix string) (d Database, cleanup func(), err error) {
	cleanup = func() {}
	scheme, rest, _ := strings.Cut(text, ":")
	switch scheme {
	case "sqlite":
		d, cleanup, err = locateFile(rest)
	case "postgres", "postgresql", "mysql", "mariadb":
		d, err = locateURL(text)
	default:
		err = errDatabase
	}
	d.Prefix = prefix
	d.Guard.Table = d.table("fence")
	return d, cleanup, err
}

// locateFile returns an SQLite database. A new file uses WAL mode, which allows
// reads during a write.
func locateFile(file string) (Database, func(), error) {
	pragmas, cleanup := "&_pragma=journal_mode(WAL)", func() {}
	if file == "" {
		dir, err := os.MkdirTemp("", "holdfast-demo")
		if err != nil {
			return Database{}, cleanup, err
		}
		file, cleanup = filepath.Join(dir, "sale.db"), func() { _ = os.RemoveAll(dir) }
	} else if _, err := os.Stat(file); err == nil {
		pragmas = "" // keep the mode of an existing file
	} else {
		cleanup = func() {
			for _, suffix := range []string{"", "-wal", "-shm"} {
				_ = os.Remove(file + suffix)
			}
		}
	}
	uri := url.URL{Path: filepath.ToSlash(file)}
	return Database{
		Kind:   "SQLite",
		Driver: "sqlite",
		// Transactions wait for each other instead of failing.
		Source: "file:" + uri.EscapedPath() + "?_txlock=immediate&_pragma=busy_timeout(60000)&_pragma=synchronous(NORMAL)" + pragmas,
	}, cleanup, nil
}

// locateURL returns the database of a URL. It does not return the errors of
// package url, because these may quote the password.
func locateURL(text string) (Database, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return Database{}, errDatabase
	}
	password, _ := u.User.Password()
	if strings.HasPrefix(u.Scheme, "postgres") {
		return Database{Kind: "PostgreSQL", Driver: "pgx", Source: text, Secret: password, Guard: fence.SQL{Dollar: true}}, nil
	}
	_ = mysql.SetLogger(&mysql.NopLogger{}) // its errors are also returned
	c, err := mysql.ParseDSN("/?" + u.RawQuery)
	if err != nil {
		return Database{}, fmt.Errorf("invalid parameters after the ?: %w", err)
	}
	c.User, c.Passwd, c.Net, c.Addr, c.DBName = u.User.Username(), password, "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
	if u.Port() == "" {
		c.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	if c.DBName == "" {
		return Database{}, errors.New("the database name is missing: add it, as in mysql://host:3306/name")
	}
	c.InterpolateParams = true // one request per statement
	kind := map[string]string{"mysql": "MySQL", "mariadb": "MariaDB"}[u.Scheme]
	return Database{Kind: kind, Driver: "mysql", Source: c.FormatDSN(), Secret: password, Guard: fence.SQL{MySQL: true}}, nil
}

// connectTimeout is the limit for connecting to a database.
const connectTimeout = 10 * time.Second

// open connects to the database.
func (d Database) open(ctx context.Context, connections int) (*sql.DB, error) {
	db, err := sql.Open(d.Driver, d.Source)
	if err != nil {
		return nil, d.hide(err)
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := db.PingContext(ctx); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("cannot use the database: %w", d.hide(err))
	}
	return db, nil
}

// hide returns err with a text on one line and without the password.
func (d Database) hide(err error) error {
	if err == nil {
		return nil
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	for _, secret := range []string{d.Secret, url.QueryEscape(d.Secret), url.PathEscape(d.Secret)} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return &textError{text, err}
}

// A textError replaces the text of another error.
type textError struct {
	text string
	err  error
}

func (p *textError) Error() string { return p.text }
func (p *textError) Unwrap() error { return p.err }

// table returns the name of a table with the prefix.
func (d Database) table(name string) string { return d.Prefix + "_" + name }

// query adapts a statement to this database: it replaces {name} by the name of the
// table and ? by the placeholders of the database.
func (d Database) query(text string) string {
	text = strings.NewReplacer("{coupon}", d.table("coupon"), "{orders}", d.table("orders"), "{fence}", d.table("fence")).Replace(text)
	if !d.Guard.Dollar {
		return text
	}
	parts := strings.Split(text, "?")
	for i := range parts[:len(parts)-1] {
		parts[i] += fmt.Sprintf("$%d", i+1)
	}
	return strings.Join(parts, "")
}
