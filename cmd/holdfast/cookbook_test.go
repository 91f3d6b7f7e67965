//go:build unix

package main_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The last recipe of docs/cookbook.md. The others are in holdfasttest/cookbook.

var guard = fence.SQL{Dollar: true} // guard.CreateTable creates its table

// workQueue does the jobs of a queue one after the other, in one process at a time.
func workQueue(ctx context.Context, client *holdfast.Client, db *sql.DB, queue string, run func(ctx context.Context, payload string) (string, error)) error {
	return client.Mutex("queue:"+queue).Do(ctx, func(ctx context.Context) error {
		token := holdfast.LeaseOf(ctx).Token()
		for {
			id, payload, err := nextJob(ctx, db, queue, token)
			if errors.Is(err, sql.ErrNoRows) {
				return nil // the queue is empty
			} else if err != nil {
				return err
			}
			result, err := run(ctx, payload) // may take long, outside of a transaction
			if err != nil {
				return err
			}
			if err := finishJob(ctx, db, queue, token, id, result); err != nil {
				return err
			}
		}
	})
}

// nextJob returns the oldest job. From now on, the database refuses lower tokens.
func nextJob(ctx context.Context, db *sql.DB, queue string, token int64) (id int64, payload string, err error) {
	err = fenced(ctx, db, queue, token, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT id, payload FROM jobs WHERE queue = $1 AND result IS NULL ORDER BY id LIMIT 1`, queue).Scan(&id, &payload)
	})
	return id, payload, err
}

// finishJob stores the result of a job.
func finishJob(ctx context.Context, db *sql.DB, queue string, token, id int64, result string) error {
	return fenced(ctx, db, queue, token, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE jobs SET result = $1 WHERE id = $2`, result, id)
		return err
	})
}

// fenced runs fn in a transaction that checks the token first.
func fenced(ctx context.Context, db *sql.DB, queue string, token int64, fn func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	if err := guard.Check(ctx, tx, "queue:"+queue, token); err != nil {
		return err // matches fence.ErrStale if a later holder has been here
	}
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// TestCookbookQueue runs the worker with PostgreSQL, once with a Redis server and once with the
// server of holdfasttest.
func TestCookbookQueue(t *testing.T) {
	t.Parallel()
	_, db := startPostgres(t)
	if err := guard.CreateTable(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`CREATE TABLE jobs (id BIGSERIAL PRIMARY KEY, queue TEXT NOT NULL, payload TEXT NOT NULL, result TEXT)`); err != nil {
		t.Fatal(err)
	}
	redis, memory := redistest.Start(t), holdfasttest.NewServer(t)
	for _, test := range []struct {
		name      string
		newClient func() *holdfast.Client
		take      func(lock string) // takes the lock away from its holder
	}{
		{
			"redis",
			func() *holdfast.Client {
				client, err := holdfast.Open(t.Context(), redis.URL(), nil)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { client.Close() })
				return client
			},
			func(lock string) { redis.Do(t, "DEL", lock) },
		},
		{"holdfasttest", func() *holdfast.Client { return memory.NewClient(nil) }, memory.Take},
	} {
		t.Run(test.name, func(t *testing.T) {
			queue := test.name
			insert := func(n int) {
				for i := range n {
					if _, err := db.Exec(`INSERT INTO jobs (queue, payload) VALUES ($1, $2)`, queue, fmt.Sprint("job ", i)); err != nil {
						t.Fatal(err)
					}
				}
			}
			results := func() (all []string) {
				rows, err := db.Query(`SELECT coalesce(result, '-') FROM jobs WHERE queue = $1 ORDER BY id`, queue)
				if err != nil {
					t.Fatal(err)
				}
				defer rows.Close()
				for rows.Next() {
					var result string
					if err := rows.Scan(&result); err != nil {
						t.Fatal(err)
					}
					all = append(all, result)
				}
				return all
			}

			// Two processes do each job once, in order.
			a, b := test.newClient(), test.newClient()
			insert(6)
			var order []string // the lock and the database keep the processes apart
			ended := make(chan error, 2)
			for _, client := range []*holdfast.Client{a, b} {
				go func() {
					ended <- workQueue(t.Context(), client, db, queue, func(_ context.Context, payload string) (string, error) {
						order = append(order, payload)
						return strings.ToUpper(payload), nil
					})
				}()
			}
			for range 2 {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			if want := []string{"job 0", "job 1", "job 2", "job 3", "job 4", "job 5"}; !slices.Equal(order, want) {
				t.Errorf("done: %q", order)
			}
			if got, want := results(), []string{"JOB 0", "JOB 1", "JOB 2", "JOB 3", "JOB 4", "JOB 5"}; !slices.Equal(got, want) {
				t.Errorf("results: %q", got)
			}

			// Process a stands still in its work. Its lock ends, and b does the job. The late
			// result of a is refused, before a is told that the lock is lost.
			if _, err := db.Exec(`DELETE FROM jobs WHERE queue = $1`, queue); err != nil {
				t.Fatal(err)
			}
			insert(1)
			standing, resume := make(chan int64, 1), make(chan bool)
			go func() {
				ended <- workQueue(t.Context(), a, db, queue, func(ctx context.Context, _ string) (string, error) {
					standing <- holdfast.LeaseOf(ctx).Token()
					<-resume
					return "late", nil
				})
			}()
			token := <-standing
			test.take("queue:" + queue)
			err := workQueue(t.Context(), b, db, queue, func(context.Context, string) (string, error) { return "in time", nil })
			if err != nil {
				t.Error(err)
			}
			close(resume)
			if err := <-ended; !errors.Is(err, fence.ErrStale) && !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("late: %v", err)
			}
			// A write that is still on its way then is refused, too.
			var id int64
			if err := db.QueryRow(`SELECT id FROM jobs WHERE queue = $1`, queue).Scan(&id); err != nil {
				t.Fatal(err)
			}
			if err := finishJob(t.Context(), db, queue, token, id, "too late"); !errors.Is(err, fence.ErrStale) {
				t.Errorf("too late: %v", err)
			}
			if _, _, err := nextJob(t.Context(), db, queue, token); !errors.Is(err, fence.ErrStale) {
				t.Errorf("too late to read: %v", err)
			}
			if got := results(); !slices.Equal(got, []string{"in time"}) {
				t.Errorf("results: %q", got)
			}
		})
	}
}
