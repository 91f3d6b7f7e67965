package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A network connects clients with a master. It delays, loses, repeats and reorders what
// they send, as its seed says. All times are faked.
type network struct {
	executing func(s *server, call driver.Call)                                               // before each call
	executed  func(client int, s *server, call driver.Call, reply driver.Result, how arrival) // after it

	mu      *sync.Mutex // orders the calls at all servers of the world
	servers []*server   // all that were masters
	master  *server     // the latest one
	down    chan struct{}
}

// An arrival says how a request has come.
type arrival int

const (
	inTime arrival = iota
	late           // long after it was sent
	again          // as a second copy, so that the client may have an answer
)

// serve makes a server the master. The caller holds n.mu.
func (n *network) serve(s *server) {
	s.network = n
	n.servers = append(n.servers, s)
	n.master = s
}

// A link is the connection of one client. It is the driver of that client.
type link struct {
	*network
	client  int
	seed    uint64
	renewed func(driver.Call, driver.Reply) // when the answer to a renewal has arrived
	rights  func(key string) bool           // whether the user has the right to a key; nil: to all

	mu       sync.Mutex
	sent     map[string]uint64 // how often, by what was sent
	faults   faults
	frozen   time.Time // until when nothing passes
	crashed  bool
	ended    bool // the client is closed
	ears     []*ear
	watchers []func()

	server  *server       // to which the client sends
	term    uint64        // of that server
	moved   chan struct{} // closed when the client sends to another server
	movedAt time.Time     // when it did last
	since   time.Time     // when the last other disturbance of the link ended or will end
}

// faults are the probabilities in percent, and the bounds of a link.
type faults struct {
	loseRequest, loseReply, loseMessage, repeatMessage, repeatRequest int
	delay                                                             time.Duration // of each request, reply and message, at most
}

// calm reports whether every request is answered soon.
func (f faults) calm() bool {
	return f.loseRequest == 0 && f.loseReply == 0 && f.delay <= 20*time.Millisecond
}

const answerTimeout = 1937 * time.Millisecond // of a driver

var errNoAnswer = &driver.Error{Class: driver.Ambiguous, Err: errors.New("no answer in time")}

func newLink(n *network, client int, seed uint64) *link {
	return &link{
		network: n, client: client, seed: seed, sent: make(map[string]uint64), faults: faults{delay: time.Millisecond},
		server: n.master, moved: make(chan struct{}), since: time.Now(),
	}
}

// A fate decides what happens to one thing that is sent.
type fate struct{ *rand.Rand }

// fate returns the fate of the next thing of this name. It does not depend on what
// else is sent, so that goroutines that run at the same time change nothing. The
// caller holds l.mu.
func (l *link) fate(what string) fate {
	l.sent[what]++
	h := fnv.New64()
	fmt.Fprint(h, l.seed, l.client, what, l.sent[what])
	return fate{rand.New(rand.NewPCG(h.Sum64(), l.seed))}
}

func (f fate) chance(percent int) bool { return f.IntN(100) < percent }

// pass returns how long something takes that enters the link now. No two things
// arrive at the same time. The caller holds l.mu.
func (l *link) pass(f fate) time.Duration {
	return max(0, time.Until(l.frozen)) + time.Duration(f.Int64N(int64(l.faults.delay)+1_000_000))
}

