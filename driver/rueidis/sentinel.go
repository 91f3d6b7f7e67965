package rueidis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
)

// sentinels are a source. All sentinels are asked at once who the master is, and
// a sentinelView decides which answer counts.
type sentinels struct {
	c    Config
	name string
	life context.Context

	mu           sync.Mutex
	watchers     map[string]*watcher // by address: those that were given, and those that others list
	sentinelView sentinelView
}

// A watcher is a sentinel at an address.
type watcher struct {
	*node

	mu    sync.Mutex
	link  *link     // the connection on which it said the following
	since time.Time // when it did
	id    string
	peers []peer
}

// A peer is a sentinel as others list it.
type peer struct{ id, addr string }

const (
	// listEvery is how often a sentinel is asked for the others.
	listEvery = 10 * time.Second
	// maxPeers bounds how many sentinels are asked that others have listed.
	maxPeers = 64
)

func newSentinels(d *Driver) *sentinels {
	c := d.c
	c.Mode, c.DB = Single, 0
	c.Username, c.Password, c.TLS = c.SentinelUsername, c.SentinelPassword, c.SentinelTLS
	s := &sentinels{c: c, name: c.MasterName, life: d.life, watchers: make(map[string]*watcher)}
	s.watch(nil, true)
	return s
}

// watch has the sentinels at some addresses asked from now on, besides those
// that were given. Only those, if they are all that count.
func (s *sentinels) watch(addrs []string, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return
	}
	wanted := slices.Concat(s.c.Addrs, addrs)
	for addr, w := range s.watchers {
		if all && !slices.Contains(wanted, addr) {
			delete(s.watchers, addr)
			go w.close()
		}
	}
	for _, addr := range wanted {
		if s.watchers[addr] == nil && len(s.watchers) < len(s.c.Addrs)+maxPeers {
			s.watchers[addr] = &watcher{node: newNode(s.life, s.c, addr, deaf{})}
		}
	}
}

// deaf is for nodes whose events do not matter.
type deaf struct{}

func (deaf) confirm(context.Context, *node, bool) error { return nil }

func (deaf) nextTerm() uint64 { return 0 }
func (deaf) changed()         {}
func (deaf) suspect()         {}

func (s *sentinels) find(ctx context.Context) (layout, error) {
	addr, err := s.master(ctx)
	if err != nil {
		return layout{}, err
	}
	return layout{masters: []string{addr}}, nil
}

// confirm asks whether a server is the master. A master that comes back from the
// dead still takes itself for one, when another has long taken over. Where no
// sentinel answers, it is not known to have been replaced, and it is believed if
// it has been the master without a break.
func (s *sentinels) confirm(ctx context.Context, n *node, same bool) error {
	addr, err := s.master(ctx)
	switch {
	case err != nil && same && driver.ClassOf(err) != driver.Fatal && !errors.As(err, new(*conflict)):
		return nil
	case err != nil:
		return driver.Unsent(fmt.Errorf("no sentinel says who is the master: %w", err))
	case addr != n.addr:
		return driver.Unsent(errors.New("the sentinels call another server the master"))
	}
	return nil
}

// master asks the sentinels for the address of the master.
func (s *sentinels) master(ctx context.Context) (string, error) {
	s.mu.Lock()
	var watchers []*watcher
	for _, w := range s.watchers {
		watchers = append(watchers, w)
	}
	s.mu.Unlock()
	var answers []testimony
	var errs []error
	for _, a := range poll(ctx, watchers, s.ask, func(a testimony) bool { return a.err == nil }, briefly) {
		if a.err != nil {
			errs = append(errs, a.err)
		} else {
			answers = append(answers, a)
		}
	}
	if len(answers) == 0 {
		return "", worst(errs)
	}
	s.mu.Lock()
	v, err := s.sentinelView.judge(answers)
	s.mu.Unlock()
	s.watch(v.peers, v.whole)
	return v.master, err
}

// worst returns the error that most needs to be known: one that will not go
// away by itself.
func worst(errs []error) error {
	for _, class := range []driver.Class{driver.Fatal, driver.Ambiguous, driver.Definite} {
		if i := slices.IndexFunc(errs, func(err error) bool { return driver.ClassOf(err) == class }); i >= 0 {
			return errs[i]
		}
	}
	return driver.Unsent(errors.New("nobody was asked"))
}

