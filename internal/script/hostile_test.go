package script_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

var (
	hostileSeed   = flag.Uint64("hostile.seed", 0, "seed of the contents in TestHostileData; 0: a new one")
	hostileLong   = flag.Bool("hostile.long", false, "try all contents in TestHostileData, and not only most of the small and some of the large ones")
	hostileRounds = flag.Int("hostile.rounds", 300, "random combinations of contents in TestHostileData")
)

// longestScript is how much processor time of the server a script may take.
const longestScript = 100 * time.Millisecond

// TestHostileData runs every script against every kind of key with contents
// that no client of ours has written: wrong types, numbers that are none or too
// large, deep queues, big elements, and data that belongs to others. Each call
// must be answered soon, by a reply that other calls do not contradict or by an
// error that names the key, and must leave data of others alone.
func TestHostileData(t *testing.T) {
	seed := *hostileSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("run with -args -hostile.seed=%d to repeat this", seed)
	h := newHostile(t, seed)
	covered := make(map[string]bool)
	for _, g := range targets {
		covered[g.script] = true
		h.rand = rand.New(rand.NewPCG(seed, uint64(len(covered))))
		t.Run(g.script, func(t *testing.T) {
			h.T = t
			h.every(g)
		})
	}
	t.Run("combined", func(t *testing.T) {
		h.T = t
		for i := range *hostileRounds {
			h.rand = rand.New(rand.NewPCG(seed, uint64(1000+i)))
			h.combined(targets[h.rand.IntN(len(targets))])
		}
	})
	for _, name := range script.Names() {
		if !covered[name] && !strings.HasPrefix(name, "probe") && name != "batch" { // those read no key, this runs other scripts
			t.Errorf("script %s has no target", name)
		}
	}
}

// A target is a script, the keys that it works on, by what they should hold, and
// a call of it that judges the reply.
type target struct {
	script string
	keys   map[string]string
	do     func(h *hostile, name string) error
	typed  bool // whatever has the type of a key belongs to it
}

// A content is what a key holds.
type content struct {
	what     string
	commands [][]string
	foreign  bool   // it belongs to others, and must stay as it is
	typed    bool   // which shows by its type
	value    string // of a string
}

// hostile is one case after another on one server.
type hostile struct {
	*testing.T
	s      *redistest.Server
	d      driver.Driver
	rand   *rand.Rand
	frozen map[string]bool // scripts that have frozen the server

	what   string             // the case
	held   map[string]content // by key
	called []driver.Call
}

func newHostile(t *testing.T, seed uint64) *hostile {
	t.Helper()
	h := &hostile{T: t, s: redistest.Start(t, "--lua-time-limit", "300"), frozen: make(map[string]bool), rand: rand.New(rand.NewPCG(seed, 0))}
	h.d = connect(t, h.s.URL())
	return h
}

// Do runs a call, alone or in a batch, and notes it.
func (h *hostile) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	h.called = append(h.called, c)
	if h.rand.IntN(3) == 0 {
		return batcher{h.d, h, h.s, make(map[string]bool)}.Do(ctx, c)
	}
	return h.d.Do(ctx, c)
}

// A caller is a driver that notes calls.
type caller struct {
	driver.Driver
	h *hostile
}

func (c caller) Do(ctx context.Context, call driver.Call) (driver.Reply, error) {
	return c.h.Do(ctx, call)
}

func (h *hostile) driver() driver.Driver { return caller{h.d, h} }

// wrong reports what is wrong with the case.
func (h *hostile) wrong(format string, args ...any) {
	h.Helper()
	h.Errorf("%s: %s", h.what, fmt.Sprintf(format, args...))
}

