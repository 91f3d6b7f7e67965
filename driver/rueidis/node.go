package rueidis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
)

// The keep-alive gap and the write timeout of rueidis decide when a silent
// connection is given up: a PING goes out after a second without traffic and
// has Config.Timeout to be answered.
const pingGap = time.Second

// A node is one server. Commands of all goroutines share one connection to it,
// which is opened when it is first needed and again whenever it broke.
//
// Whoever answers on a new connection is asked who he is before anything else
// counts: the server may have been replaced by a replica, or have been
// restarted and forgotten everything. That begins a new term.
type node struct {
	addr string
	c    Config
	told events

	client  atomic.Pointer[rueidis.Client] // nil until it was reached once
	opening sync.Mutex
	failed  time.Time // when it could not be reached last; under opening
	failure error
	life    context.Context // done when the node is closed
	end     context.CancelFunc

	link     atomic.Pointer[link] // the connection that commands share
	calls    atomic.Int64         // under way
	broke    atomic.Bool          // a call was interrupted; see link.go
	reviving atomic.Bool

	term     atomic.Uint64
	replicas atomic.Int64
	sharded  atomic.Bool // it knows sharded channels

	mu  sync.Mutex
	who identity
}

// An identity is what changes when a server may have forgotten something.
type identity struct{ run, repl string }

// events are what a node tells the driver it belongs to.
type events interface {
	// term returns a number that no node had before.
	nextTerm() uint64
	// changed says that a node is in a new term.
	changed()
	// suspect says that a node may not be the right one any more.
	suspect()
	// confirm says whether a node, on a new connection, is to be used as a
	// master; see source.
	confirm(ctx context.Context, n *node, same bool) error
}

func newNode(ctx context.Context, c Config, addr string, told events) *node {
	n := &node{addr: addr, c: c, told: told}
	n.life, n.end = context.WithCancel(ctx)
	n.term.Store(told.nextTerm())
	n.replicas.Store(-1)
	return n
}

// connect opens the first connection. It takes no context: others may wait for
// it, too.
func (n *node) connect() error {
	if n.client.Load() != nil {
		return nil
	}
	came := time.Now()
	n.opening.Lock()
	defer n.opening.Unlock()
	switch {
	case n.client.Load() != nil:
		return nil
	case n.life.Err() != nil:
		return errGone
	case n.failed.After(came): // somebody else has just tried
		return n.failure
	}
	c := &n.c
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{n.addr},
		ForceSingleClient: true, // never guess at a cluster
		Username:          c.Username,
		Password:          string(c.Password),
		SelectDB:          c.DB,
		ClientName:        c.ClientName,
		TLSConfig:         c.TLS,
		Dialer:            net.Dialer{Timeout: c.DialTimeout, KeepAlive: pingGap},
		DialCtxFn:         n.dialer(c.Network),
		ConnWriteTimeout:  c.Timeout,
		AlwaysRESP2:       c.RESP2,
		DisableRetry:      true, // the engine retries, since it knows until when
		DisableCache:      true,
		PipelineMultiplex: -1, // one connection: commands keep their order
		// Those that wait for replicas have their own, closed when not needed.
		BlockingPoolSize:    256,
		BlockingPoolCleanup: 10 * time.Second,
		// Lock traffic is small; the library's half MiB each way is not needed.
		ReadBufferEachConn:  32 << 10,
		WriteBufferEachConn: 32 << 10,
	})
	if err == nil && n.life.Err() != nil {
		err = errGone
	}
	if err != nil {
		if client != nil {
			client.Close()
		}
		n.link.Store(nil)
		n.failed, n.failure = time.Now(), n.classify(err)
		return n.failure
	}
	n.client.Store(&client)
	return nil
}

// close ends all calls and connections.
func (n *node) close() {
	n.end()
	n.opening.Lock()
	defer n.opening.Unlock()
	if c := n.client.Load(); c != nil {
		(*c).Close()
	}
}

// greet opens the connection, if need be, and asks who is there.
func (n *node) greet(ctx context.Context) error {
	return detour(ctx, func(err error) error { return err }, func() error {
		if err := n.connect(); err != nil {
			return err
		}
		done := n.bound(context.WithoutCancel(ctx)) // who gives up breaks nobody's connection
		defer done.release()
		done.greets = true
		return n.whose(ctx, n.introduce(done, (*n.client.Load()).Do(done, n.b().Info().Build())))
	})
}

