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

// topologyEnv is the environment variable for the topology of [Shared] and
// [Fresh]: "single" (or empty), "replicated", "sentinel" or "cluster". The part
// after a question mark is added to the URLs, as in "cluster?sharded=off".
const topologyEnv = "HOLDFAST_TEST_TOPOLOGY"

// Topology returns the topology of [Shared] and [Fresh]: "single", "replicated",
// "sentinel" or "cluster".
func Topology() string {
	kind, _, _ := strings.Cut(os.Getenv(topologyEnv), "?")
	if kind == "" {
		return "single"
	}
	return kind
}

// deployment is the group of servers behind a [Server] that represents several.
// Its timeouts are long, so that no failover happens.
type deployment struct {
	url     string
	masters []*Server // in a cluster, in the order of their slots
	nodes   []*Server // the masters and their replicas
	sharded bool      // messages go only to the master of their channel
}

// silenceLimit is how long a server may not answer, in milliseconds, before it
// counts as failed. It is long, since most tests must not see a failover.
const silenceLimit = "60000"

// Replicas is the number of replicas of each master of [Shared] and [Fresh], if
// the topology is not "single".
const Replicas = 1

// deploy starts a deployment that runs until the test binary ends.
func deploy() (d *deployment, err error) {
	tb := &binaryTB{}
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
		c := StartCluster(tb, WithReplicas(Replicas), Args("--cluster-node-timeout", silenceLimit))
		d = &deployment{url: c.URL(), masters: c.nodes[:c.masters], nodes: c.nodes, sharded: HasSharded()}
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

// skipUnlessSingle skips a test of a single server if the topology is another
// one.
func skipUnlessSingle(tb testing.TB) {
	tb.Helper()
	if Topology() != "single" {
		tb.Skipf("redistest: needs a single server, the topology is %s", Topology())
	}
}

// freshLimit limits the deployments of [Fresh]. Each has several processes that
// are never completely idle.
const freshLimit = 4

var fresh = struct {
	slots chan struct{}
	mu    sync.Mutex
	idle  map[string][]*Server // by the value of topologyEnv
}{slots: make(chan struct{}, freshLimit), idle: make(map[string][]*Server)}

// Fresh returns a server without data that no other test uses at the same time.
// Like the server of [Shared], it may represent several servers. The arguments,
// as in Fresh(tb, "--notify-keyspace-events", "Kgx"), must be settings that can
// be changed while a server runs.
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

// disconnect closes the connections that an earlier test has left. Commands on
// them must not arrive after the data was deleted, and their subscriptions must
// be gone. disconnect uses a new connection, so that the server knows all older
// connections when it lists them. Connections of Sentinels stay open.
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

// takeFresh returns an idle deployment or a new one.
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

// binaryTB is the testing.TB of servers that run until the test binary ends.
type binaryTB struct{ testing.TB }

// fatal is the value that binaryTB panics with.
type fatal struct{ error }

func (*binaryTB) Helper()                     {}
func (*binaryTB) Cleanup(func())              {}
func (*binaryTB) Fatal(args ...any)           { panic(fatal{errors.New(fmt.Sprint(args...))}) }
func (*binaryTB) Fatalf(f string, arg ...any) { panic(fatal{fmt.Errorf(f, arg...)}) }
func (*binaryTB) Skip(args ...any)            { panic(fatal{errNotInstalled}) }

// TempDir returns a directory that exists until the test binary ends, however it
// ends, because cluster nodes write to their directory while they run.
func (l *binaryTB) TempDir() string {
	base, err := sharedDir()
	if err != nil {
		l.Fatal(err)
	}
	dir, err := os.MkdirTemp(base.dir, "")
	if err != nil {
		l.Fatal(err)
	}
	return dir
}

// tempDir is a directory and the pipe to the process that removes it. When the
// test binary ends, the system closes the pipe, and the process removes the
// directory.
type tempDir struct {
	dir  string
	pipe io.Closer
}

// sharedDir creates the directory for all files that are needed until the test
// binary ends.
var sharedDir = sync.OnceValues(func() (a tempDir, err error) {
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