// every attacks each key of a target with each content, beside keys that are as
// they should be and beside none.
func (h *hostile) every(g target) {
	for _, key := range slices.Sorted(maps.Keys(g.keys)) {
		contents := h.contents(key, g.keys[key])
		large := slices.DeleteFunc(slices.Clone(contents), func(c content) bool { return !c.costly() })
		if !*hostileLong && len(large) > 0 {
			contents = slices.DeleteFunc(contents, content.costly)
			if h.rand.IntN(2) == 0 {
				contents = append(contents, large[h.rand.IntN(len(large))])
			}
		}
		for _, c := range contents {
			besides := []bool{true, false}
			if !*hostileLong {
				if !c.typed && !c.costly() && h.rand.IntN(3) == 0 {
					continue // of what is alike, most is enough
				}
				besides = []bool{h.rand.IntN(3) > 0 || c.costly() || len(g.keys) == 1}
			}
			for _, beside := range besides {
				if !beside && (len(g.keys) == 1 || c.costly()) {
					continue
				}
				held := map[string]content{key: c}
				for other, role := range g.keys {
					if beside && other != key {
						held[other] = h.sound(other, role)
					}
				}
				h.attack(g, key, held)
			}
		}
	}
}

// costly reports whether it takes long to bring about.
func (c content) costly() bool {
	return len(c.commands) > 0 && strings.HasPrefix(c.commands[0][0], "!")
}

// combined attacks all keys of a target at once.
func (h *hostile) combined(g target) {
	held := make(map[string]content)
	for _, key := range slices.Sorted(maps.Keys(g.keys)) {
		cs := slices.DeleteFunc(h.contents(key, g.keys[key]), content.costly)
		switch n := h.rand.IntN(len(cs) + len(cs)/4 + 1); {
		case n < len(cs):
			held[key] = cs[n]
		case n > len(cs):
			held[key] = h.sound(key, g.keys[key])
		}
	}
	h.attack(g, "", held)
}

// attack brings a state about and runs the target on it.
func (h *hostile) attack(g target, attacked string, held map[string]content) {
	if h.frozen[g.script] || h.Failed() && testing.Short() {
		return
	}
	h.held = held
	h.what = g.script
	var foreign, words []string
	for _, key := range slices.Sorted(maps.Keys(held)) {
		c := held[key]
		h.what += fmt.Sprintf("; %s: %s", key, c.what)
		if c.foreign && (!g.typed || c.typed) {
			foreign = append(foreign, key)
		}
		for _, cmd := range c.commands {
			words = append(append(words, strconv.Itoa(len(cmd))), cmd...)
		}
	}
	var least time.Duration
	for try := range 3 {
		began, before, ok := h.look(prepare, foreign, words)
		if !ok {
			return
		}
		h.called = h.called[:0]
		err := h.call(g)
		if h.frozen[g.script] {
			return
		}
		ended, after, ok := h.look(digests, foreign, nil)
		if !ok {
			return
		}
		if took := ended - began; try == 0 || took < least {
			least = took
		}
		if try == 0 {
			h.judge(err, attacked)
			for i, key := range foreign {
				if before[i] != after[i] {
					h.wrong("%s belongs to others and has changed: %s, was %s", key, after[i], before[i])
				}
			}
			h.known(g)
		}
		if least <= longestScript {
			return
		}
		// The machine may be busy: a script that is slow is slow again.
	}
	h.wrong("took %v of the server", least)
}

// known checks that the target names every key that its script was given.
func (h *hostile) known(g target) {
	for _, c := range h.called {
		for _, key := range c.Keys {
			if _, ok := g.keys[key]; !ok && !unkept.MatchString(key) {
				h.wrong("the target does not name the key %q", key)
			}
		}
	}
}

// unkept begin what is given to scripts as keys and is none: channels, the
// beginnings of names, and keys by which to find a server.
var unkept = regexp.MustCompile(`^(redisson_(lock__channel|rwlock|sc):.*|holdfast:(leader|scan|restore):.*|\{N[34]?\}|\{N[34]?\}:.*:rwlock_timeout)$`)

// judge checks the error of a call.
func (h *hostile) judge(err error, attacked string) {
	h.Helper()
	var typed *driver.Error
	switch {
	case err == nil:
	case !errors.As(err, &typed):
		h.wrong("the error has no class: %v", err)
	case strings.Contains(err.Error(), "unexpected reply"):
		h.wrong("the reply was not understood: %v", err)
	case typed.Class != driver.Fatal:
		h.wrong("the error is %v: %v", typed.Class, err)
	case strings.Contains(err.Error(), "user_script"), strings.Contains(err.Error(), "attempt to"):
		h.wrong("the script failed by accident: %v", err)
	case attacked != "" && typed.Code == "ERR" && !strings.Contains(err.Error(), attacked):
		h.wrong("the error does not name %s: %v", attacked, err)
	}
}