// introduce takes in who has answered on a connection.
func (n *node) introduce(done *callContext, r rueidis.RedisResult) error {
	text, err := r.ToString()
	if err != nil {
		err = n.classify(err)
		if driver.CodeOf(err) != "NOPERM" && !strings.Contains(err.Error(), "unknown command") {
			return err
		}
		// Some servers tell nobody who they are. That works, too: only the
		// reason for a loss will be less exact.
	}
	if f := driver.NewFacts(text); f.Mode() == "sentinel" && n.told != events(deaf{}) {
		return &driver.Error{Class: driver.Fatal, Err: fmt.Errorf("%s is a sentinel: use redis-sentinel://", n.addr)}
	} else if f.Role != "slave" || n.c.Mode == Single || n.c.Mode == Cluster {
		n.mu.Lock()
		same := n.who == identity{f.RunID, f.ReplID}
		n.mu.Unlock()
		if err := n.told.confirm(done.Context, n, same); err != nil {
			n.told.suspect()
			return err
		}
		n.learn(f)
		// Only if it surely was the present connection.
		if l := n.link.Load(); l == done.link || done.dialled {
			l.ready.Store(true)
			l.known.Store(true)
		}
		return nil
	}
	n.told.suspect()
	return driver.ServerError("READONLY the server is a replica now")
}

// learn takes in what a server says of itself.
func (n *node) learn(f driver.Facts) {
	n.replicas.Store(int64(f.Replicas))
	var major int
	_, _ = fmt.Sscanf(f.Version, "%d.", &major)
	n.sharded.Store(n.c.Mode == Cluster && major >= 7)
	who := identity{f.RunID, f.ReplID}
	n.mu.Lock()
	renewed := n.who != identity{} && n.who != who
	n.who = who
	n.mu.Unlock()
	if renewed {
		n.term.Store(n.told.nextTerm())
		n.told.changed()
	}
}

// revive restores the connection, and asks who is there, as soon as it can.
func (n *node) revive() {
	if n.life.Err() != nil || !n.reviving.CompareAndSwap(false, true) {
		return
	}
	n.told.suspect()
	go func() {
		defer n.reviving.Store(false)
		for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
			err := n.greet(n.life)
			if err == nil || driver.ClassOf(err) == driver.Fatal {
				return
			}
			select {
			case <-time.After(pause):
			case <-n.life.Done():
				return
			}
		}
	}()
}

func (n *node) b() rueidis.Builder { return (*n.client.Load()).B() }

// ask runs a command that is not a script.
func (n *node) ask(ctx context.Context, build func(rueidis.Builder) rueidis.Completed) (rueidis.RedisMessage, error) {
	type answer struct {
		m   rueidis.RedisMessage
		err error
	}
	a := detour(ctx, func(err error) answer { return answer{err: err} }, func() answer {
		if err := n.connect(); err != nil {
			return answer{err: err}
		}
		done := n.bound(context.WithoutCancel(ctx))
		defer done.release()
		done.greets = true // it asks something harmless
		m, err := (*n.client.Load()).Do(done, build(n.b())).ToMessage()
		if err != nil {
			return answer{err: n.whose(ctx, n.classify(err))}
		}
		return answer{m, nil}
	})
	return a.m, a.err
}

// errGone is the error of calls to a server that is not used any more.
var errGone = driver.Unsent(errors.New("another server has taken its place"))

// classify turns an error of rueidis into one of package driver.
func (n *node) classify(err error) error {
	if e, ok := rueidis.IsRedisErr(err); ok {
		return driver.ServerError(e.Error())
	}
	var op *net.OpError
	var known *driver.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, rueidis.ErrClosing):
		return driver.Unknown(errors.New("another server has taken its place"))
	case errors.As(err, &op) && op.Op == "dial":
		return driver.Unsent(err)
	case errors.Is(err, errNotDialled):
		return driver.Unsent(err)
	}
	return driver.Unknown(err)
}
