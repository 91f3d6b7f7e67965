package interop_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/interop"
)

// bg is the context of what nobody calls off.
var bg = context.Background()

// A stage is a server on which one side acts.
type stage struct {
	tb   testing.TB
	rec  *recorder
	name string

	before map[string]int64 // when each key would have ended, before the step
}

// count is the number that a command answers with. Its %s are the name.
func (s *stage) count(command string) int64 {
	return s.rec.server.Int(s.tb, strings.Fields(strings.ReplaceAll(command, "%s", s.name))...)
}

// ends returns when each key ends, in ms of the epoch.
func (s *stage) ends() map[string]int64 {
	ends := make(map[string]int64)
	for _, k := range s.rec.server.Keys(s.tb) {
		ends[k] = s.rec.server.Int(s.tb, "PEXPIRETIME", k)
	}
	return ends
}

// derived is a key as Redisson derives it from the name.
func (s *stage) derived(prefix string) string {
	if strings.Contains(s.name, "{") {
		return prefix + ":" + s.name
	}
	return prefix + ":{" + s.name + "}"
}

// An actor acts out steps.
type actor interface {
	stage() *stage
	// do returns what the operation answers: nil, a truth, a number, a text,
	// or "error".
	do(t *testing.T, o op) any
}

// An op is one operation in the words of either side.
type op struct {
	java   call
	golang func(g *goSide) (any, error)
	behind bool // it is begun, and not waited for
}

// sides are the settings of either side.
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

// A call is a method of the script's object, or of one that its methods lead
// to: "readLock.lock". Arguments may be of the types kept and other.
type call struct {
	thread, method string
	args           []any
	as             string // keeps the answer by that name
}

// kept is an argument: what an earlier call has kept by that name.
type kept string

// other is an argument: another name, made from the stage's.
type other string

func (o other) of(s *stage) string { return s.name + string(o) }

// java is a call by a thread that does not matter.
func java(method string, args ...any) call { return call{"main", method, args, ""} }

// by is a call by a thread.
func by(thread, method string, args ...any) call { return call{thread, method, args, ""} }

// javaSide is Redisson.
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
		// The same object each time, since locks remember their lease.
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
		t.Fatal(a.Err()) // it was not Redisson that refused
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

// goSide is Holdfast.
type goSide struct {
	on     stage
	script *script
	client *holdfast.Client
	object any
	mu     sync.Mutex
	owners map[string]*goOwner
}

// A goOwner is what a thread is in Java.
type goOwner struct {
	leases []*holdfast.Lease
	comes  chan error // while it waits behind
}

func newGoSide(tb testing.TB, s *script, name string) *goSide {
	rec := newRecorder(tb)
	c := open(tb, rec.server.URL(), s.sides(rec.server.Addr()).golang)
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

// context is that of the last lease of an owner.
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
