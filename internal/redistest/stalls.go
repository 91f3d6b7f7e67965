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
	// stallBeat is the interval between two checks of a StallMeter.
	stallBeat = 20 * time.Millisecond

	// stallMin is the minimum delay of a check that counts as a stall. Shorter
	// delays are normal scheduling.
	stallMin = 10 * time.Millisecond

	// maxRounds limits how often Rounds runs a scenario.
	maxRounds = 6
)

// StallMeter records when this process, or one of some servers, did not run
// because it was stopped or got no CPU time. Such a process misses deadlines and
// loses leases, which does not prove a defect in the code under test. A test that
// depends on short times asks the meter before it reports a missed deadline.
//
// Where a scenario does not need a short lease, a long lease is better than a
// meter.
type StallMeter struct {
	watched []*stallRecord // the first one is this process
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
	watch := func(look func(context.Context, *stallRecord)) {
		p := new(stallRecord)
		p.begin(stallBeat)
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

// nodes returns the servers that s represents.
func (s *Server) nodes() []*Server {
	if s.several != nil {
		return s.several.nodes
	}
	return []*Server{s}
}

// Since returns how long this process or one of the servers did not run after
// the time from. Simultaneous stalls count once.
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

// Rounds runs a scenario. The round returns an error if it has observed a
// defect. The test fails at once with that error, unless this process or one of
// the servers stalled for longer than tolerance during the round. In that case
// the round proves nothing, and Rounds runs the scenario again. The test fails
// if all rounds stalled.
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
			tb.Fatalf("no valid round out of %d: this process or a server stalled in each of them, for %v in the last one: %v", n, stalled, err)
		}
		tb.Logf("round %d is not valid: this process or a server stalled for %v: %v", n, stalled, err)
	}
}

// A gap is a time in which something did not run.
type gap struct{ from, to time.Time }

// A stallRecord holds the stalls of one process.
type stallRecord struct {
	mu   sync.Mutex
	due  time.Time // when the check in progress should be done; zero if there is none
	gaps []gap
}

// begin records the start of a check that should take at most d.
func (p *stallRecord) begin(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = time.Now().Add(d)
}

// end records the end of the check.
func (p *stallRecord) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note(time.Now())
	p.due = time.Time{}
}

// next records the end of a check and the start of the next one, with no time in
// between.
func (p *stallRecord) next(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.note(now)
	p.due = now.Add(d)
}

// note records a gap if the check is late. The caller holds p.mu.
func (p *stallRecord) note(now time.Time) {
	if now.Sub(p.due) > stallMin {
		p.gaps = append(p.gaps, gap{p.due, now})
	}
}

// collect appends the gaps up to now, including one that has not ended.
func (p *stallRecord) collect(gaps []gap, now time.Time) []gap {
	p.mu.Lock()
	defer p.mu.Unlock()
	gaps = append(gaps, p.gaps...)
	if !p.due.IsZero() && now.Sub(p.due) > stallMin {
		gaps = append(gaps, gap{p.due, now})
	}
	return gaps
}

// watchProcess records when this process sleeps longer than it asked for. The first
// check has begun already, so that a stall before the first sleep counts.
func watchProcess(ctx context.Context, p *stallRecord) {
	for ctx.Err() == nil {
		time.Sleep(stallBeat)
		p.next(stallBeat)
	}
}

// watch records when the server does not answer. It uses a connection of its own
// that bypasses the network of the test.
func (s *Server) watch(ctx context.Context, p *stallRecord) {
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
