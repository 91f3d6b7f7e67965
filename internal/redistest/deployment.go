package redistest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// topologyEnv is the variable that says where the tests of [Shared] and [Fresh]
// run: "single" (or nothing), "replicated", "sentinel" or "cluster". What follows
// a question mark is added to the URLs, as in "cluster?sharded=off".
const topologyEnv = "HOLDFAST_TEST_TOPOLOGY"

// Topology returns the kind of deployment that the tests of [Shared] and
// [Fresh] run in: "single", "replicated", "sentinel" or "cluster".
func Topology() string {
	kind, _, _ := strings.Cut(os.Getenv(topologyEnv), "?")
	if kind == "" {
		return "single"
	}
	return kind
}

// deployment is what a [Server] that stands for several is made of. Nothing in
// it changes: it is slow to take a server for dead.
type deployment struct {
	url     string
	masters []*Server // of a cluster, by their slots
	nodes   []*Server // the masters and their replicas
	sharded bool      // whether messages go to the master of their channel only
}

// patience is how long a server may be silent, in milliseconds, since tests that
// are not about failovers must not see one.
const patience = "60000"

// Replicas is how many replicas each master of [Shared] and [Fresh] has, where
// there are several servers.
const Replicas = 1

// deploy starts a deployment that lasts until the test binary ends.
func deploy() (d *deployment, err error) {
	tb := &lasting{}
	defer func() {
		switch failure := recover().(type) {
		case nil:
		case fatal:
			err = failure
		default:
			panic(failure)
		}
	}()
	switch kind := Topology(); kind {
	case "replicated":
		r := StartReplicated(tb, Replicas)
		// Clients find out which one is the master.
		d = &deployment{url: r.nodes[0].url("redis", "", nil, r.nodes[1], r.nodes[0]), masters: r.nodes[:1], nodes: r.nodes}
	case "sentinel":
		s := StartSentinels(tb, WithReplicas(Replicas), func(s *setup) { s.patient = true })
		d = &deployment{url: s.URL(), masters: s.nodes[:1], nodes: s.nodes}
	case "cluster":
		c := StartCluster(tb, WithReplicas(Replicas), Args("--cluster-node-timeout", patience))
		d = &deployment{url: c.URL(), masters: c.nodes[:c.masters], nodes: c.nodes, sharded: true}
	default:
		return nil, fmt.Errorf("redistest: %s is %q: choose single, replicated, sentinel or cluster", topologyEnv, kind)
	}
	if _, query, ok := strings.Cut(os.Getenv(topologyEnv), "?"); ok {
		d.url = addQuery(d.url, query)
		d.sharded = d.sharded && query != "sharded=off"
	}
	return d, nil
}

// addQuery returns a URL with something more in its query.
func addQuery(url, query string) string {
	if strings.Contains(url, "?") {
		return url + "&" + query
	}
	return url + "?" + query
}

// skipElsewhere skips a test of one server where those of other deployments
// run.
func skipElsewhere(tb testing.TB) {
	tb.Helper()
	if Topology() != "single" {
		tb.Skipf("redistest: about one server, not a deployment of kind %s", Topology())
	}
}

// freshLimit is how many deployments there are for [Fresh], at most. Each has
// several processes that are never quite idle.
const freshLimit = 4

var fresh = struct {
	slots chan struct{}
	mu    sync.Mutex
	idle  map[string][]*Server // by what topologyEnv says
}{slots: make(chan struct{}, freshLimit), idle: make(map[string][]*Server)}

