package interop_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// workers maps the name of a worker to its function. A test starts the test binary
// as a separate process to run a worker.
var workers = map[string]func(){}

func TestMain(m *testing.M) {
	if name := redistest.WorkerName(); name != "" {
		workers[name]()
		os.Exit(0)
	}
	code := m.Run()
	for _, p := range peers.started {
		p.Kill()
	}
	javaFleet.kill()
	os.Exit(code)
}

// peers holds the processes that the tests share, one for each release.
var peers struct {
	sync.Mutex
	started map[interop.Release]*interop.Peer
}

// peer returns the shared process of a release.
func peer(tb testing.TB, release interop.Release) *interop.Peer {
	tb.Helper()
	peers.Lock()
	defer peers.Unlock()
	if p := peers.started[release]; p != nil {
		return p
	}
	p, err := interop.Start(release)
	if err != nil {
		tb.Fatal(err)
	}
	if peers.started == nil {
		peers.started = make(map[interop.Release]*interop.Peer)
	}
	peers.started[release] = p
	return p
}

// ownPeer starts a process for one test, which may kill or stop it.
func ownPeer(tb testing.TB, release interop.Release) *interop.Peer {
	tb.Helper()
	p, err := interop.Start(release)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		p.Kill()
		if tb.Failed() {
			tb.Log(p.Stderr())
		}
	})
	return p
}

// join opens a client of Redisson for one test.
func join(tb testing.TB, p *interop.Peer, c interop.Config) *redisson {
	tb.Helper()
	r, err := p.Open(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = r.Close() })
	return &redisson{r}
}

// redisson is a client of Redisson. Its errors fail the test.
type redisson struct{ *interop.Redisson }

func (r *redisson) get(tb testing.TB, getter string, args ...any) object {
	tb.Helper()
	o, err := r.Get(getter, args...)
	if err != nil {
		tb.Fatal(getter, args, ": ", err)
	}
	return object{o}
}

// object is an object of Redisson. Its errors fail the test.
type object struct{ interop.Object }

func (o object) keep(tb testing.TB, method string, args ...any) object {
	tb.Helper()
	kept, err := o.Keep("", method, args...)
	if err != nil {
		tb.Fatal(method, args, ": ", err)
	}
	return object{kept}
}

func (o object) do(tb testing.TB, thread, method string, args ...any) interop.Answer {
	tb.Helper()
	return good(tb, o.Do(thread, method, args...))
}

// good fails the test if an answer is an error.
func good(tb testing.TB, a interop.Answer) interop.Answer {
	tb.Helper()
	if a.Err() != nil {
		tb.Fatal(a.Err())
	}
	return a
}

// within waits for an answer and fails the test after the limit.
func within(tb testing.TB, limit time.Duration, ch <-chan interop.Answer) interop.Answer {
	tb.Helper()
	select {
	case a := <-ch:
		return good(tb, a)
	case <-time.After(limit):
		tb.Fatalf("no answer of Redisson within %v", limit)
		panic("unreachable")
	}
}

// open opens a client of Holdfast for one test.
func open(tb testing.TB, url string, options ...holdfast.Options) *holdfast.Client {
	tb.Helper()
	var o holdfast.Options
	if len(options) > 0 {
		o = options[0]
	}
	if !strings.ContainsAny(url, "?,") {
		url += "?timeout=5s" // tolerates a busy server
	}
	o.Anonymous = true // tests compare all keys with those of Redisson
	c, err := holdfast.Open(context.Background(), url, &o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

var names atomic.Int64

// name returns a unique name.
func name(tb testing.TB) string {
	return fmt.Sprint(strings.ReplaceAll(tb.Name(), "/", ":"), ":", names.Add(1))
}
