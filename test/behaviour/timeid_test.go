package behaviour_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/object"
)

func TestTimeID(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	ctx, c := t.Context(), locktest.Open(t, s.URL())
	ids := object.NewTimeID(c, "t")
	before := time.Now().Truncate(time.Second)
	id := locktest.Must[int64](t)(ids.Next(ctx))
	at, seq := object.ParseTimeID(id)
	if after := time.Now().Add(time.Second); at.Before(before) || at.After(after) || seq < 1 || seq > 1e9 {
		t.Errorf("an id of %v and %d, drawn between %v and %v", at, seq, before, after)
	}
	if at, seq := object.ParseTimeID(1<<32 | 7); at != time.Date(2022, 1, 1, 0, 0, 1, 0, time.UTC) || seq != 7 {
		t.Errorf("parsed as %v and %d", at, seq)
	}
	many := locktest.Must[[]int64](t)(ids.NextN(ctx, 1000))
	if later, n := object.ParseTimeID(many[0]); many[0] <= id || n != seq+1 && later.Day() == at.Day() {
		t.Errorf("id %d after %d", many[0], id)
	}
	for i, next := range many {
		if next != many[0]+int64(i) {
			t.Fatalf("id %d at %d after %d", next, i, many[0])
		}
	}
	if ttl := s.Int(t, "TTL", "t"); ttl < 47*3600 || ttl > 48*3600 {
		t.Errorf("idle for %d s at most", ttl)
	}
	// The clock was ahead, or is set back: the time stands still.
	ahead := time.Now().Add(time.Hour).Unix() - 1640995200
	s.Do(t, "HSET", "t", "sec", fmt.Sprint(ahead), "seq", "4294967290")
	for i := range int64(5) {
		if id := locktest.Must[int64](t)(ids.Next(ctx)); id != ahead<<32|(4294967291+i) {
			t.Errorf("id %d, want %d", id, ahead<<32|(4294967291+i))
		}
	}
	_, err := ids.Next(ctx)
	if !errors.Is(err, holdfast.ErrRefused) {
		t.Errorf("no number is left: %v", err)
	}
	t.Log(err)
	// A TimeID does not go below what it has given out.
	s.Do(t, "DEL", "t")
	if _, err := ids.Next(ctx); !errors.Is(err, holdfast.ErrRefused) {
		t.Errorf("no number is left: %v", err)
	}
}

// A drawing is a call of NextN: when it began and returned, the first id, and
// how many.
type drawing struct{ began, returned, first, n int64 }

func drawTimeIDs(c *holdfast.Client, n int) func(io.Writer) {
	t := object.NewTimeID(c, "t")
	return func(w io.Writer) {
		for left := n; left > 0; {
			d := drawing{began: redistest.Now(), n: 1}
			var err error
			if rand.IntN(10) > 0 {
				d.first, err = t.Next(context.Background())
			} else {
				d.n = int64(min(left, 1+rand.IntN(500)))
				var ids []int64
				ids, err = t.NextN(context.Background(), int(d.n))
				for i, id := range ids {
					d.first = ids[0]
					if id != ids[0]+int64(i) {
						panic("the ids of a call are not in a row")
					}
				}
			}
			if err != nil {
				panic(err)
			}
			d.returned = redistest.Now()
			put(w, d.began, d.returned, d.first, d.n)
			left -= int(d.n)
		}
	}
}

// Ids rise strictly over all processes: which of two calls came first shows in
// what they got.
func TestTimeIDsAcrossProcesses(t *testing.T) {
	t.Parallel()
	const each = 25_000
	before := time.Now().Truncate(time.Second)
	var all []drawing
	total := int64(0)
	for _, numbers := range draw(t, "time ids", each) {
		last := int64(0)
		for row := range slices.Chunk(numbers, 4) {
			d := drawing{row[0], row[1], row[2], row[3]}
			if d.first <= last {
				t.Fatalf("%d after %d", d.first, last)
			}
			last = d.first + d.n - 1
			total += d.n
			all = append(all, d)
		}
	}
	if total != drawers*perDrawer*each {
		t.Errorf("%d ids", total)
	}
	slices.SortFunc(all, func(a, b drawing) int { return cmp.Compare(a.first, b.first) })
	for i, d := range all {
		if at, _ := object.ParseTimeID(d.first); at.Before(before) || at.After(time.Now().Add(time.Second)) {
			t.Fatalf("an id of %v", at)
		}
		if i > 0 && d.first < all[i-1].first+all[i-1].n {
			t.Fatalf("%+v and %+v overlap", all[i-1], d)
		}
	}
	// In the order of ids, none may have returned before an earlier one began.
	began := int64(0)
	for _, d := range all {
		if d.returned < began {
			t.Fatalf("%+v had returned when a call that got less began, at %d", d, began)
		}
		began = max(began, d.began)
	}
	t.Logf("%d ids in %d calls", total, len(all))
}