func (l *link) draw(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// Do sends a call. The call may be executed long after Do has given up on it.
func (l *link) Do(ctx context.Context, call driver.Call) (driver.Reply, error) {
	results := l.send(ctx, []driver.Call{call}, 0, 0)
	return results[0].Reply, results[0].Err
}

func (l *link) DoMany(ctx context.Context, calls []driver.Call) []driver.Result {
	return l.send(ctx, calls, 0, 0)
}

func (l *link) DoAcked(ctx context.Context, calls []driver.Call, replicas int, timeout time.Duration) []driver.Result {
	return l.send(ctx, calls, replicas, timeout)
}

func failed(calls []driver.Call, err error) []driver.Result {
	results := make([]driver.Result, len(calls))
	for i := range results {
		results[i].Err = err
	}
	return results
}

func (l *link) send(ctx context.Context, calls []driver.Call, replicas int, timeout time.Duration) []driver.Result {
	if err := ctx.Err(); err != nil {
		return failed(calls, driver.Unsent(err))
	}
	for i := range calls { // the caller may change its slices when send has returned
		calls[i].Keys = append([]string(nil), calls[i].Keys...)
		calls[i].Args = append([]string(nil), calls[i].Args...)
	}
	calls = append([]driver.Call(nil), calls...)
	var there, back, copied, acked time.Duration
	var lost, mute, reset bool
	var s *server
	var moved chan struct{}
	l.draw(func() {
		f := l.fate(what(calls))
		there, back, copied, acked = l.pass(f), l.pass(f), l.pass(f), time.Duration(f.Int64N(int64(3*time.Millisecond)))
		lost, mute, reset = f.chance(l.faults.loseRequest) || l.crashed, f.chance(l.faults.loseReply), f.chance(50)
		if !f.chance(l.faults.repeatRequest) {
			copied = 0
		}
		if s = l.server; f.chance(50) { // otherwise the driver waits for the old server
			moved = l.moved
		}
	})
	answer := make(chan []driver.Result, 1)
	if !lost {
		go func() {
			if !l.sleep(there) {
				return
			}
			growStack()
			how := inTime
			if there > 100*time.Millisecond {
				how = late
			}
			results, write := l.execute(s, calls, reset, how)
			if replicas > 0 && !l.await(s, write, acked, timeout, results) {
				return
			}
			if mute || !l.sleep(back) || !l.sleep(l.thaw(back)) || l.dead() {
				return
			}
			answer <- results
		}()
		if copied > 0 { // a second copy, whose reply no one reads
			go func() {
				if l.sleep(there + copied) {
					l.execute(s, calls, reset, again)
				}
			}()
		}
	}
	// What happens at the same time reaches the callers at different times, so that a seed replays.
	apart := time.Duration(1 + int64(acked)%997)
	select {
	case results := <-answer:
		for i, r := range results {
			if r.Err == nil && calls[i].Script.Name == "renew" {
				l.renewed(calls[i], r.Reply)
			}
		}
		return results
	case <-ctx.Done():
		time.Sleep(apart)
		return failed(calls, driver.ForCaller(ctx, errNoAnswer))
	case <-time.After(answerTimeout + timeout + apart):
		return failed(calls, errNoAnswer)
	case <-moved:
		time.Sleep(apart)
		return failed(calls, driver.Unknown(errors.New("the server was replaced")))
	case <-l.down:
		return failed(calls, driver.ErrClosed)
	}
}

// growStack grows the stack of a goroutine at once, and not several times in the depth of a script.
//
//go:noinline
func growStack() {
	var frame [12 << 10]byte
	runtime.KeepAlive(&frame)
}

// await waits until the replica has a write, for at most timeout, and notes how many
// replicas have it.
func (l *link) await(s *server, write int, delay, timeout time.Duration, results []driver.Result) bool {
	if !l.sleep(delay) {
		return false
	}
	for end := time.Now().Add(timeout); ; {
		l.network.mu.Lock()
		ok := s.replicate(write)
		l.network.mu.Unlock()
		if ok {
			for i := range results {
				results[i].Acked = 1
			}
			return true
		}
		if time.Now().After(end) {
			return true
		}
		if !l.sleep(10*time.Millisecond + delay) {
			return false
		}
	}
}

// what names calls by their scripts and owners or permits.
func what(calls []driver.Call) string {
	var b strings.Builder
	for _, c := range calls {
		b.WriteString(c.Script.Name)
		for _, a := range c.Args {
			if binary(a) {
				b.WriteString(a)
			} else if id, number, ok := strings.Cut(a, ":"); ok && strings.Count(id, "-") == 4 {
				b.WriteString(":" + number)
			}
		}
	}
	return b.String()
}

// execute runs calls at a server, one after the other. It returns the number of the
// last write. If the server is gone, the client either sees that its connection is
// reset after the request, or cannot connect.
func (l *link) execute(s *server, calls []driver.Call, reset bool, how arrival) (results []driver.Result, write int) {
	n, client := l.network, l.client
	for {
		n.mu.Lock()
		wait := time.Until(s.resumes)
		if wait <= 0 || s.state != serving {
			break
		}
		how = max(how, late)
		spread := max(8, s.resumes.Sub(s.stopped)/time.Second)
		wait += time.Since(s.stopped) / spread // in the order in which they came, at different times, within a second
		n.mu.Unlock()
		time.Sleep(wait)
	}
	defer n.mu.Unlock()
	switch {
	case s.state == readOnly:
		return failed(calls, driver.ServerError("READONLY You can't write against a read only replica.")), 0
	case s.state == dead && reset:
		return failed(calls, driver.Unknown(errors.New("connection reset"))), 0
	case s.state == dead:
		return failed(calls, driver.Unsent(errors.New("connection refused"))), 0
	}
	results = make([]driver.Result, len(calls))
	for i, c := range calls {
		n.executing(s, c)
		if refused(l.rights, c) {
			results[i].Err = driver.ServerError("NOPERM No permissions to access a key")
		} else {
			results[i].Reply, results[i].Err = s.Do(c)
		}
		write = s.wrote()
		n.executed(client, s, c, results[i], how)
	}
	return results, write
}

// refused reports whether a call has a key that the user has no right to.
func refused(rights func(string) bool, c driver.Call) bool {
	return rights != nil && slices.ContainsFunc(c.Keys, func(key string) bool { return !rights(key) })
}

// sleep returns whether the network is still there after d.
func (n *network) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	select {
	case <-time.After(d):
		return true
	case <-n.down:
		return false
	}
}

