package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/fake"
)

// A network connects clients with one server. It delays, loses and reorders what they
// send, as its seed says. All times are faked.
type network struct {
	*fake.Driver
	executed func(client int, call driver.Call, reply driver.Reply) // after each call, before its reply

	mu      sync.Mutex // orders the calls
	down    chan struct{}
	stopped time.Time // from when to when the server does nothing
	resumes time.Time
}

// A link is the connection of one client.
type link struct {
	*network
	client int

	seed    uint64
	mu      sync.Mutex
	sent    map[string]uint64 // how often, by what was sent
	faults  faults
	frozen  time.Time // until when nothing passes
	crashed bool
	ears    []*ear
}

// faults are the probabilities in percent, and the bounds of a link.
type faults struct {
	loseRequest, loseReply, loseMessage, repeatMessage int
	delay                                              time.Duration // of each request, reply and message, at most
}

const answerTimeout = 1937 * time.Millisecond // of a driver

var errNoAnswer = &driver.Error{Class: driver.Ambiguous, Err: errors.New("no answer in time")}

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
	results := l.send(ctx, []driver.Call{call})
	return results[0].Reply, results[0].Err
}

func (l *link) DoMany(ctx context.Context, calls []driver.Call) []driver.Result {
	return l.send(ctx, calls)
}

func (l *link) DoAcked(ctx context.Context, calls []driver.Call, replicas int, _ time.Duration) []driver.Result {
	results := l.send(ctx, calls)
	for i := range results {
		results[i].Acked = replicas
	}
	return results
}

func (l *link) send(ctx context.Context, calls []driver.Call) []driver.Result {
	failed := func(err error) []driver.Result {
		results := make([]driver.Result, len(calls))
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	if err := ctx.Err(); err != nil {
		return failed(driver.Unsent(err))
	}
	for i := range calls { // the caller may change its slices when send has returned
		calls[i].Keys = append([]string(nil), calls[i].Keys...)
		calls[i].Args = append([]string(nil), calls[i].Args...)
	}
	calls = append([]driver.Call(nil), calls...)
	var there, back time.Duration
	var lost, mute bool
	l.draw(func() {
		f := l.fate(what(calls))
		there, back = l.pass(f), l.pass(f)
		lost, mute = f.chance(l.faults.loseRequest) || l.crashed, f.chance(l.faults.loseReply)
	})
	answer := make(chan []driver.Result, 1)
	if !lost {
		go func() {
			if !l.sleep(there) {
				return
			}
			results := l.execute(l.client, calls)
			if mute || !l.sleep(back) || !l.sleep(l.thaw(back)) || l.dead() {
				return
			}
			answer <- results
		}()
	}
	select {
	case results := <-answer:
		return results
	case <-ctx.Done():
		return failed(driver.ForCaller(ctx, errNoAnswer))
	case <-time.After(answerTimeout):
		return failed(errNoAnswer)
	case <-l.down:
		return failed(driver.ErrClosed)
	}
}

// what names calls by their scripts and owners, without the random part of an owner.
func what(calls []driver.Call) string {
	var b strings.Builder
	for _, c := range calls {
		b.WriteString(c.Script.Name)
		for _, a := range c.Args {
			if i := strings.IndexByte(a, ':'); strings.Count(a, "-") == 4 {
				b.WriteString(a[i:])
			}
		}
	}
	return b.String()
}

// execute runs calls at the server, one after the other.
func (n *network) execute(client int, calls []driver.Call) []driver.Result {
	for {
		n.mu.Lock()
		wait := time.Until(n.resumes)
		if wait <= 0 {
			break
		}
		wait += time.Since(n.stopped) / 8 // in the order in which they came, at different times
		n.mu.Unlock()
		time.Sleep(wait)
	}
	defer n.mu.Unlock()
	results := make([]driver.Result, len(calls))
	for i, c := range calls {
		results[i].Reply, results[i].Err = n.Do(context.Background(), c)
		n.executed(client, c, results[i].Reply)
	}
	return results
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
func (l *link) crash() { l.draw(func() { l.crashed = true }) }

// freeze lets nothing pass for d, in either direction.
func (l *link) freeze(d time.Duration) { l.draw(func() { l.frozen = time.Now().Add(d) }) }

// stop lets the server do nothing for d.
func (n *network) stop(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped, n.resumes = time.Now(), time.Now().Add(d)
}

// disconnect breaks the subscriptions of the client and restores them.
func (l *link) disconnect() {
	var ears []*ear
	l.draw(func() { ears = l.ears })
	for _, e := range ears {
		e.reconnect()
	}
}

func (l *link) Listen(h driver.Handler) driver.Listener {
	e := &ear{link: l, Handler: h, channels: make(map[string]bool), generation: 1}
	e.Listener = l.Driver.Listen(e)
	l.draw(func() { l.ears = append(l.ears, e) })
	return e
}

// An ear is the handler of the fake server, and delays and loses messages before they
// reach the handler of the client.
type ear struct {
	driver.Listener
	driver.Handler
	link *link

	mu         sync.Mutex
	channels   map[string]bool
	generation uint64
}

// later calls f when something of this name has passed the link, as often as
// it arrives.
func (e *ear) later(what string, lose, repeat int, f func()) {
	var delays []time.Duration
	l := e.link
	l.draw(func() {
		fate := l.fate(what)
		first, second := l.pass(fate), l.pass(fate)
		switch {
		case l.crashed || fate.chance(lose):
		case fate.chance(repeat):
			delays = []time.Duration{first, second}
		default:
			delays = []time.Duration{first}
		}
	})
	for _, d := range delays {
		go func() {
			if l.sleep(d) && !l.dead() {
				f()
			}
		}()
	}
}

func (e *ear) Message(channel, payload string) {
	var f faults
	e.link.draw(func() { f = e.link.faults })
	e.later("message", f.loseMessage, f.repeatMessage, func() { e.Handler.Message(channel, payload) })
}

func (e *ear) Subscribed(channel string, _ uint64) {
	e.mu.Lock()
	e.channels[channel] = true
	generation := e.generation
	e.mu.Unlock()
	e.later("subscribed", 0, 0, func() { e.Handler.Subscribed(channel, generation) })
}

func (e *ear) Unsubscribe(channels ...string) {
	e.mu.Lock()
	for _, c := range channels {
		delete(e.channels, c)
	}
	e.mu.Unlock()
	e.Listener.Unsubscribe(channels...)
}

func (e *ear) reconnect() {
	e.mu.Lock()
	e.generation++
	var channels []string
	for c := range e.channels {
		channels = append(channels, c)
	}
	e.mu.Unlock()
	e.Lost(channels, errors.New("connection lost"))
	e.Subscribe(channels...)
}
