package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	_ "modernc.org/sqlite" // the database

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
)

const (
	account = "account:7" // the name of the lock, and of the resource
	amount  = 100
)

// A bank is an SQL database with one account in it.
type bank struct {
	*sql.DB
	guard   fence.SQL
	guarded bool
}

func openBank(ctx context.Context, file string, guarded bool) (*bank, error) {
	// Transactions wait for each other instead of failing.
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(file)+"?_txlock=immediate&_pragma=busy_timeout(30000)")
	if err != nil {
		return nil, err
	}
	if err := db.PingContext(ctx); err != nil {
		_ = db.Close()
		return nil, err
	}
	return &bank{DB: db, guarded: guarded}, nil
}

func (b *bank) create(ctx context.Context) error {
	if err := b.guard.CreateTable(ctx, b); err != nil {
		return err
	}
	_, err := b.ExecContext(ctx, "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL); INSERT INTO accounts VALUES (7, 0)")
	return err
}

func (b *bank) balance(ctx context.Context) (n int, err error) {
	err = b.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = 7").Scan(&n)
	return n, err
}

// transact runs fn in a transaction, behind the guard if there is one.
func (b *bank) transact(ctx context.Context, token int64, fn func(*sql.Tx) error) error {
	tx, err := b.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if b.guarded {
		if err := b.guard.Check(ctx, tx, account, token); err != nil {
			return err
		}
	}
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// pay adds to the account what a clerk pays in, in two transactions, as a
// program does that talks to a person or to another service in between.
func (b *bank) pay(ctx context.Context, client *holdfast.Client, pause func() error) error {
	lease, err := client.Mutex(account).Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)

	var balance int
	err = b.transact(ctx, lease.Token(), func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = 7").Scan(&balance)
	})
	if err != nil {
		return err
	}
	// A careful program would now look at lease.Valid(). The pause comes after
	// that look, as pauses do.
	if err := pause(); err != nil {
		return err
	}
	return b.transact(ctx, lease.Token(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = ? WHERE id = 7", balance+amount)
		return err
	})
}

// clerk pays once. It says what it does, and waits for a line before it writes.
func clerk(ctx context.Context) error {
	client, err := holdfast.Open(ctx, os.Getenv("FENCING_URL"), holdfast.Options{WatchdogTimeout: time.Second})
	if err != nil {
		return err
	}
	defer client.Close()
	guarded, err := strconv.ParseBool(os.Getenv(clerkVariable))
	if err != nil {
		return err
	}
	b, err := openBank(ctx, os.Getenv("FENCING_BANK"), guarded)
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }()
	stdin := bufio.NewScanner(os.Stdin)
	for {
		err := b.pay(ctx, client, func() error {
			fmt.Println("read")
			if !stdin.Scan() {
				return io.ErrUnexpectedEOF
			}
			return nil
		})
		switch {
		case errors.Is(err, fence.ErrStale):
			fmt.Println("stale") // nothing was written: begin again, with a new lease
		case err != nil:
			return err
		default:
			fmt.Println("paid")
			return nil
		}
	}
}

// clerkVariable makes this program a clerk; its value says whether it is
// guarded.
const clerkVariable = "FENCING_CLERK"

func isClerk() bool { return os.Getenv(clerkVariable) != "" }

func clerkEnv(url, file string, guarded bool) []string {
	return append(os.Environ(), "FENCING_URL="+url, "FENCING_BANK="+file, clerkVariable+"="+strconv.FormatBool(guarded))
}