// Fresh returns a server without data that no other test uses at the same time.
// Like that of [Shared] it may stand for several. The arguments, as in
// Fresh(tb, "--notify-keyspace-events", "Kgx"), must be such as can be changed
// while a server runs.
//
// A test must not call it again before the cleanup of the first call.
func Fresh(tb testing.TB, args ...string) *Server {
	tb.Helper()
	if Topology() == "single" {
		return Start(tb, args...)
	}
	fresh.slots <- struct{}{}
	tb.Cleanup(func() { <-fresh.slots })
	kind := os.Getenv(topologyEnv)
	s, err := takeFresh(kind)
	if err != nil {
		giveUp(tb, err)
	}
	tb.Cleanup(func() {
		fresh.mu.Lock()
		defer fresh.mu.Unlock()
		fresh.idle[kind] = append(fresh.idle[kind], s)
	})
	s.several.disconnect(tb)
	for _, cmd := range [][]string{{"FLUSHALL"}, {"SCRIPT", "FLUSH"}, {"CONFIG", "RESETSTAT"}} {
		s.Do(tb, cmd...)
	}
	for i := 0; i+1 < len(args); i += 2 {
		setting := strings.TrimPrefix(args[i], "--")
		before := s.Strings(tb, "CONFIG", "GET", setting)[1]
		s.Do(tb, "CONFIG", "SET", setting, args[i+1])
		tb.Cleanup(func() { s.Do(tb, "CONFIG", "SET", setting, before) })
	}
	return s
}

// disconnect ends the connections of an earlier test that are left. What
// somebody who is gone has sent may still be on its way: it must not arrive after
// the data was deleted, and his subscriptions must not be seen any more. The
// connection of the tests is a new one, so that everybody who came before is
// known to the server when it is told. Sentinels keep theirs.
func (d *deployment) disconnect(tb testing.TB) {
	tb.Helper()
	for _, s := range d.nodes {
		s.admin.close()
		own := "id=" + strconv.FormatInt(s.Int(tb, "CLIENT", "ID"), 10)
		for _, kind := range []string{"normal", "pubsub"} {
			list, _ := s.Do(tb, "CLIENT", "LIST", "TYPE", kind).(string)
			for line := range strings.Lines(list) {
				id, _, _ := strings.Cut(line, " ")
				if id != own && !strings.Contains(line, " name=sentinel-") {
					s.Do(tb, "CLIENT", "KILL", "ID", strings.TrimPrefix(id, "id="))
				}
			}
		}
	}
}

// takeFresh returns one that is idle, or a new one.
func takeFresh(kind string) (*Server, error) {
	fresh.mu.Lock()
	if idle := fresh.idle[kind]; len(idle) > 0 {
		defer fresh.mu.Unlock()
		fresh.idle[kind] = idle[1:]
		return idle[0], nil
	}
	fresh.mu.Unlock()
	d, err := deploy()
	if err != nil {
		return nil, err
	}
	return &Server{several: d}, nil
}

// lasting is the owner of servers that last as long as the test binary.
type lasting struct{ testing.TB }

// fatal is what lasting panics with.
type fatal struct{ error }

func (*lasting) Helper()                     {}
func (*lasting) Cleanup(func())              {}
func (*lasting) Fatal(args ...any)           { panic(fatal{errors.New(fmt.Sprint(args...))}) }
func (*lasting) Fatalf(f string, arg ...any) { panic(fatal{fmt.Errorf(f, arg...)}) }
func (*lasting) Skip(args ...any)            { panic(fatal{errNotInstalled}) }

// TempDir returns a directory that is there until the test binary ends, however
// it ends: nodes of a cluster write to theirs as long as they run.
func (l *lasting) TempDir() string {
	base, err := place()
	if err != nil {
		l.Fatal(err)
	}
	dir, err := os.MkdirTemp(base.dir, "")
	if err != nil {
		l.Fatal(err)
	}
	return dir
}

// abode is a directory that a process removes which waits for the end of the
// test binary: then the system closes the pipe to it.
type abode struct {
	dir  string
	pipe io.Closer
}

// place makes the one place for all files that last as long as the binary.
var place = sync.OnceValues(func() (a abode, err error) {
	if a.dir, err = os.MkdirTemp("", "holdfast-test-"); err != nil {
		return a, err
	}
	janitor := exec.Command("sh", "-c", `trap "" INT TERM HUP; cat; rm -rf -- "$0"`, a.dir)
	if a.pipe, err = janitor.StdinPipe(); err == nil {
		err = janitor.Start()
	}
	if err != nil {
		os.RemoveAll(a.dir)
	}
	return a, err
})
