package fence_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// connect returns a driver for one test.
func connect(t *testing.T, url string) driver.Driver {
	t.Helper()
	c, err := rueidis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	d, err := rueidis.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

var set = fence.NewScript("redis.call('set', KEYS[1], ARGV[1])\nreturn ARGV[1]")

// A desk is a server, a resource and a key that the guard protects.
type desk struct {
	*testing.T
	s        *redistest.Server
	d        driver.Driver
	resource string
	key      string
	fence    string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	return newDeskAt(t, redistest.Fresh(t))
}

func newDeskAt(t *testing.T, s *redistest.Server) *desk {
	t.Helper()
	return &desk{t, s, connect(t, s.URL()), "account:7", "{account:7}:balance", "holdfast:fence:{account:7}"}
}

// set runs the script set.
func (d *desk) set(token int64, value string) error {
	r, err := set.Run(d.Context(), d.d, d.resource, token, []string{d.key}, []string{value})
	if err == nil && r.Str != value {
		d.Errorf("reply %+v, want %q", r, value)
	}
	return err
}

// has checks what the server holds.
func (d *desk) has(token, value any) {
	d.Helper()
	if got := d.s.Do(d.T, "GET", d.fence); got != token {
		d.Errorf("the fence is at %v, want %v", got, token)
	}
	if got := d.s.Do(d.T, "GET", d.key); got != value {
		d.Errorf("the value is %v, want %v", got, value)
	}
}

// pass and refused check the answer to a token.
func (d *desk) pass(err error) {
	d.Helper()
	if err != nil {
		d.Errorf("refused: %v", err)
	}
}

func (d *desk) refused(err error, token, seen int64) {
	d.Helper()
	var stale *fence.StaleError
	if !errors.Is(err, fence.ErrStale) || !errors.As(err, &stale) || *stale != (fence.StaleError{Resource: d.resource, Token: token, Seen: seen}) {
		d.Errorf("error %v, want a refusal of %d because of %d", err, token, seen)
	}
}

func TestScript(t *testing.T) {
	d := newDesk(t)
	d.pass(d.set(5, "first"))
	d.has("5", "first")
	d.pass(d.set(5, "same holder"))
	d.has("5", "same holder")
	d.pass(d.set(10, "next holder"))
	d.has("10", "next holder")
	for _, late := range []int64{9, 5, 1} {
		d.refused(d.set(late, "late"), late, 10)
		d.has("10", "next holder")
	}
	d.pass(d.set(10, "still there"))
	d.has("10", "still there")
}

// Lua would take neighbours above 2^53 for equal.
func TestScriptComparesExactly(t *testing.T) {
	d := newDesk(t)
	for _, token := range []int64{1, 9, 10, 99, 1 << 53, 1<<53 + 1, 1<<53 + 2, math.MaxInt64 - 1, math.MaxInt64} {
		d.pass(d.set(token, "x"))
		if token > 1 {
			d.refused(d.set(token-1, "late"), token-1, token)
		}
		d.has(strconv.FormatInt(token, 10), "x")
	}
}

// The body finds its own keys and arguments, and nothing of ours.
func TestScriptBody(t *testing.T) {
	d := newDesk(t)
	run := func(body string, keys, args []string) (driver.Reply, error) {
		return fence.NewScript(body).Run(t.Context(), d.d, d.resource, 1, keys, args)
	}
	for _, test := range []struct {
		body       string
		keys, args []string
		want       string
	}{
		{"", nil, nil, "{nil 0  []}"},
		{"-- nothing", nil, nil, "{nil 0  []}"},
		{"return {#KEYS, #ARGV}", nil, nil, "{list 0  [{int 0  []} {int 0  []}]}"},
		{"return {#KEYS, #ARGV}", []string{d.key, d.key}, []string{"c"}, "{list 0  [{int 2  []} {int 1  []}]}"},
		{"return KEYS[2] .. ARGV[1]", []string{"{account:7}", "account:{account:7}"}, []string{"c"}, "{string 0 account:{account:7}c []}"},
		{"return type(fence) .. type(token) .. type(seen)", nil, nil, ""},
		{"local fence, token, seen = 1, 2, 3 return fence + token + seen -- mine", nil, nil, "{int 6  []}"},
		{"if ARGV[1] == 'c' then return 1 end return 2", nil, []string{"c"}, "{int 1  []}"},
	} {
		r, err := run(test.body, test.keys, test.args)
		if test.want == "" {
			// Undeclared names are an error in Redis: they are unknown, as they should be.
			if err == nil {
				t.Errorf("%s: %v", test.body, r)
			}
			continue
		}
		if got := fmt.Sprint(r); err != nil || got != test.want {
			t.Errorf("%s: %v, %v, want %v", test.body, got, err, test.want)
		}
	}
	keys, args := make([]string, 1, 8), make([]string, 1, 8)
	keys[0], args[0] = d.key, "v"
	if _, err := set.Run(t.Context(), d.d, d.resource, 1, keys, args); err != nil || keys[0] != d.key || args[0] != "v" {
		t.Errorf("the caller's slices are now %q and %q; %v", keys, args, err)
	}
}

// Redis does not roll back: what a body wrote before it failed stays. The
// token was remembered before, so that earlier holders cannot make it worse.
func TestScriptBodyFails(t *testing.T) {
	d := newDesk(t)
	d.pass(d.set(5, "first"))
	half := fence.NewScript("redis.call('set', KEYS[1], 'half') redis.call('lpush', KEYS[1], 'x')")
	_, err := half.Run(t.Context(), d.d, d.resource, 6, []string{d.key}, nil)
	if driver.CodeOf(err) != "WRONGTYPE" || errors.Is(err, fence.ErrStale) {
		t.Errorf("error %v", err)
	}
	d.has("6", "half")
	d.refused(d.set(5, "late"), 5, 6)
	d.pass(d.set(6, "again"))
	d.has("6", "again")

	if _, err := fence.NewScript("this is no Lua").Run(t.Context(), d.d, d.resource, 7, nil, nil); driver.CodeOf(err) != "ERR" {
		t.Errorf("error %v", err)
	}
	d.has("6", "again") // nothing has run

	// A body that says STALE is taken at its word.
	_, err = fence.NewScript("return redis.error_reply('STALE my own check')").Run(t.Context(), d.d, d.resource, 8, nil, nil)
	d.refused(err, 8, 0)
}

// A request whose reply was lost is sent again.
func TestScriptSentAgain(t *testing.T) {
	d := newDeskAt(t, redistest.Start(t))
	p := redistest.NewProxy(t, d.s.Addr())
	direct := d.d
	d.d = connect(t, p.URL())
	d.pass(d.set(4, "known to the server")) // or the lost reply would be that of NOSCRIPT

	lost := func(token int64, value string) {
		t.Helper()
		dropped := p.DropReply(1, redistest.Command("EVALSHA"))
		if err := d.set(token, value); driver.ClassOf(err) != driver.Ambiguous || errors.Is(err, fence.ErrStale) {
			t.Fatalf("reply lost: %v", err)
		}
		<-dropped
	}
	lost(5, "first")
	d.pass(d.set(5, "first"))
	d.has("5", "first")

	// And if the next holder was quicker, it stays away.
	lost(5, "second")
	late := d.d
	d.d = direct
	d.pass(d.set(6, "next holder"))
	d.d = late
	d.refused(d.set(5, "second"), 5, 6)
	d.has("6", "next holder")

	// The way to add that NewScript shows.
	pay := fence.NewScript(`if redis.call('SADD', KEYS[2], ARGV[2]) == 0 then return 0 end
return redis.call('INCRBY', KEYS[1], ARGV[1])`)
	for range 2 {
		if _, err := pay.Run(t.Context(), d.d, d.resource, 6, []string{"sum", "paid"}, []string{"100", "payment-1"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := d.s.Int(t, "GET", "sum"); got != 100 {
		t.Errorf("paid %d, want 100", got)
	}
}

func TestScriptForeignFence(t *testing.T) {
	d := newDesk(t)
	d.s.Do(t, "RPUSH", d.fence, "x")
	if err := d.set(1, "x"); driver.CodeOf(err) != "WRONGTYPE" || driver.ClassOf(err) != driver.Fatal {
		t.Errorf("a list as fence: %v", err)
	}
	for _, value := range []string{"", "x", "-1", "1.5", "9e9"} {
		d.s.Do(t, "SET", d.fence, value)
		if err := d.set(1, "x"); err == nil || errors.Is(err, fence.ErrStale) {
			t.Errorf("%q as fence: %v", value, err)
		}
		d.has(value, nil)
	}
	// A full server refuses before anything is done.
	d.s.Do(t, "DEL", d.fence)
	d.s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	defer d.s.Do(t, "CONFIG", "SET", "maxmemory", "0")
	if err := d.set(1, "x"); driver.CodeOf(err) != "OOM" {
		t.Errorf("memory full: %v", err)
	}
	d.has(nil, nil)
}

func TestKey(t *testing.T) {
	s := redistest.Fresh(t)
	d := connect(t, s.URL())
	for resource, want := range map[string]string{
		"a":           "holdfast:fence:{a}",
		"account:7":   "holdfast:fence:{account:7}",
		"account:{7}": "holdfast:fence:account:{7}",
		"{7}:x":       "holdfast:fence:{7}:x",
		"Zürich 锁":    "holdfast:fence:{Zürich 锁}",
	} {
		if got, err := fence.Key(resource); got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", resource, got, err, want)
		}
		if _, err := fence.NewScript("").Run(t.Context(), d, resource, 3, nil, nil); err != nil {
			t.Error(err)
		}
		if got := s.Do(t, "GET", want); got != "3" {
			t.Errorf("%q: the fence is at %v", resource, got)
		}
		if got := s.Int(t, "TTL", want); got != -1 {
			t.Errorf("%q: TTL %d", resource, got)
		}
	}
	if _, err := fence.Key("a{b"); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("error %v", err)
	}
}

// What Source promises to those who use another client.
func TestSource(t *testing.T) {
	s := redistest.Fresh(t)
	eval := func(args ...string) (any, error) {
		return s.Try(append([]string{"EVAL", set.Source()}, args...)...)
	}
	const key = "holdfast:fence:{r}"
	if got, err := eval("2", key, "{r}:k", "7", "v"); got != "v" || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	_, err := eval("2", key, "{r}:k", "6", "late")
	if err == nil || !strings.HasPrefix(err.Error(), "STALE ") {
		t.Errorf("a stale token: %v", err)
	}
	for _, token := range []string{"", "0", "-1", "x", "07", "1.5"} {
		if _, err := eval("2", key, "{r}:k", token, "v"); err == nil || !strings.HasPrefix(err.Error(), "ERR ") {
			t.Errorf("token %q: %v", token, err)
		}
	}
	if _, err := eval("1", key); err == nil || !strings.HasPrefix(err.Error(), "ERR ") {
		t.Errorf("no token: %v", err)
	}
}

// A cluster is a driver with keys in many places.
type cluster struct{ driver.Driver }

func (cluster) Place(key string) driver.Place {
	tag := key
	if _, after, ok := strings.Cut(key, "{"); ok {
		tag, _, _ = strings.Cut(after, "}")
	}
	return driver.Place{Slot: len(tag)}
}

func (cluster) Do(context.Context, driver.Call) (driver.Reply, error) { return driver.Reply{}, nil }

func TestBadInput(t *testing.T) {
	for _, test := range []struct {
		name     string
		d        driver.Driver
		s        *fence.Script
		resource string
		token    int64
		keys     []string
		says     string
	}{
		{"no driver", nil, set, "a", 1, nil, "client.Driver()"},
		{"no script", cluster{}, nil, "a", 1, nil, "NewScript"},
		{"zero script", cluster{}, new(fence.Script), "a", 1, nil, "NewScript"},
		{"token zero", cluster{}, set, "a", 0, nil, "lease.Token()"},
		{"token negative", cluster{}, set, "a", -5, nil, "lease.Token()"},
		{"no resource", cluster{}, set, "", 1, nil, "empty"},
		{"half a tag", cluster{}, set, "a{b", 1, nil, "hash tag"},
		{"reserved", cluster{}, set, "holdfast:fence:{a}", 1, nil, "reserved"},
		{"another slot", cluster{}, set, "a", 1, []string{"x{a}", "longer"}, "longer"},
		{"good", cluster{}, set, "a", 1, []string{"x{a}", "{a}y"}, ""},
		{"good, own tag", cluster{}, set, "r:{a}", 1, []string{"x{a}"}, ""},
	} {
		_, err := test.s.Run(t.Context(), test.d, test.resource, test.token, test.keys, nil)
		if test.says == "" {
			if err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
		} else if !errors.Is(err, fence.ErrInvalid) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want an error that says %q", test.name, err, test.says)
		}
	}
}

func TestUnreachable(t *testing.T) {
	d := newDeskAt(t, redistest.Start(t))
	d.s.Kill()
	if err := d.set(1, "x"); err == nil || errors.Is(err, fence.ErrStale) || driver.ClassOf(err) == driver.Fatal {
		t.Errorf("error %v", err)
	}
	_ = d.d.Close()
	if err := d.set(1, "x"); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
