package rueidis

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A doubter confirms a server until it is told not to.
type doubter struct {
	terms  atomic.Uint64
	refuse atomic.Bool
	same   atomic.Bool // that was asked about last
}

func (d *doubter) nextTerm() uint64 { return d.terms.Add(1) }

func (*doubter) changed() {}

func (*doubter) scanNow() {}

func (d *doubter) confirm(_ context.Context, _ *node, same bool) error {
	d.same.Store(same)
	if d.refuse.Load() {
		return driver.Unsent(errors.New("another is the master"))
	}
	return nil
}

// patient is how long the nodes of tests wait, on a machine that may stand
// still.
const patient = 5 * time.Second

func aNode(t *testing.T, mode Mode, addr string, told nodeEvents) *node {
	c := Config{Mode: mode, Network: "tcp", DialTimeout: patient, Timeout: patient}
	n := newNode(context.Background(), c, addr, told)
	t.Cleanup(n.close)
	return n
}

func put(value string) driver.Call {
	return driver.Call{
		Script: driver.NewScript("put", "return redis.call('set', KEYS[1], ARGV[1]).ok"),
		Keys:   []string{"k"}, Args: []string{value},
	}
}

// A server that comes back is not used before the sentinels have confirmed it.
// This also holds for calls that arrive before the connection is restored.
func TestUnidentifiedGetsNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	told := new(doubter)
	n := aNode(t, Sentinel, p.Addr(), told)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if r := n.do(ctx, put("before"), false); r.Err != nil {
		t.Fatal(r.Err)
	}
	told.refuse.Store(true)
	s.Stop()
	for r := n.do(ctx, put("down"), false); r.Err == nil || n.conn.Load().ready.Load(); {
		r = n.do(ctx, put("down"), false)
	}
	tried := p.Connections()
	if !redistest.Poll(20*time.Second, func() bool { return p.Connections() >= tried+7 }) { // now it is tried once a second
		t.Fatal("the server is not tried")
	}
	s.Restart()
	if r := n.do(ctx, put("after"), false); r.Err == nil {
		t.Error("used a server that is not confirmed")
	}
}

// A call that has run never fails with a definite error, even if the server is
// refused.
func TestRefusedThoughRun(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	told := new(doubter)
	told.refuse.Store(true)
	n := aNode(t, Replicated, s.Addr(), told)
	s.Do(t, "SCRIPT", "LOAD", put("").Script.Source)
	r := n.do(context.Background(), put("x"), false)
	if ran := s.Int(t, "EXISTS", "k") == 1; ran && driver.ClassOf(r.Err) == driver.Definite {
		t.Errorf("it has run, and failed for certain: %v", r.Err)
	}
}

// Calls to a silent server, however many, leave nothing behind for longer than a
// dial takes.
func TestCallersOfSilentServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // connections are accepted, nothing is said
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := newNode(context.Background(), Config{Network: "tcp", DialTimeout: time.Second, Timeout: time.Second}, l.Addr().String(), new(doubter))
	t.Cleanup(n.close)
	const askers = 10
	for range askers {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		n.do(ctx, put("x"), false)
		cancel()
	}
	dialling := func() int {
		buf := make([]byte, 1<<20)
		return strings.Count(string(buf[:runtime.Stack(buf, true)]), "(*node).connect(")
	}
	// A dial takes one second; one after the other they would take ten.
	if !redistest.Poll(8*time.Second, func() bool { return dialling() == 0 }) {
		t.Fatalf("%d of %d goroutines still wait for their turn to dial", dialling(), askers)
	}
}

// To ask a server for facts does not make it one that was confirmed before.
func TestFactsDoNotConfirm(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	told := new(doubter)
	n := aNode(t, Sentinel, s.Addr(), told)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := n.identify(ctx); err != nil {
		t.Fatal(err)
	}
	told.refuse.Store(true) // the next one is a stranger
	s.Restart()
	if !redistest.Poll(30*time.Second, func() bool { return n.facts(ctx).Err == nil }) {
		t.Fatal("the server does not answer")
	}
	if err := n.identify(ctx); err == nil || told.same.Load() {
		t.Errorf("the server was restarted, and is taken for the one that was confirmed: %v", err)
	}
}

// The first call to a new node publishes as all later ones do, or those in Java
// who listen to sharded channels only do not hear it.
func TestFirstCallPublishesSharded(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	n := aNode(t, Cluster, s.Addr(), new(doubter))
	script := driver.NewScript("say", "return ARGV[1]")
	script.Publish = 1
	s.Do(t, "SCRIPT", "LOAD", script.Source) // as others have done
	for i := range 2 {
		r := n.do(context.Background(), driver.Call{Script: script, Keys: []string{"k"}, Args: []string{"PUBLISH"}}, false)
		if want := redistest.PublishCommands(); r.Err != nil || r.Reply.Str != want[len(want)-1] {
			t.Errorf("call %d publishes by %s, %v", i+1, r.Reply.Str, r.Err)
		}
	}
}

// The cancellation of a call that is over does not reach the one after it.
func TestCancelledBeforeTheNext(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for range 30 { // of each node the first cancellation counts
		n := aNode(t, Single, s.Addr(), new(doubter))
		for _, ctx := range []context.Context{t.Context(), cancelled, t.Context()} {
			if r := n.do(ctx, put("v"), false); r.Err != nil && ctx != cancelled {
				t.Fatal(r.Err)
			}
		}
	}
}

// overdue is a context whose deadline has passed a moment ago, and whose timer
// has not fired yet.
type overdue struct{ context.Context }

func (overdue) Deadline() (time.Time, bool) { return time.Now().Add(-time.Microsecond), true }

func TestTimeoutCause(t *testing.T) {
	n := &node{}
	silent := driver.Unknown(os.ErrDeadlineExceeded)
	if err := n.timeoutCause(overdue{t.Context()}, silent); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("at the caller's deadline: %v, want context.DeadlineExceeded", err)
	}
	later, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if err := n.timeoutCause(later, silent); errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("before the caller's deadline: %v", err)
	}
}

// A connection that rueidis opens while it is being closed, and forgets, ends with the
// node.
func TestForgottenConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	n := aNode(t, Single, s.Addr(), new(doubter))
	conn, err := n.dialer("tcp")(t.Context(), s.Addr(), &net.Dialer{Timeout: patient}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := conn.Read(make([]byte, 1))
		ended <- err
	}()
	n.close()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the server has sent something")
		}
	case <-time.After(20 * time.Second):
		t.Error("the connection is open")
	}
}
