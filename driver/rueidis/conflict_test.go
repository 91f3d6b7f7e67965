package rueidis_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A side is a driver, the addresses by which it knows two servers, and a count
// of its calls of Watch.
type side struct {
	*rueidis.Driver
	a, b    string
	changes atomic.Int64
}

func newSide(t *testing.T, a, b string) *side {
	s := &side{Driver: connect(t, "redis://"+a+","+b+"?scan_interval=200ms"), a: a, b: b}
	t.Cleanup(s.Watch(func() { s.changes.Add(1) }))
	return s
}

// serves reports whether a call succeeds.
func (s *side) serves(t *testing.T) bool {
	_, err := s.Do(t.Context(), addOne("k"))
	return err == nil
}

// refuses reports whether a call fails because two servers are masters. The
// error must say which, and what to do.
func (s *side) refuses(t *testing.T) bool {
	t.Helper()
	_, err := s.Do(t.Context(), addOne("k"))
	if err == nil || !strings.Contains(err.Error(), "both") {
		return false
	}
	for _, word := range []string{s.a, s.b, "REPLICAOF"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error %q does not contain %q", err, word)
		}
	}
	if driver.ClassOf(err) != driver.Definite {
		t.Errorf("%v is %v, want definite: the call did not run and may succeed later", err, driver.ClassOf(err))
	}
	return true
}

// Two clients of one master and its replica see one server each. Each server
// calls itself the master. As soon as the clients see both, neither uses any,
// until there is one master again.
func TestTwoMasters(t *testing.T) {
	t.Parallel()
	r := redistest.StartReplicated(t, 1)
	a, b := r.Nodes()[0], r.Nodes()[1]
	toA, toB := redistest.NewProxy(t, a.Addr()), redistest.NewProxy(t, b.Addr())
	toA.Refuse(true)
	toB.Refuse(true)
	b.Do(t, "REPLICAOF", "NO", "ONE")
	x, y := newSide(t, a.Addr(), toB.Addr()), newSide(t, toA.Addr(), b.Addr())
	if !x.serves(t) || !y.serves(t) {
		t.Fatal("a client does not use the only master that it sees")
	}
	before := []driver.Place{x.Place("k"), y.Place("k")}

	toB.Delay(300 * time.Millisecond) // a server far away is a witness, too
	toA.Refuse(false)
	toB.Refuse(false)
	for _, s := range []*side{x, y} {
		locktest.Eventually(t, patience, "a client that sees two masters uses none", func() bool { return s.refuses(t) })
		locktest.Eventually(t, soon, "its watchers are told", func() bool { return s.changes.Load() > 0 })
		if p := s.Place("k"); p.Node != "" {
			t.Errorf("the key lives at %+v, but two servers call themselves master", p)
		}
		if f := s.Facts(t.Context()); len(f) != 1 || f[0].Err == nil {
			t.Errorf("facts while no server is used: %+v", f)
		}
	}
	scansA, scansB := toA.Count("ROLE"), toB.Count("ROLE")
	locktest.Eventually(t, patience, "both clients have scanned a few times", func() bool {
		if x.serves(t) || y.serves(t) {
			t.Fatal("a call ran while two servers called themselves master")
		}
		return toA.Count("ROLE") >= scansA+4 && toB.Count("ROLE") >= scansB+4
	})

	host, port, _ := strings.Cut(b.Addr(), ":")
	a.Do(t, "REPLICAOF", host, port)
	for i, s := range []*side{x, y} {
		s.changes.Store(0)
		locktest.Eventually(t, patience, "the only master is used", func() bool { return s.serves(t) })
		if p := s.Place("k"); p.Node != s.b || p.Term == before[i].Term {
			t.Errorf("the key lives at %+v, before at %+v; want %s in a new term", p, before[i], s.b)
		}
	}
}

// A master that has replicas is not preferred to one that has none: clients
// that look at different moments would choose differently.
func TestTwoMastersOneWithReplicas(t *testing.T) {
	t.Parallel()
	r := redistest.StartReplicated(t, 2)
	d := connect(t, "redis://"+strings.Join(addrs(r.Nodes()), ",")+"?scan_interval=200ms")
	r.Nodes()[2].Do(t, "REPLICAOF", "NO", "ONE")
	locktest.Eventually(t, patience, "a client that sees two masters uses none", func() bool {
		_, err := d.Do(t.Context(), addOne("k"))
		return err != nil && strings.Contains(err.Error(), "both")
	})
}

// Sentinels of two groups monitor different masters under one name. A client
// that is given the addresses of both groups uses neither master while both
// groups answer.
func TestTwoGroupsOfSentinels(t *testing.T) {
	t.Parallel()
	one, other := redistest.StartSentinels(t, redistest.WithReplicas(0)), redistest.StartSentinels(t, redistest.WithReplicas(0))
	list := one.Addrs()
	var doors []*redistest.Proxy
	for _, addr := range other.Addrs() {
		p := redistest.NewProxy(t, addr)
		p.Refuse(true)
		doors, list = append(doors, p), append(list, p.Addr())
	}
	d := connect(t, "redis-sentinel://"+strings.Join(list, ",")+"?scan_interval=100ms&master_name="+one.MasterName())
	serves := func() bool {
		_, err := d.Do(t.Context(), addOne("k"))
		return err == nil
	}
	if !serves() || d.Place("k").Node != one.Master().Addr() {
		t.Fatalf("one group answers, and the key lives at %+v", d.Place("k"))
	}
	for _, p := range doors {
		p.Refuse(false)
	}
	locktest.Eventually(t, patience, "no master is used, and the error names both", func() bool {
		_, err := d.Do(t.Context(), addOne("k"))
		return err != nil && driver.ClassOf(err) == driver.Definite && strings.Contains(err.Error(), "different masters") &&
			strings.Contains(err.Error(), one.Master().Addr()) && strings.Contains(err.Error(), other.Master().Addr())
	})
	for _, w := range other.Sentinels() {
		w.Kill()
	}
	locktest.Eventually(t, patience, "the other group is gone, and the master is used again", serves)
}

// Servers that do not answer contradict nothing: the one that was the master is
// used as soon as it answers again, in the same term.
func TestAbsentWitnesses(t *testing.T) {
	t.Parallel()
	r := redistest.StartReplicated(t, 1)
	a, b := redistest.NewProxy(t, r.Nodes()[0].Addr()), redistest.NewProxy(t, r.Nodes()[1].Addr())
	s := newSide(t, a.Addr(), b.Addr())
	if !s.serves(t) {
		t.Fatal("the master is not used")
	}
	before := s.Place("k")
	for _, p := range []*redistest.Proxy{a, b} {
		p.Refuse(true)
		p.Cut()
	}
	scansA, scansB := a.Connections(), b.Connections()
	locktest.Eventually(t, patience, "the client has scanned a few times", func() bool {
		if now := s.Place("k"); now.Node != before.Node || now.Term != before.Term {
			t.Fatalf("no server answers, and the key lives at %+v, before at %+v", now, before)
		}
		return a.Connections() >= scansA+4 && b.Connections() >= scansB+4
	})
	for _, p := range []*redistest.Proxy{b, a} {
		p.Refuse(false)
	}
	locktest.Eventually(t, patience, "the master is used again", func() bool { return s.serves(t) })
	if now := s.Place("k"); now.Term != before.Term {
		t.Errorf("the master has not changed, and the key lives at %+v, before at %+v", now, before)
	}
}
