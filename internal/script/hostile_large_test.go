package script_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

// TestLargeData looks at all large contents with the script that reads keys of
// any kind; TestHostileData tries some of them on each script.
func TestLargeData(t *testing.T) {
	h := newHostile(t, 1)
	i := slices.IndexFunc(targets, func(g target) bool { return g.script == "inspect_look" })
	for key, role := range targets[i].keys {
		for _, c := range h.contents(key, role) {
			if c.costly() {
				held := map[string]content{key: c}
				if key != "N" {
					held["N"] = h.sound("N", map[string]string{"leases": "count"}[role]+map[string]string{"queue": "lock"}[role])
				}
				h.attack(targets[i], key, held)
			}
		}
	}
}

// A log of 150,000 entries takes no longer to look at than a short one, whether
// they are over or not, and what is over is reclaimed.
func TestLongLogIsBounded(t *testing.T) {
	s := redistest.Start(t)
	h := &hostile{T: t, s: s, d: connect(t, s.URL()), what: "a long log"}
	long := func(n, at int64) []string {
		return []string{"!zset", "{N}:permits", strconv.FormatInt(n, 10), "log", strconv.FormatInt(at, 10)}
	}
	for title, test := range map[string]struct {
		commands [][]string
		least    int
	}{
		"one is not over":     {[][]string{long(150_000, 1000), {"ZADD", "{N}:permits", strconv.FormatInt(now(t, s), 10), longEntry("@j:7*1")}}, 999_999},
		"some are over":       {[][]string{long(150_000, 1000), long(3_000, now(t, s))}, 140_000},
		"the count was lost":  {[][]string{long(150_000, now(t, s)), {"DEL", "{N}:value"}}, 0},
		"a rate that changed": {[][]string{long(150_000, now(t, s)), {"SET", "{N}:value", "1000000"}}, 0},
	} {
		t.Run(title, func(t *testing.T) {
			h.T = t
			commands := append([][]string{{"HSET", "N", "rate", "1000000", "interval", "3600000", "type", "0"}, {"SET", "{N}:value", "1"}}, test.commands...)
			var words []string
			for _, c := range commands {
				words = append(append(words, strconv.Itoa(len(c))), c...)
			}
			var took time.Duration
			for try := range 3 {
				began, _, ok := h.look(prepare, nil, words)
				if !ok {
					return
				}
				_, free, err := script.NewRateLimiter("N", "c", 1).Inspect(t.Context(), h.d)
				if err != nil || free < test.least {
					t.Errorf("%d free, want at least %d (%v)", free, test.least, err)
				}
				if _, err := script.Acquire(t.Context(), h.d, script.NewRateLimiter("N", "c", 1), script.Claim{Owner: "a:1"}); err != nil {
					t.Error(err)
				}
				ended, _, _ := h.look(digests, nil, nil)
				if d := ended - began; try == 0 || d < took {
					took = d
				}
				if took <= longestScript { // for both calls
					return
				}
			}
			t.Errorf("took %v of the server", took)
		})
	}
}

// Whatever the leases of others are, a request that is not granted is not
// answered with a positive number, which would be a grant.
func TestRefusalIsNeverPositive(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	h := &hostile{T: t, s: s, d: d, what: "leases that are over"}
	for _, score := range []string{"-9e18", "-1", "0", "1000"} {
		words := []string{"3", "SET", "N", "-9000", "5", "!zset", "{N}:timeout", "2500", "id", score}
		if _, _, ok := h.look(prepare, nil, words); !ok {
			return
		}
		for range 4 { // 2500 are taken off in three calls
			v, err := script.Acquire(t.Context(), d, script.NewLeased("N", 1), try("a:1"))
			if err != nil || v.Granted() {
				t.Errorf("score %s: token %d, %v", score, v.Token, err)
			}
		}
		if free := s.Int(t, "GET", "N"); free != -9000+2500 {
			t.Errorf("score %s: %d are free", score, free)
		}
	}
}
