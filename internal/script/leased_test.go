package script_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

// permitIDs are the ids of permits as the server has them, by how rows write
// them: a:1.0 is the first one of the owner a:1.
var permitIDs = func() map[string]string {
	ids := make(map[string]string)
	for _, owner := range []string{"a:1", "b:1", "c:1", "j:7"} {
		for i, id := range script.NewLeased("", 3).Ref(owner).IDs() {
			raw, _ := script.ParseIDs([]string{id})
			ids[fmt.Sprint(owner, ".", i)] = raw
		}
	}
	return ids
}()

// shortIDs writes the ids in a text as rows do.
func shortIDs(s string) string {
	for word, raw := range permitIDs {
		s = strings.ReplaceAll(s, hex.EncodeToString([]byte(raw)), word)
	}
	return s
}

// inOrder sorts the ids in the line of a key by how rows write them.
func inOrder(line string) string {
	ids, ok := strings.CutPrefix(line, "timeout zset ")
	if !ok {
		return line
	}
	ids, ttl, _ := strings.Cut(ids, ",")
	sorted := strings.Fields(ids)
	slices.Sort(sorted)
	if line = "timeout zset " + strings.Join(sorted, " "); ttl != "" {
		line += "," + ttl
	}
	return line
}

// inRow returns ids in a row.
func inRow(words []string) (row string) {
	for _, w := range words {
		row += permitIDs[w]
	}
	return row
}

// leased is the kind of those who want n permits.
func leased(n int) func(name string) kind {
	return func(name string) kind { return script.NewLeased(name, n) }
}

// queuedLeased is the same, with a queue.
func queuedLeased(n int) func(name string) kind {
	return func(name string) kind { return script.NewLeased(name, n).Queued() }
}

// returnIDs gives permits back by their ids.
func returnIDs(request string, ids ...string) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		_, err := d.Do(ctx, script.NewLeased(name, 0).Return(request, inRow(ids)))
		return err
	}
}

// renewIDs renews leases for 60 s, each of which has the permits that it is
// given as one text.
func renewIDs(leases ...string) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		var hs []script.LockRef
		for _, l := range leases {
			hs = append(hs, script.NewLeased(name, 0).HoldingOf(inRow(strings.Fields(l))))
		}
		_, err := d.Do(ctx, renewEach(time.Minute, hs))
		return err
	}
}

func resize(n int) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		_, err := script.NewLeased(name, n).Resize(ctx, d)
		return err
	}
}

func inspectLeased(id string) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		_, err := script.NewLeased(name, 0).Inspect(ctx, d, permitIDs[id])
		return err
	}
}

// endless is the score of what Java holds without an end.
const endless = "922337203685477"

var leasedWire = []step{
	{"ask how many are free before there are any", inspectLeased("")},
	{"set how many there are", resize(3)},
	{"take two", acquire(leased(2), again(me, 1, 30))},
	{"send that again", acquire(leased(2), again(me, 1, 30))},
	{"try to take more than there are", acquire(leased(2), again(other, 1, 30))},
	{"look at them", inspectLeased("")},
	{"let another take one", acquire(leased(1), again("a:1", 1, 100))},
	{"look at that one", inspectLeased("a:1.0")},
	{"renew it, and one that is not taken", renewIDs("a:1.0", "b:1.0")},
	{"set that there are fewer", resize(2)},
	{"give that one back by its id", returnIDs(me+":1", "a:1.0")},
	{"send that again", returnIDs(me+":1", "a:1.0")},
	{"give it back once more", returnIDs(me+":2", "a:1.0")},
	{"give two back", release(leased(2), me, 0)},
	{"send that again", release(leased(2), me, 0)},
}

func TestLeasedPermits(t *testing.T) { check(t, leasedRows) }

// The ids of an owner's permits are made from its name, and read as Java
// writes them.
func TestPermitIDs(t *testing.T) {
	p := script.NewLeased("x", 3)
	ids := p.Ref(me).IDs()
	if again := script.NewLeased("y", 3).Ref(me).IDs(); fmt.Sprint(ids) != fmt.Sprint(again) {
		t.Errorf("ids %q, and asked again %q", ids, again)
	}
	row, ok := script.ParseIDs(ids)
	if !ok || row != p.Ref(me).Permits || len(row) != 3*16 {
		t.Errorf("parsed %q, %v; want what is renewed: %q", row, ok, p.Ref(me).Permits)
	}
	if upper, ok := script.ParseIDs([]string{strings.ToUpper(ids[0])}); !ok || upper != row[:16] {
		t.Errorf("in upper case: %q, %v", upper, ok)
	}
	seen := make(map[string]bool)
	for _, owner := range []string{me, other, "a:1", "a:11", "a:1:1"} {
		for _, id := range script.NewLeased("x", 20).Ref(owner).IDs() {
			if seen[id] {
				t.Fatalf("%s twice", id)
			}
			seen[id] = true
		}
	}
	for _, bad := range []string{"", "00", strings.Repeat("0", 31), strings.Repeat("0", 33), strings.Repeat("g", 32), "123e4567-e89b-12d3-a456-426614174000"} {
		if _, ok := script.ParseIDs([]string{ids[0], bad}); ok {
			t.Errorf("%q is taken for an id", bad)
		}
	}
}

var leasedRows = slices.Concat(leasedTakeRows, leasedBackRows, leasedRestRows)

// A lease of permits lasts to its end, to the millisecond, and no longer.
func TestPermitsInStillTime(t *testing.T) {
	server := redistest.Start(t)
	s := &still{T: t, Driver: connect(t, server.URL()), name: "N"}
	p := script.NewLeased(s.name, 1)
	take := func(owner string) int64 {
		t.Helper()
		v, err := script.Acquire(t.Context(), s, p, script.Claim{Owner: owner, Lease: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if v.Granted() {
			return 0
		}
		return v.TTL.Milliseconds()
	}
	renew := func(owner string) bool {
		t.Helper()
		held, err := script.Prolong(t.Context(), s, p.Ref(owner), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return held
	}
	release := func(owner string) bool {
		t.Helper()
		f, err := p.Release(t.Context(), s, owner, 0)
		if err != nil {
			t.Fatal(err)
		}
		return f.Held
	}
	server.Do(t, "SET", "N", "1")
	s.wants(0, take("a:1"))
	s.at = 999
	s.wants(1, take("b:1"))
	if !renew("a:1") {
		t.Error("not held in its last millisecond")
	}
	s.at = 1998
	s.wants(1, take("b:1"))
	s.at = 1999
	if renew("a:1") {
		t.Error("renewed when it was over")
	}
	s.wants(0, take("b:1"))
	if release("a:1") {
		t.Error("another's was given back")
	}
	s.at = 2998
	s.wants(1, take("c:1"))
	s.at = 2999
	if release("b:1") {
		t.Error("held when it was over")
	}
	s.wants(0, take("c:1"))
	s.wants(0, server.Int(t, "GET", "N"))
}
