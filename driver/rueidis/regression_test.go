package rueidis

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
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
func (*doubter) changed()           {}
func (*doubter) scanNow()           {}

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

// A server that comes back is not used before the sentinels have confirmed it,
// also by whoever comes before the connection is restored.
func TestUnidentifiedGetsNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	told := new(doubter)
	n := aNode(t, Sentinel, s.Addr(), told)
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
	time.Sleep(2 * time.Second) // now it is tried once a second
	s.Restart()
	if r := n.do(ctx, put("after"), false); r.Err == nil {
		t.Error("a server was used that nobody has confirmed")
	}
}

// A call that has run did not fail for certain, whoever the server is.
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

// Those who ask a silent server leave nothing behind for longer than a dial
// takes, however many they are.
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
	for end := time.Now().Add(8 * time.Second); dialling() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of %d goroutines still wait for their turn to dial", dialling(), askers)
		}
	}
}

// Redis does not put brackets around the IPv6 address of a redirection.
func TestRedirectIPv6(t *testing.T) {
	slot, addr, ok := redirect(driver.ServerError("MOVED 3999 ::1:6381"), "[::1]:6380")
	if slot != 3999 || addr != "[::1]:6381" || !ok {
		t.Errorf("sent to slot %d at %s, %v", slot, addr, ok)
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
	for f := n.facts(ctx); f.Err != nil; f = n.facts(ctx) {
		time.Sleep(10 * time.Millisecond)
	}
	if err := n.identify(ctx); err == nil || told.same.Load() {
		t.Errorf("the server was restarted, and is taken for the one that was confirmed: %v", err)
	}
}

// Who is told to publish to sharded channels listens to them, also where the
// server does not say its version.
func TestShardedOnListens(t *testing.T) {
	n := aNode(t, Cluster, "127.0.0.1:1", new(doubter))
	n.c.Sharded = ShardedOn
	if s := (&subscriber{n: n}); n.publishesSharded() && s.familiesOf("c")&sharded == 0 {
		t.Error("publishes where it does not listen")
	}
}

type nobody struct{}

func (nobody) Message(string, string)    {}
func (nobody) Subscribed(string, uint64) {}
func (nobody) Lost([]string, error)      {}

// A sharded subscription that the server ends while the other one is still on
// its way is asked for again.
func TestMovedBeforeSubscribed(t *testing.T) {
	n := aNode(t, Cluster, "127.0.0.1:1", new(doubter))
	n.sharded.Store(true)
	s := &subscriber{
		l: &listener{d: &Driver{scanSignal: make(chan struct{}, 1)}, h: nobody{}}, n: n, ctx: context.Background(),
		signal: make(chan struct{}, 1), channels: make(map[string]*channelState),
	}
	s.subscribe("c")
	s.tasks()
	s.handle("ssubscribe", "c", "", 1)
	s.handle("sunsubscribe", "c", "", 1)
	s.handle("subscribe", "c", "", 1)
	if len(s.tasks()) == 0 {
		t.Error("nobody will subscribe again")
	}
}

// The first call to a new node publishes as all later ones do, or those in Java
// who listen to sharded channels only do not hear it.
func TestFirstCallPublishesSharded(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	if v, _ := s.Do(t, "INFO", "server").(string); !strings.Contains(v, "redis_version:7.") {
		t.Skip("knows no sharded channels, or calls itself otherwise")
	}
	n := aNode(t, Cluster, s.Addr(), new(doubter))
	script := driver.NewScript("say", "return ARGV[1]")
	script.Publish = 1
	s.Do(t, "SCRIPT", "LOAD", script.Source) // as others have done
	for i := range 2 {
		r := n.do(context.Background(), driver.Call{Script: script, Keys: []string{"k"}, Args: []string{"PUBLISH"}}, false)
		if r.Err != nil || r.Reply.Str != "SPUBLISH" {
			t.Errorf("call %d publishes by %s, %v", i+1, r.Reply.Str, r.Err)
		}
	}
}

// A pointer is a source that names one master.
type pointer struct{ addr string }

func (p *pointer) find(context.Context) (layout, error) {
	return layout{masters: []string{p.addr}}, nil
}
func (*pointer) confirm(context.Context, *node, bool) error { return nil }
func (*pointer) close()                                     {}

// A master that the sentinels have replaced is not used any more, whether its
// successor answers yet or not.
func TestDemoted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := &pointer{s.Addr()}
	d := &Driver{
		c:      Config{Mode: Sentinel, Network: "tcp", DialTimeout: patient, Timeout: patient},
		source: p, scanSignal: make(chan struct{}, 1), nodes: make(map[string]*node), watchers: make(map[int]func()),
	}
	d.life, d.end = context.WithCancel(context.Background())
	defer d.Close()
	d.table.Store(new(table))
	if err := d.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.addr = "127.0.0.1:1"
	if err := d.refresh(t.Context()); err == nil {
		t.Fatal("found somebody where nobody is")
	}
	if _, err := d.Do(t.Context(), put("x")); err == nil {
		t.Error("granted by a master that was replaced")
	}
}

// A server is replaced while a connection to it is being opened. The caller that
// waits for it is told that, and not that its own context is done.
func TestReplacedWhileDialling(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // no TLS handshake ever ends there
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	d := &Driver{
		c: Config{
			Mode: Sentinel, Network: "tcp", DialTimeout: 4 * patient, Timeout: 4 * patient,
			TLS: &tls.Config{ServerName: "x", MinVersion: tls.VersionTLS12},
		},
		source: &pointer{}, scanSignal: make(chan struct{}, 1), nodes: make(map[string]*node), watchers: make(map[int]func()),
	}
	d.life, d.end = context.WithCancel(context.Background())
	defer d.Close()
	d.table.Store(&table{masters: []*node{d.node(silent.Addr().String())}})
	errs := make(chan error, 1)
	go func() {
		_, err := d.Do(context.Background(), put("x"))
		errs <- err
	}()
	if _, err := silent.Accept(); err != nil {
		t.Fatal(err)
	}
	d.setTable(new(table), layout{})
	err = <-errs
	if errors.Is(err, context.Canceled) || driver.ClassOf(err) != driver.Definite || !strings.Contains(err.Error(), "was replaced") {
		t.Errorf("the server was replaced: %v is %v, want definite, and not that of a context", err, driver.ClassOf(err))
	}
}

// A context of the driver has ended an attempt. Its callers do not take it for
// their own.
func TestForCaller(t *testing.T) {
	t.Parallel()
	d := &Driver{life: context.Background()}
	for _, err := range []error{driver.Unsent(context.Canceled), driver.Unknown(context.DeadlineExceeded)} {
		got := d.forCaller(t.Context(), err)
		if errors.Is(got, context.Canceled) || errors.Is(got, context.DeadlineExceeded) || driver.ClassOf(got) != driver.ClassOf(err) {
			t.Errorf("%v reaches the caller as %v", err, got)
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
