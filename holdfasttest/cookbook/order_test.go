package cookbook

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

var errOrdered = errors.New("this person has ordered already")

// Orders is the table of orders.
type Orders interface {
	Exists(ctx context.Context, user int64, item string) (bool, error)
	Insert(ctx context.Context, user int64, item string) error
}

// placeOrder places an order, unless this person has one.
func placeOrder(ctx context.Context, client *holdfast.Client, orders Orders, user int64, item string) error {
	lock := client.Mutex(fmt.Sprintf("order:%s:%d", item, user))
	return lock.Do(ctx, func(ctx context.Context) error {
		exists, err := orders.Exists(ctx, user, item)
		if err != nil {
			return err
		}
		if exists {
			return errOrdered
		}
		return orders.Insert(ctx, user, item)
	}, holdfast.Wait(5*time.Second))
}

// A slowTable is a table of orders that takes its time. Orders of the item "coffee" wait
// for each other.
type slowTable struct {
	mu     sync.Mutex
	rows   map[string]int
	coffee chan bool
}

func (o *slowTable) Exists(_ context.Context, user int64, item string) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rows[fmt.Sprint(user, item)] > 0, nil
}

func (o *slowTable) Insert(_ context.Context, user int64, item string) error {
	if item == "coffee" {
		select {
		case o.coffee <- true:
		case <-o.coffee:
		case <-time.After(limit):
			return errors.New("there is no second order")
		}
	}
	time.Sleep(20 * time.Millisecond)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rows[fmt.Sprint(user, item)]++
	return nil
}

// Each of three persons clicks six times, in two processes, and has one order.
func TestOrder(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		clients := []*holdfast.Client{s.newClient(), s.newClient()}
		table := &slowTable{rows: make(map[string]int), coffee: make(chan bool)}
		placed := 0
		for _, err := range together(18, func(i int) error {
			return placeOrder(t.Context(), clients[i%2], table, int64(i/6), "tea")
		}) {
			switch {
			case err == nil:
				placed++
			case !errors.Is(err, errOrdered):
				t.Error(err)
			}
		}
		if placed != 3 {
			t.Errorf("%d calls placed an order", placed)
		}

		// The table is the record: it does not matter what Redis forgets.
		s.do("FLUSHALL")
		if err := placeOrder(t.Context(), clients[0], table, 1, "tea"); !errors.Is(err, errOrdered) {
			t.Error(err)
		}
		for row, n := range table.rows {
			if n != 1 {
				t.Errorf("%d orders of %s", n, row)
			}
		}

		// One person does not wait for another: both inserts run at the same time.
		for _, err := range together(2, func(i int) error {
			return placeOrder(t.Context(), clients[i], table, int64(i), "coffee")
		}) {
			if err != nil {
				t.Error(err)
			}
		}
	})
}
