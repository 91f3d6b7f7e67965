package redistest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

const (
	// stallBeat is the time between two looks at what a StallMeter watches.
	stallBeat = 20 * time.Millisecond

	// stallMin is the delay of one look from which on it counts as a stall.
	// Delays below it are normal scheduling.
	stallMin = 10 * time.Millisecond

	// maxRounds bounds how often Rounds starts a scenario over.
	maxRounds = 6
)

// StallMeter records when this process, or one of some servers, did not run: it
// was stopped, or the machine gave it no time. Such a process misses deadlines
// and loses leases, and that says nothing about the code under test. A test
// whose outcome depends on short times asks the meter before it takes a missed
// deadline for a broken promise.
//
// Where a scenario does not need a short lease, a long lease is better than a
// meter.
type StallMeter struct {
	watched []*pulse // the first one is this process
}

// MeterStalls starts a meter for this process and the servers. It runs until
// the cleanup of tb. The meter also records a server that the test itself
// pauses, kills or restarts.
func MeterStalls(tb testing.TB, servers ...*Server) *StallMeter {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	tb.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	m := new(StallMeter)
	watch := func(look func(context.Context, *pulse)) {
		p := new(pulse)
		m.watched = append(m.watched, p)
		wg.Go(func() { look(ctx, p) })
	}
	watch(watchProcess)
	for _, s := range servers {
		for _, node := range s.nodes() {
			watch(node.watch)
		}
	}
	return m
}

// nodes returns the servers that s stands for.
func (s *Server) nodes() []*Server {
	if s.several != nil {
		return s.several.nodes
	}
	return []*Server{s}
}

// Since returns for how long this process or one of the servers stood still
// after the moment from. Stalls at the same time count once.
func (m *StallMeter) Since(from time.Time) time.Duration {
	now := time.Now()
	var gaps []gap
	for _, p := range m.watched {
		gaps = p.collect(gaps, now)
	}
	slices.SortFunc(gaps, func(a, b gap) int { return cmp.Or(a.from.Compare(b.from), a.to.Compare(b.to)) })
	var total time.Duration
	for _, g := range gaps {
		if g.from.Before(from) {
			g.from = from
		}
		if d := g.to.Sub(g.from); d > 0 {
			total += d
			from = g.to
		}
	}
	return total
}

// Rounds runs a scenario. The round returns an error if it saw a broken promise.
// The test fails at once with that error, unless this process or one of the
// servers stood still for longer than tolerance during the round. Then the round
// shows nothing, and Rounds starts over. A scenario that cannot be observed in
// several rounds fails the test.
func (m *StallMeter) Rounds(tb testing.TB, tolerance time.Duration, round func() error) {
	tb.Helper()
	for n := 1; ; n++ {
		start := time.Now()
		err := round()
		if err == nil {
			return
		}
		stalled := m.Since(start)
		switch {
		case stalled <= tolerance:
			tb.Fatal(err)
		case n == maxRounds:
			tb.Fatalf("not observed in %d rounds: this process or a server stood still in each of them, for %v in the last one: %v", n, stalled, err)
		}
		tb.Logf("round %d shows nothing: this process or a server stood still for %v: %v", n, stalled, err)
	}
}

// A gap is a time in which something did not run.
type gap struct{ from, to time.Time }

// A pulse is the record of one process.
type pulse struct {
	mu   sync.Mutex
	due  time.Time // when the look that is under way should be over; zero: none is
	gaps []gap
}

// begin notes that a look is under way that should take no longer than d.
func (p *pulse) begin(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = time.Now().Add(d)
}

// end notes that the look is over.
func (p *pulse) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.due) > stallMin {
		p.gaps = append(p.gaps, gap{p.due, now})
	}
	p.due = time.Time{}
}

// collect appends the gaps up to now, including one that has not ended.
func (p *pulse) collect(gaps []gap, now time.Time) []gap {
	p.mu.Lock()
	defer p.mu.Unlock()
	gaps = append(gaps, p.gaps...)
	if !p.due.IsZero() && now.Sub(p.due) > stallMin {
		gaps = append(gaps, gap{p.due, now})
	}
	return gaps
}

// watchProcess records when this process sleeps longer than it asked for.
func watchProcess(ctx context.Context, p *pulse) {
	for ctx.Err() == nil {
		p.begin(stallBeat)
		time.Sleep(stallBeat)
		p.end()
	}
}

// watch records when the server does not answer, on a connection of its own past
// the network of the test.
func (s *Server) watch(ctx context.Context, p *pulse) {
	probe := admin{addr: s.admin.addr, login: s.admin.login, tls: s.admin.tls}
	defer probe.close()
	for ctx.Err() == nil {
		p.begin(0)
		for !probe.ping(ctx) {
			if ctx.Err() != nil {
				return
			}
			time.Sleep(stallBeat)
		}
		p.end()
		time.Sleep(stallBeat)
	}
}

// ping reports whether the server answers. It gives up when ctx ends.
func (a *admin) ping(ctx context.Context) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn == nil && a.dial() != nil {
		return false
	}
	conn := a.conn
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_, err := a.exchange([]string{"PING"})
	var refusal replyError // such as LOADING: the server runs
	return err == nil || errors.As(err, &refusal)
}
