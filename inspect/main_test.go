package inspect_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.RunTests(m)) }

// open returns a client, and an inspector that asks through it.
func open(tb testing.TB, url string) (*holdfast.Client, *inspect.Inspector) {
	tb.Helper()
	// An inspector asks once, and the usual 2 s may pass while a busy machine
	// stands still.
	if strings.Contains(url, "?") {
		url += "&timeout=20s"
	} else {
		url += "?timeout=20s"
	}
	// Who waits does not look by itself before a test is over.
	c, err := holdfast.Open(context.Background(), url, &holdfast.Options{PollInterval: time.Minute})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c, inspect.New(c.Driver())
}

// list returns the locks by their names, and the error that has ended the list.
func list(tb testing.TB, i *inspect.Inspector, q inspect.Query) (map[string]inspect.Lock, error) {
	tb.Helper()
	locks := make(map[string]inspect.Lock)
	for l, err := range i.Locks(tb.Context(), q) {
		if err != nil {
			return locks, err
		}
		if _, twice := locks[l.Name]; twice {
			tb.Errorf("%.80q is listed twice", l.Name)
		}
		locks[l.Name] = l
	}
	return locks, nil
}

// must ends the test if there is an error: must(f())(t).
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

// done ends the test if there is an error.
func done(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// eventually waits until a lock looks as it should.
func eventually(tb testing.TB, i *inspect.Inspector, name string, good func(inspect.Lock) bool) inspect.Lock {
	tb.Helper()
	var l inspect.Lock
	var err error
	found := redistest.Poll(20*time.Second, func() bool {
		l, err = i.Lock(tb.Context(), name)
		return err == nil && good(l)
	})
	if !found {
		tb.Fatalf("%s looks like %+v, %v", name, l, err)
	}
	return l
}

// without returns the lock without what differs from one look to the next.
func without(l inspect.Lock) inspect.Lock {
	l.Holders = slices.Clone(l.Holders)
	for i, h := range l.Holders {
		l.Holders[i].Client = nil // see TestClient
		if h.TTL > 0 {
			l.Holders[i].TTL = time.Hour
		}
	}
	l.Queue = slices.Clone(l.Queue)
	for i, w := range l.Queue {
		l.Queue[i].Client = nil
		if w.Waited >= 0 {
			l.Queue[i].Waited = time.Hour
		}
	}
	slices.SortFunc(l.Holders, func(a, b inspect.Holder) int { return strings.Compare(a.Owner, b.Owner) })
	return l
}
