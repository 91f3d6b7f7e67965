package interop_test

import (
	"context"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/interop"
	goobject "github.com/holdfast-go/holdfast/object"
)

// The generators of both sides never return the same id, whichever side has initialized
// them, or neither.
func TestIDsOfFleet(t *testing.T) {
	const first, block, each, draws = 1000, 7, 3, 400
	ctx := context.Background()
	for _, test := range []struct {
		name        string
		init        func(t *testing.T, java object, golang *goobject.IDGenerator)
		first, last int64 // range of valid ids
	}{
		{"Java begins", func(t *testing.T, java object, golang *goobject.IDGenerator) {
			java.says(t, true, "tryInit", first, block)
			gives(t, false)(golang.TryInit(ctx, 1, 1))
		}, first, first + 2*each*draws + 2*block},
		{"Go begins", func(t *testing.T, java object, golang *goobject.IDGenerator) {
			gives(t, true)(golang.TryInit(ctx, first, block))
			java.says(t, false, "tryInit", 1, 1)
		}, first, first + 2*each*draws + 2*block},
		{"neither initializes", func(*testing.T, object, *goobject.IDGenerator) {}, 1, 10000}, // blocks of 5000
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r, n := newFixture(t, interop.Current), name(t)
			java, golang := r.java.get(t, "getIdGenerator", n), goobject.NewIDGenerator(r.golang, n)
			test.init(t, java, golang)
			var mu sync.Mutex
			drawn := map[int64]string{}
			note := func(id int64, who string) {
				mu.Lock()
				defer mu.Unlock()
				if other, ok := drawn[id]; ok {
					t.Errorf("id %d returned to %s and to %s", id, other, who)
				}
				if id < test.first || id > test.last {
					t.Errorf("invalid id %d returned to %s", id, who)
				}
				drawn[id] = who
			}
			var wg sync.WaitGroup
			for i := range each {
				wg.Go(func() {
					a := peer(t, interop.Current).Do(interop.Call{Thread: n + string(rune('a'+i)), Times: draws, Calls: []interop.Call{java.Call("", "nextId")}})
					if a.Err() != nil {
						t.Error(a.Err())
						return
					}
					for _, id := range a.Value.([]any) {
						note(int64(id.(float64)), "Java")
					}
				})
				wg.Go(func() {
					for range draws {
						id, err := golang.Next(ctx)
						if err != nil {
							t.Error(err)
							return
						}
						note(id, "Go")
					}
				})
			}
			wg.Wait()
			if len(drawn) != 2*each*draws {
				t.Errorf("%d ids, want %d", len(drawn), 2*each*draws)
			}
		})
	}
}

// An initialization that Redisson has completed only half is used as it is. An allocation
// in use is not initialized again.
func TestIDsHalfBegun(t *testing.T) {
	t.Parallel()
	ctx, r := t.Context(), newFixture(t, interop.Current)
	n := name(t)
	java, golang := r.java.get(t, "getIdGenerator", n), goobject.NewIDGenerator(r.golang, n)
	r.server.Do(t, "SET", n, "500")
	gives(t, false)(golang.TryInit(ctx, 1, 10))
	java.says(t, true, "tryInit", 1, 10) // sets the other half
	gives(t, int64(500))(golang.Next(ctx))
	java.says(t, 510, "nextId")
	gives(t, int64(501))(golang.Next(ctx))
	java.says(t, true, "delete")
	gives(t, false)(golang.Object().Exists(ctx))
}