// thaw returns how long something must wait that has come after delay through a link
// that is now frozen.
func (l *link) thaw(delay time.Duration) (d time.Duration) {
	l.draw(func() {
		if d = time.Until(l.frozen); d > 0 {
			d += delay / 8
		}
	})
	return d
}

func (l *link) dead() (dead bool) {
	l.draw(func() { dead = l.crashed })
	return dead
}

// crash ends the process of the client, for the server: nothing arrives any more.
func (l *link) crash(closes bool) {
	var ears []*ear
	l.draw(func() { l.crashed, ears = true, l.ears })
	for _, e := range ears {
		if closes {
			e.mu.Lock()
			_ = e.connection.Close()
			e.mu.Unlock()
		}
	}
}

// freeze lets nothing pass for d, in either direction.
func (l *link) freeze(d time.Duration) {
	l.draw(func() {
		if end := time.Now().Add(d); end.After(l.frozen) { // what is under way arrives at the end
			l.frozen = end
		}
		l.disturbed(d)
	})
}

// set sets the faults of the link.
func (l *link) set(f faults) {
	l.draw(func() {
		l.faults = f
		l.disturbed(0)
	})
}

// disturbed notes a disturbance that ends after d. The caller holds l.mu.
func (l *link) disturbed(d time.Duration) {
	if end := time.Now().Add(d); end.After(l.since) {
		l.since = end
	}
}

// calmSince returns since when the latest master answers every request of the client
// soon, when the client has moved to it, and whether it does.
func (l *link) calmSince(master *server) (since, moved time.Time, calm bool) {
	l.draw(func() {
		since, moved, calm = l.since, l.movedAt, l.faults.calm() && l.server == master && !l.crashed && time.Now().After(l.since)
	})
	return since, moved, calm
}

// disconnect breaks the subscriptions of the client and restores them.
func (l *link) disconnect() {
	for _, e := range l.listeners() {
		e.reconnect()
	}
}

func (l *link) listeners() (ears []*ear) {
	l.draw(func() { ears = append(ears, l.ears...) })
	return ears
}

// move makes the client send to another server from now on. A driver does this when
// it has identified the new server, so no reply of it arrives in the old term.
func (l *link) move(s *server) {
	var watchers []func()
	var same bool
	l.draw(func() {
		if same = l.server == s; same {
			return
		}
		l.server = s
		l.term++
		close(l.moved)
		l.moved = make(chan struct{})
		l.movedAt = time.Now()
		watchers = append(watchers, l.watchers...)
	})
	if same {
		return
	}
	l.disconnect()
	for _, f := range watchers {
		f()
	}
}

func (l *link) Place(string) driver.Place {
	l.mu.Lock()
	s, term := l.server, l.term
	l.mu.Unlock()
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	return driver.Place{Term: term, Replicas: s.connected()}
}

func (l *link) Watch(f func()) (stop func()) {
	l.draw(func() { l.watchers = append(l.watchers, f) })
	return func() {}
}

func (l *link) Facts(context.Context, ...string) []driver.Facts {
	l.mu.Lock()
	s := l.server
	l.mu.Unlock()
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	return []driver.Facts{{Role: "master", Replicas: s.connected(), RunID: fmt.Sprintf("%p", s)}}
}

// Close notes that the client is closed.
func (l *link) Close() error {
	l.draw(func() { l.ended = true })
	return nil
}

func (l *link) closed() (closed bool) {
	l.draw(func() { closed = l.ended })
	return closed
}
