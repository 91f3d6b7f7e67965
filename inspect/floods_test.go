package inspect_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Whatever is stored, a list has a bounded size.
func TestFloods(t *testing.T) {
	for title, flood := range redistest.Floods {
		t.Run(title, func(t *testing.T) {
			s := redistest.Start(t) // a script cannot write to all masters of a cluster
			_, i := open(t, s.URL())
			s.Do(t, "EVAL", flood, "0")
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var texts int // the length of all
			add := func(most int, text string) {
				if texts += len(text); len(text) > most {
					t.Fatalf("a text of %d bytes is listed: %.40q", len(text), text)
				}
			}
			for l, err := range i.Locks(t.Context(), inspect.Query{}) {
				add(1024, l.Name)
				add(65536, l.Leader)
				for _, h := range l.Holders {
					add(512, h.Owner)
				}
				for _, w := range l.Queue {
					add(512, w.Owner)
				}
				incomplete(t, err)
			}
			for l, err := range i.Limiters(t.Context(), inspect.Query{}) {
				add(1024, l.Name)
				incomplete(t, err)
			}
			for c, err := range i.Clients(t.Context(), inspect.Query{}) {
				add(64, c.ID)
				add(128, c.Host)
				incomplete(t, err)
			}
			for d, err := range i.Deadlocks(t.Context(), inspect.Query{}) {
				add(64, d.ID)
				if len(d.Calls) > 32 {
					t.Fatalf("%d calls", len(d.Calls))
				}
				for _, c := range d.Calls {
					if len(c.Holds) > 32 || len(c.Wants) > 32 {
						t.Fatalf("a call holds %d locks and wants %d", len(c.Holds), len(c.Wants))
					}
				}
				incomplete(t, err)
			}
			runtime.ReadMemStats(&after)
			if texts > 20<<20 {
				t.Errorf("%d bytes are listed", texts)
			}
			if all := after.TotalAlloc - before.TotalAlloc; all > 200<<20 {
				t.Errorf("%d MB were allocated", all>>20)
			} else {
				t.Logf("%d bytes, %d MB allocated", texts, all>>20)
			}
		})
	}
}

// incomplete ends the test if there is an error, unless the list is only incomplete.
func incomplete(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, inspect.ErrMore) {
		t.Fatal(err)
	}
}
