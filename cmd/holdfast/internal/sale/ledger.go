package sale

import (
	"context"
	"database/sql"
	"fmt"
)

// A ledger reads and writes the tables of one way of the sale.
type ledger struct {
	*sql.DB
	where Database
	way   Way
}

// connections is the maximum number of connections of all shops. Databases
// usually allow about a hundred.
const connections = 24

func openLedger(ctx context.Context, d Database, w Way, shops int) (*ledger, error) {
	db, err := d.open(ctx, max(1, min(connections/shops, 4)))
	if err != nil {
		return nil, err
	}
	return &ledger{db, d, w}, nil
}

// create creates the tables. They have no unique index on buyers, which a real
// shop would have: here only the lock prevents double orders.
func (d Database) create(ctx context.Context, db *sql.DB) error {
	for _, statement := range []string{
		"CREATE TABLE {coupon} (way VARCHAR(16) NOT NULL PRIMARY KEY, stock INT NOT NULL)",
		"CREATE TABLE {orders} (id BIGINT NOT NULL PRIMARY KEY, buyer INT NOT NULL, shop INT NOT NULL, way VARCHAR(16) NOT NULL)",
		"CREATE INDEX {orders}_buyer ON {orders} (way, buyer)",
	} {
		if _, err := db.ExecContext(ctx, d.query(statement)); err != nil {
			return fmt.Errorf("cannot create the tables: %w", d.hide(err))
		}
	}
	return d.Guard.CreateTable(ctx, db)
}

// drop removes the tables. It stops at the first error.
func (d Database) drop(ctx context.Context, db *sql.DB) error {
	for _, table := range []string{"{coupon}", "{orders}", "{fence}"} {
		if _, err := db.ExecContext(ctx, d.query("DROP TABLE IF EXISTS "+table)); err != nil {
			return fmt.Errorf("cannot drop %s: %w", d.table("*"), d.hide(err))
		}
	}
	return nil
}

// A querier is a *sql.DB or *sql.Tx.
type querier interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

// do runs fn. With the guard it runs fn in a transaction that first checks the
// token. Without the guard each statement runs on its own.
func (d *ledger) do(ctx context.Context, token int64, fn func(querier) error) error {
	if !d.way.guard {
		return fn(d.DB)
	}
	tx, err := d.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // does nothing after Commit
	if err := d.where.Guard.Check(ctx, tx, "coupon", token); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func (d *ledger) ask(ctx context.Context, q querier, text string, args ...any) (n int, err error) {
	err = q.QueryRowContext(ctx, d.where.query(text), args...).Scan(&n)
	return n, err
}

func (d *ledger) stock(ctx context.Context, q querier) (int, error) {
	return d.ask(ctx, q, "SELECT stock FROM {coupon} WHERE way = ?", d.way.Name)
}

// check returns the stock and the number of earlier orders of the buyer.
func (d *ledger) check(ctx context.Context, token int64, buyer int) (left, before int, err error) {
	err = d.do(ctx, token, func(q querier) error {
		if left, err = d.stock(ctx, q); err != nil {
			return err
		}
		before, err = d.ask(ctx, q, "SELECT COUNT(*) FROM {orders} WHERE way = ? AND buyer = ?", d.way.Name, buyer)
		return err
	})
	return left, before, err
}

type order struct {
	id          int64
	buyer, shop int
}

// sell writes an order and the new stock.
func (d *ledger) sell(ctx context.Context, token int64, o order, left int) error {
	return d.do(ctx, token, func(q querier) error {
		if _, err := q.ExecContext(ctx, d.where.query("INSERT INTO {orders} (id, buyer, shop, way) VALUES (?, ?, ?, ?)"), o.id, o.buyer, o.shop, d.way.Name); err != nil {
			return fmt.Errorf("cannot write order %d: %w", o.id, err)
		}
		_, err := q.ExecContext(ctx, d.where.query("UPDATE {coupon} SET stock = ? WHERE way = ?"), left, d.way.Name)
		return err
	})
}

// setStock writes the initial stock.
func (d *ledger) setStock(ctx context.Context, stock int) error {
	_, err := d.ExecContext(ctx, d.where.query("INSERT INTO {coupon} (way, stock) VALUES (?, ?)"), d.way.Name, stock)
	return err
}

// sold returns the number of orders.
func (d *ledger) sold(ctx context.Context) (int, error) {
	return d.ask(ctx, d, "SELECT COUNT(*) FROM {orders} WHERE way = ?", d.way.Name)
}

// totals returns the number of orders, the number of people who ordered, and the
// stock.
func (d *ledger) totals(ctx context.Context) (sold, people, left int, err error) {
	if sold, err = d.sold(ctx); err != nil {
		return
	}
	if people, err = d.ask(ctx, d, "SELECT COUNT(DISTINCT buyer) FROM {orders} WHERE way = ?", d.way.Name); err != nil {
		return
	}
	left, err = d.stock(ctx, d)
	return
}
