package script_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// A recorder is a driver that writes down what crosses it.
type recorder struct {
	driver.Driver
	out *strings.Builder
}

func (r recorder) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	reply, err := r.Driver.Do(ctx, c)
	fmt.Fprintf(r.out, "%s %s\n  keys   %q\n  args   %q\n  reply  %s\n", c.Script.Name, c.Script.SHA, c.Keys, c.Args, normal(reply))
	return reply, err
}

// normal writes a reply with everything replaced that differs between runs.
func normal(r driver.Reply) string {
	switch {
	case r.Type == driver.Int && r.Int > 1e15:
		return "<token>"
	case r.Type == driver.Int && r.Int > 29_000 && r.Int <= 30_000:
		return "<30000 left>"
	case r.Type == driver.Int && r.Int < -29_000 && r.Int >= -30_001:
		return "<-1 - 30000 left>"
	case r.Type == driver.Int:
		return fmt.Sprint(r.Int)
	case r.Type == driver.Str:
		return fmt.Sprintf("%q", r.Str)
	case r.Type == driver.List:
		var parts []string
		for _, e := range r.List {
			parts = append(parts, normal(e))
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return "nil"
}

// The wire is golden: a change of it is a change of the protocol, and goes
// together with docs/protocol.md and CHANGELOG.md.
func TestWire(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	var out strings.Builder
	rec := recorder{d, &out}
	m := script.NewMutex("job")
	heard := listen(t, d, m.Channel())
	ctx := t.Context()
	state := func() {
		kind := s.Do(t, "TYPE", "job")
		fmt.Fprintf(&out, "  server %s", kind)
		if kind == "hash" {
			ttl := driver.Reply{Type: driver.Int, Int: s.Int(t, "PTTL", "job")}
			fmt.Fprintf(&out, " %v, TTL %s", s.Strings(t, "HGETALL", "job"), normal(ttl))
		}
		select {
		case payload := <-heard:
			fmt.Fprintf(&out, ", published %q on %s", payload, m.Channel())
		case <-time.After(100 * time.Millisecond):
		}
		out.WriteString("\n\n")
	}
	step := func(what string, do func() error) {
		fmt.Fprintf(&out, "# %s\n", what)
		if err := do(); err != nil {
			t.Fatal(what, err)
		}
		state()
	}
	const me, other = "11111111-2222-4333-8444-555555555555:1", "66666666-7777-4888-9999-000000000000:23"
	claim := func(owner string, count int) func() error {
		return func() error {
			_, err := m.Acquire(ctx, rec, script.Claim{Owner: owner, Count: count, Lease: 30 * time.Second})
			return err
		}
	}
	leave := func(owner string, left int) func() error {
		return func() error { _, err := m.Release(ctx, rec, owner, left); return err }
	}
	step("take a free lock", claim(me, 1))
	step("try to take a held lock", claim(other, 1))
	step("enter it again", claim(me, 2))
	step("look at it", func() error { _, err := m.Inspect(ctx, rec); return err })
	step("leave it once", leave(me, 1))
	step("renew it, and one of somebody else", func() error {
		_, err := rec.Do(ctx, script.Renew(30*time.Second, []script.Holding{{Key: "job", Owner: me}, {Key: "job", Owner: other}}))
		return err
	})
	step("release it", leave(me, 0))
	step("release it once more", leave(me, 0))
	step("enter again what is lost", claim(me, 2))
	step("take it and free it by force", func() error {
		if err := claim(other, 1)(); err != nil {
			return err
		}
		_, err := m.Force(ctx, rec, "")
		return err
	})

	const file = "testdata/mutex.golden"
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("the wire has changed; if it is meant to, run go test ./internal/script -update\ngot:\n%s\nwant:\n%s", out.String(), want)
	}
}

// Replies come from a server that may be broken, or not be Redis at all.
func FuzzDecode(f *testing.F) {
	f.Add(uint8(3), int64(1), "a", uint8(3), int64(2), "2")
	f.Add(uint8(1), int64(-1), "", uint8(0), int64(0), "")
	f.Fuzz(func(_ *testing.T, type1 uint8, n1 int64, s1 string, type2 uint8, n2 int64, s2 string) {
		inner := driver.Reply{Type: driver.ReplyType(type2 % 4), Int: n2, Str: s2}
		r := driver.Reply{Type: driver.ReplyType(type1 % 4), Int: n1, Str: s1, List: []driver.Reply{inner, inner, inner}}
		for i := range r.List {
			r := r
			r.List = r.List[:i+1]
			d := canned{r}
			m := script.NewMutex("x")
			_, _ = m.Inspect(context.Background(), d)
			_, _ = m.Acquire(context.Background(), d, script.Claim{})
			_, _ = m.Release(context.Background(), d, "", 0)
			_, _ = m.Force(context.Background(), d, "")
			_, _ = script.Renewed(r, 2)
		}
	})
}

type canned struct{ reply driver.Reply }

func (c canned) Do(context.Context, driver.Call) (driver.Reply, error) { return c.reply, nil }
func (canned) DoAcked(context.Context, driver.Call, int, time.Duration) (driver.Reply, int, error) {
	return driver.Reply{}, 0, nil
}
func (canned) DoMany(context.Context, []driver.Call) []driver.Result { return nil }
func (canned) Listen(driver.Handler) driver.Listener                 { return nil }
func (canned) Place(string) driver.Place                             { return driver.Place{} }
func (canned) Facts(context.Context) (driver.Facts, error)           { return driver.Facts{}, nil }
func (canned) Close() error                                          { return nil }
