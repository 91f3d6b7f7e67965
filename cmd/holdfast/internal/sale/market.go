// Package sale simulates a flash sale. Several shops, each a process, sell a few
// coupons to many buyers from one database. The sale runs without a lock and with
// different locks, to compare the resulting orders.
//
// A [Market] runs the sale. [Serve] runs one shop.
package sale

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/holdfast-go/holdfast"
)

// A Market runs sales, one after the other.
type Market struct {
	Crowd
	Client      *holdfast.Client
	Names       string // prefix of all keys on the server
	URL, Config string // server, for the shops
	DB          Database

	Shop     func() *exec.Cmd                // returns the command of a process that calls Serve
	Progress func(done float64, note string) // called regularly; done is from 0 to 1

	db           *sql.DB
	closeTimeout time.Duration // time for a shop to exit; 0: the default
}

// Open creates the tables.
func (m *Market) Open(ctx context.Context) error {
	db, err := m.DB.open(ctx, 2)
	if err != nil {
		return err
	}
	m.db = db
	return m.DB.create(ctx, db)
}

// Close removes the keys and tables of the sales, even if ctx is done.
func (m *Market) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	keys := []string{idsName(m.Names)}
	for _, w := range Ways() {
		keys = append(keys, m.job(w, 0).lockName())
	}
	var errs []error
	for _, key := range keys { // one by one: in a cluster they may be on different nodes
		if err := deleteKey(ctx, m.Client, key); err != nil {
			errs = append(errs, err)
			break // the other keys would fail for the same reason
		}
	}
	if m.db != nil {
		errs = append(errs, m.DB.drop(ctx, m.db), m.DB.hide(m.db.Close()))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cannot clean up after the sale: %w", err)
	}
	return nil
}

func (m *Market) job(w Way, shop int) Job {
	return Job{Crowd: m.Crowd, Shop: shop, Way: w.Name, Names: m.Names, URL: m.URL, Config: m.Config, DB: m.DB}
}

// Hold runs the sale in one way and returns the result.
func (m *Market) Hold(ctx context.Context, w Way) (Result, error) {
	d := &ledger{m.db, m.DB, w}
	r := Result{Way: w, Crowd: m.Crowd}
	if err := d.setStock(ctx, m.Stock); err != nil {
		return r, m.DB.hide(err)
	}
	f := &saleRun{market: m, ledger: d, result: &r, all: m.Clicks(), messages: make(chan shopMessage)}
	err := f.run(ctx)
	if err == nil {
		r.Sold, r.People, r.Left, err = d.totals(ctx)
	}
	if err == nil && r.Sold != f.orders {
		err = fmt.Errorf("the shops sold %d, but the database has %d orders", f.orders, r.Sold)
	}
	if ctx.Err() != nil {
		return r, ctx.Err() // canceled: other errors are a consequence
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", w.Title, m.DB.hide(err))
	}
	return r, nil
}