// ask asks a sentinel for the master, and for the others where that is due.
func (s *sentinels) ask(ctx context.Context, w *watcher) testimony {
	t := testimony{from: w.addr}
	named, epoch, err := s.described(ctx, w)
	if err == nil {
		t.addr, err = s.named(ctx, w)
	}
	if err == nil && t.addr != named {
		// A failover is going on: the description still has the old address. The
		// epoch must not be older than the new one.
		_, epoch, err = s.described(ctx, w)
	}
	if err == nil {
		err = w.introduceItself(ctx, s.name)
	}
	if err != nil {
		return testimony{err: err}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.epoch, t.id, t.peers = epoch, w.id, w.peers
	if w.link != nil {
		t.remote = w.link.RemoteAddr().String()
	}
	return t
}

// run runs a command of the sentinels.
func (w *watcher) run(ctx context.Context, words ...string) (rueidis.RedisMessage, error) {
	return w.ask(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Arbitrary("SENTINEL").Args(words...).Build()
	})
}

// described returns the address and the epoch in a sentinel's description of
// the master.
func (s *sentinels) described(ctx context.Context, w *watcher) (addr string, epoch int, err error) {
	m, err := w.run(ctx, "MASTER", s.name)
	if err != nil {
		if strings.Contains(err.Error(), "unknown command") {
			err = &driver.Error{Class: driver.Fatal, Err: errors.New("it is not a sentinel")}
		}
		if driver.ClassOf(err) == driver.Fatal {
			err = &driver.Error{Class: driver.Fatal, Code: driver.CodeOf(err), Err: fmt.Errorf("sentinel %s: %w", w.addr, err)}
		}
		return "", 0, err
	}
	master, err := m.AsStrMap()
	if err != nil || master["port"] == "" {
		return "", 0, &driver.Error{Class: driver.Fatal, Err: fmt.Errorf("%s is no sentinel", w.addr)}
	}
	epoch, _ = strconv.Atoi(master["config-epoch"])
	return net.JoinHostPort(master["ip"], master["port"]), max(epoch, 0), nil
}

// named returns the address that a sentinel gives to clients.
func (s *sentinels) named(ctx context.Context, w *watcher) (string, error) {
	m, err := w.run(ctx, "GET-MASTER-ADDR-BY-NAME", s.name)
	if err != nil {
		return "", err
	}
	addr, err := m.AsStrSlice()
	if err != nil || len(addr) != 2 {
		return "", driver.Unknown(fmt.Errorf("sentinel %s does not know the address of the master", w.addr))
	}
	return net.JoinHostPort(addr[0], addr[1]), nil
}

// introduceItself asks a sentinel for its id and for the others that it knows,
// unless it has said so lately on this connection.
func (w *watcher) introduceItself(ctx context.Context, master string) error {
	l := w.node.link.Load()
	w.mu.Lock()
	known := w.link == l && l != nil && time.Since(w.since) < listEvery
	w.mu.Unlock()
	if known {
		return nil
	}
	// The answer may be an error: Redis before 6.2 does not know MYID, and the user
	// may lack permission. Then addresses have to do.
	var id string
	m, err := w.run(ctx, "MYID")
	if err == nil {
		id, _ = m.ToString()
	} else if driver.CodeOf(err) == "" {
		return err
	}
	var peers []peer
	var list []rueidis.RedisMessage
	m, err = w.run(ctx, "SENTINELS", master)
	if err == nil {
		list, _ = m.ToArray()
	} else if driver.CodeOf(err) == "" {
		return err
	}
	for _, e := range list[:min(len(list), maxPeers)] {
		if p, err := e.AsStrMap(); err == nil && p["ip"] != "" {
			addr := net.JoinHostPort(p["ip"], p["port"])
			if p["runid"] == "" {
				p["runid"] = addr
			}
			peers = append(peers, peer{p["runid"], addr})
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.link, w.since, w.id, w.peers = l, time.Now(), id, peers
	return nil
}

func (s *sentinels) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watchers {
		w.close()
	}
}
