package interop_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/interop"
)

// bg is the context of calls that are not canceled.
var bg = context.Background()

// A stage is a server that one side uses.
type stage struct {
	tb   testing.TB
	rec  *recorder
	name string

	before map[string]int64 // expiry of each key before the step
}

// count returns the number that a command returns. Each %s in the command is the name.
func (s *stage) count(command string) int64 {
	return s.rec.server.Int(s.tb, strings.Fields(strings.ReplaceAll(command, "%s", s.name))...)
}

// ends returns the expiry of each key in ms of the epoch.
func (s *stage) ends() map[string]int64 {
	ends := make(map[string]int64)
	for _, k := range s.rec.server.Keys(s.tb) {
		ends[k] = s.rec.server.Int(s.tb, "PEXPIRETIME", k)
	}
	return ends
}

// derived returns a key that Redisson derives from the name.
func (s *stage) derived(prefix string) string {
	if strings.Contains(s.name, "{") {
		return prefix + ":" + s.name
	}
	return prefix + ":{" + s.name + "}"
}

// An actor runs operations on one side.
type actor interface {
	stage() *stage
	// do returns the answer of the operation: nil, a boolean, a number, a string, or
	// "error".
	do(t *testing.T, o op) any
}

// An op is an operation with a form for each side.
type op struct {
	java   call
	golang func(g *goSide) (any, error)
	behind bool // runs in the background
}

// sides holds the settings of both sides.
type sides struct {
	java   interop.Config
	golang holdfast.Options
}

func (s *script) sides(addr string) *sides {
	c := &sides{java: interop.Single(addr)}
	if s.config != nil {
		s.config(c)
	}
	return c
}

// A call is a call of a method of the script's object, or of an object that a method returns:
// "readLock.lock". Arguments may have the types kept and other.
type call struct {
	thread, method string
	args           []any
	as             string // keeps the answer under that name
}

// kept is an argument: the answer that an earlier call has kept under that name.
type kept string

// other is an argument: another name, derived from the name of the stage.
type other string

func (o other) of(s *stage) string { return s.name + string(o) }

// java returns a call in any thread.
func java(method string, args ...any) call { return call{"main", method, args, ""} }

// by returns a call in a thread.
func by(thread, method string, args ...any) call { return call{thread, method, args, ""} }

// javaSide is the actor of Redisson.
type javaSide struct {
	on     stage
	object object
	kept   map[string]interop.Object
}

func newJavaSide(tb testing.TB, s *script, release interop.Release, name string) *javaSide {
	rec := newRecorder(tb)
	j := &javaSide{on: stage{tb: tb, rec: rec, name: name}, kept: make(map[string]interop.Object)}
	j.object = s.java(tb, join(tb, peer(tb, release), s.sides(rec.server.Addr()).java), name)
	return j
}

func (j *javaSide) stage() *stage { return &j.on }

func (j *javaSide) do(t *testing.T, o op) any {
	t.Helper()
	object, method := j.object.Object, o.java.method
	if method == "" {
		return nil
	}
	for from, rest, ok := strings.Cut(method, "."); ok; from, rest, ok = strings.Cut(method, ".") {
		// Use the same object each time, because locks store their lease.
		if _, known := j.kept[from]; !known {
			j.kept[from] = j.object.keep(t, from).Object
		}
		object, method = j.kept[from], rest
	}
	var args []any
	for _, a := range o.java.args {
		switch v := a.(type) {
		case kept:
			a = j.kept[string(v)]
		case other:
			a = v.of(&j.on)
		}
		args = append(args, a)
	}
	thread := j.on.rec.server.Addr() + o.java.thread // the process is shared
	if o.behind {
		object.Go(thread, method, args...)
		return nil
	}
	if o.java.as != "" {
		k, err := object.Keep(thread, method, args...)
		if err != nil {
			t.Fatal(err)
		}
		j.kept[o.java.as] = k
		object, method, args = k, "toString", nil
	}
	a := object.Do(thread, method, args...)
	if strings.HasPrefix(a.Error, "peer: ") || strings.HasPrefix(a.Error, "interop: ") {
		t.Fatal(a.Err()) // not an error of Redisson
	}
	if a.Err() != nil {
		t.Log(a.Err())
		return "error"
	}
	if n, ok := a.Value.(float64); ok {
		return int64(n)
	}
	return a.Value
}

// goSide is the actor of Holdfast.
type goSide struct {
	on     stage
	script *script
	client *holdfast.Client
	object any
	mu     sync.Mutex
	owners map[string]*goOwner
}

// A goOwner corresponds to a thread in Java.
type goOwner struct {
	leases []*holdfast.Lease
	comes  chan error // while it waits in the background
}

func newGoSide(tb testing.TB, s *script, name string) *goSide {
	rec := newRecorder(tb)
	options := s.sides(rec.server.Addr()).golang
	options.WakeAll = true // whether a release grants a lock depends on whether a waiter listens by then
	c := open(tb, rec.server.URL(), options)
	g := &goSide{on: stage{tb: tb, rec: rec, name: name}, script: s, client: c, owners: make(map[string]*goOwner)}
	if s.golang != nil {
		g.object = s.golang(c, name)
	}
	return g
}

func (g *goSide) stage() *stage { return &g.on }

func (g *goSide) do(t *testing.T, o op) any {
	t.Helper()
	v, err := o.golang(g)
	if err != nil {
		t.Log(err)
		return "error"
	}
	return v
}

func (g *goSide) owner(who string) *goOwner {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.owners[who] == nil {
		g.owners[who] = &goOwner{}
	}
	return g.owners[who]
}

// context returns the context of the last lease of an owner.
func (o *goOwner) context() context.Context {
	if len(o.leases) > 0 {
		return o.leases[len(o.leases)-1].Context()
	}
	return bg
}

func (o *goOwner) take(l *holdfast.Lease, err error) error {
	if err == nil {
		o.leases = append(o.leases, l)
	}
	return err
}

func (g *goSide) locker(method string) holdfast.Locker {
	from, _, ok := strings.Cut(method, ".")
	if !ok {
		from = ""
	}
	return g.script.lockers[from](g.client, g.on.name)
}
