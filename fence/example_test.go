package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"strconv"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// open returns a client of the server that all examples share.
func open() *holdfast.Client {
	client, err := holdfast.Open(context.Background(), redistest.ExampleURL(), nil)
	if err != nil {
		log.Fatal(err)
	}
	return client
}

// Two holders, one after the other. The first one writes too late.
func ExampleScript() {
	ctx := context.Background()
	client := open() // holdfast.Open(ctx, "redis://localhost:6379", nil)
	defer client.Close()

	const account = "example:account:7"
	keys := []string{"balance:{" + account + "}"}
	read := fence.NewScript(`return tonumber(redis.call('GET', KEYS[1]) or 0)`)
	write := fence.NewScript(`redis.call('SET', KEYS[1], ARGV[1])`)

	// pay adds to the balance. It calls meanwhile between its read and its write.
	// The lease may be lost then.
	pay := func(amount int64, meanwhile func()) error {
		lease, err := client.Mutex(account).Lock(ctx)
		if err != nil {
			return err
		}
		defer lease.Release(ctx)
		balance, err := read.Run(ctx, client.Driver(), account, lease.Token(), keys, nil)
		if err != nil {
			return err
		}
		meanwhile()
		sum := strconv.FormatInt(balance.Int+amount, 10)
		_, err = write.Run(ctx, client.Driver(), account, lease.Token(), keys, []string{sum})
		return err
	}
	err := pay(50, func() {
		// Simulate an expired lease: another holder gets the lock and pays.
		if _, err := client.Mutex(account).ForceUnlock(ctx); err != nil {
			log.Fatal(err)
		}
		if err := pay(100, func() {}); err != nil {
			log.Fatal(err)
		}
	})
	fmt.Println("too late:", errors.Is(err, fence.ErrStale))
	// Output: too late: true
}

// A transaction that reads and writes with a guard.
func ExampleSQL() {
	pay := func(ctx context.Context, db *sql.DB, lease *holdfast.Lease, amount int64) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // does nothing after Commit
		guard := fence.SQL{Dollar: true}
		if err := guard.Check(ctx, tx, "account:7", lease.Token()); err != nil {
			return err // fence.ErrStale: acquire the lock again and start again
		}
		var balance int64
		if err := tx.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = 7").Scan(&balance); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = $1 WHERE id = 7", balance+amount); err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = pay // db is a PostgreSQL database, in which guard.CreateTable(ctx, db) was called once
}
