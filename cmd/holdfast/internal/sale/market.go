// Package sale is a flash sale: a crowd wants the few coupons that some shops,
// each a process of its own, sell from one database. It can be held with
// different locks, and without one, to see what becomes of the books.
//
// A [Market] runs it; [Serve] is one of its shops.
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

// A Market is where sales are held, one after the other.
type Market struct {
	Crowd
	Client      *holdfast.Client
	Names       string // what the names of all keys at the server begin with
	URL, Config string // how the shops reach the server
	DB          Database

	Shop     func() *exec.Cmd                // makes a process that calls Serve
	Progress func(done float64, note string) // called now and then; done is from 0 to 1

	books *sql.DB
}

// Open makes the tables.
func (m *Market) Open(ctx context.Context) error {
	db, err := m.DB.open(ctx, 2)
	if err != nil {
		return err
	}
	m.books = db
	return m.DB.create(ctx, db)
}

// Close removes all that the sales have left behind, even if ctx is done.
func (m *Market) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	keys := []string{idsName(m.Names)}
	for _, w := range Ways() {
		keys = append(keys, m.job(w, 0).lockName())
	}
	var errs []error
	for _, key := range keys { // one by one: in a cluster they may be in different places
		if err := deleteKey(ctx, m.Client, key); err != nil {
			errs = append(errs, err)
			break // it would be the same with the others
		}
	}
	if m.books != nil {
		errs = append(errs, m.DB.drop(ctx, m.books), m.DB.hide(m.books.Close()))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cannot clean up after the sale: %w", err)
	}
	return nil
}

func (m *Market) job(w Way, shop int) Job {
	return Job{Crowd: m.Crowd, Shop: shop, Way: w.Name, Names: m.Names, URL: m.URL, Config: m.Config, DB: m.DB}
}

// Hold holds the sale one way and returns what the books say.
func (m *Market) Hold(ctx context.Context, w Way) (Result, error) {
	d := &desk{m.books, m.DB, w}
	r := Result{Way: w, Crowd: m.Crowd}
	if err := d.supply(ctx, m.Stock); err != nil {
		return r, m.DB.hide(err)
	}
	f := &floor{market: m, desk: d, result: &r, all: m.Clicks(), words: make(chan said)}
	err := f.run(ctx)
	if err == nil {
		r.Sold, r.People, r.Left, err = d.books(ctx)
	}
	if err == nil && r.Sold != f.orders {
		err = fmt.Errorf("the shops sold %d, but the database has %d orders", f.orders, r.Sold)
	}
	if ctx.Err() != nil {
		return r, ctx.Err() // whatever went wrong, it is called off
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", w.Title, m.DB.hide(err))
	}
	return r, nil
}