// call runs the target. A script that does not end is ended, if need be with the
// server.
func (h *hostile) call(g target) error {
	done := make(chan error, 1)
	go func() { done <- g.do(h, "N") }()
	if err, ok := locktest.Receive(done, frozenAfter); ok {
		return err
	}
	_, err := h.s.Try("SCRIPT", "KILL")
	ended := err != nil
	if ended {
		_, _ = h.s.Try("SHUTDOWN", "NOSAVE")
	}
	<-done
	h.frozen[g.script] = true
	if ended {
		h.s.Restart()
	}
	h.wrong("froze the server, beyond SCRIPT KILL: %v", ended)
	return nil
}

// frozenAfter is how long a call may take before its script is ended. Other work
// on the machine may make it slow; processor time is what is judged.
const frozenAfter = 5 * time.Second

// look runs a script of the test and returns the processor time that the server
// has used, before or after that, and what the foreign keys hold.
func (h *hostile) look(source string, keys, args []string) (cpu time.Duration, held []string, ok bool) {
	h.Helper()
	words := append(append([]string{"EVAL", source, strconv.Itoa(len(keys))}, keys...), args...)
	reply, err := h.s.Try(words...)
	list, good := reply.([]any)
	if err != nil || !good || len(list) != len(keys)+1 {
		h.Errorf("%s: %v: %v", h.what, reply, err)
		return 0, nil, false
	}
	for _, e := range list[1:] {
		held = append(held, fmt.Sprint(e))
	}
	return processorTime(fmt.Sprint(list[0])), held, true
}

// processorTime returns what INFO cpu says of the thread that runs scripts, or,
// before Redis 7, of all.
func processorTime(info string) time.Duration {
	var all, main float64
	for line := range strings.SplitSeq(info, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		v, _ := strconv.ParseFloat(value, 64)
		switch name {
		case "used_cpu_sys", "used_cpu_user":
			all += v
		case "used_cpu_sys_main_thread", "used_cpu_user_main_thread":
			main += v
		}
	}
	if main == 0 {
		main = all
	}
	return time.Duration(main * float64(time.Second))
}

// got returns what the server answers to a command, or what is wrong with it.
func (h *hostile) got(words ...string) string {
	reply, err := h.s.Try(words...)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(reply)
}

// list returns what the server lists, or nothing.
func (h *hostile) list(words ...string) (list []string) {
	reply, _ := h.s.Try(words...)
	elements, _ := reply.([]any)
	for _, e := range elements {
		list = append(list, fmt.Sprint(e))
	}
	return list
}

// verdict checks a verdict, and reports whether it is a grant.
func (h *hostile) verdict(v script.Verdict, err error) bool {
	h.Helper()
	if err != nil {
		return false
	}
	if !v.Granted() {
		if v.TTL < -time.Millisecond {
			h.wrong("not granted, and %v are left", v.TTL)
		}
		return false
	}
	return true
}

func (h *hostile) clockToken(token int64) {
	h.Helper()
	if d := time.Since(time.UnixMicro(token)).Abs(); d > time.Hour {
		h.wrong("the token %d is %v off the clock", token, d)
	}
}

// exclusive checks a grant of a lock that one owner holds.
func (h *hostile) exclusive(name, field string) {
	h.Helper()
	for _, f := range h.list("HKEYS", name) {
		if f != field && f != "mode" && f != "leader" && f != strings.TrimSuffix(field, ":write") {
			h.wrong("granted to %s beside %.60q", field, f)
		}
	}
	if h.got("HEXISTS", name, field) != "1" {
		h.wrong("granted, and %s does not hold it", field)
	}
}

// before returns the number that a key held.
func (h *hostile) before(key string) (n int64, ok bool) {
	c, exists := h.held[key]
	if !exists || c.value == "" {
		return 0, !exists
	}
	if !whole(c.value) {
		return 0, false
	}
	n, err := strconv.ParseInt(c.value, 10, 64)
	return n, err == nil
}

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
