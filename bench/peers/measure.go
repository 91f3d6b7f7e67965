package main

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/load"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// figures are the results of one measurement, by name.
type figures map[string]float64

// The names of figures.
const (
	pairRate      = "pairs/s"
	handoffRate   = "hand-offs/s"
	crossingRate  = "hand-offs to another process/s"
	requestRate   = "requests/s"
	waitingRate   = "requests/s because of the waiting" // without PING; those before the clients waited are subtracted
	pingRate      = "PING/s"                            // part of requests/s
	requestsEach  = "requests per hand-off"
	commandsEach  = "commands per hand-off"
	cpuEach       = "server CPU per hand-off, µs"
	jainIndex     = "Jain's index"
	longestWait   = "longest wait, ms"
	longestTurns  = "longest wait, turns" // 1 is the time in which every goroutine has one turn
	pairTime      = "pair p50, µs"
	pairTimeAlone = "pair p50 without held locks, µs"
	wakeTime      = "wake-up p50, µs"
	floorTime     = "floor p50, µs"
	pairRatio     = "pair / floor"
	wakeRatio     = "wake-up / floor"
	allocations   = "allocations per pair"
	violations    = "violations"

	writes        = "writes" // how many times the writer had the lock
	writerP50     = "writer's wait p50, ms"
	writerP99     = "writer's wait p99, ms"
	writerLongest = "writer's longest wait, ms"

	allowTime    = "Allow p50, µs"
	allowRatio   = "Allow / floor"
	refusalRate  = "refusals/s"
	evalRate     = "EVALSHA/s"
	refusalRatio = "refusals / EVALSHA"
)

// A competition is n clients in some processes, which all lock and release in a loop.
type competition struct {
	library    library
	server     *redistest.Server
	processes  int
	clients    int // in all processes
	goroutines int // per client
	ownNames   bool
	hold       time.Duration // the length of the critical section
	writer     *library      // what a further process writes with, or nil
	idle       bool          // another client holds the lock all the time
	settle     time.Duration // from the start to the measurement, at least
	window     time.Duration // the measurement
	least      int64         // the measurement lasts until there were as many hand-offs, or writes
}

// A writer holds the lock for writerHold and then does not want it for writerPause.
const writerHold, writerPause = time.Millisecond, 20 * time.Millisecond

// measure runs the competition and returns what happened in the window.
func (c competition) measure(ctx context.Context) (figures, error) {
	if _, err := c.server.Try("FLUSHALL"); err != nil {
		return nil, err
	}
	if c.idle {
		holder, err := c.library.open(ctx, c.server.Addr())
		if err != nil {
			return nil, err
		}
		defer holder.close()
		if err := holder.lock(lockName).acquire(ctx); err != nil {
			return nil, err
		}
	}
	jobs, err := c.jobs()
	if err != nil {
		return nil, err
	}
	g, err := load.Start(ctx, c.clients*c.goroutines, jobs, nil, competitor)
	if err != nil {
		return nil, err
	}
	f, err := c.observe(g)
	if ended := g.Stop(); ended != nil {
		err = ended
	}
	if err != nil {
		return nil, err
	}
	c.add(f, g)
	return f, nil
}

func (c competition) jobs() ([]load.Job, error) {
	jobs, err := load.Divide(entry{c.library.name, c.server.Addr(), c.ownNames}, c.processes, c.clients, c.goroutines)
	for i := range jobs {
		jobs[i].Hold = c.hold
	}
	if c.writer == nil || err != nil {
		return jobs, err
	}
	writers, err := load.Divide(entry{c.writer.name, c.server.Addr(), false}, 1, 1, 1)
	w := &writers[0]
	w.Process, w.First, w.Hold, w.Pause = len(jobs), c.clients*c.goroutines, writerHold, writerPause
	return append(jobs, writers...), err
}

// own are the jobs without that of the writer.
func (c competition) own(g *load.Group) []load.Job {
	if c.writer != nil {
		return g.Jobs[:len(g.Jobs)-1]
	}
	return g.Jobs
}

// observe returns what the server has done in the window, per second and per hand-off.
func (c competition) observe(g *load.Group) (figures, error) {
	idle := make(figures) // of clients that are connected and do not wait
	if c.idle {
		u, seconds, err := usageDuring(c.server, c.library, func() error { return g.Sleep(c.window) })
		if err != nil {
			return nil, err
		}
		idle[waitingRate] = float64(u.Requests-u.Pings) / seconds
	}
	g.Go()
	await := func() error { return g.WarmUp(c.window / 2) }
	if c.idle {
		await = g.AwaitAsked
	}
	if err := errors.Join(g.Sleep(c.settle), await()); err != nil {
		return nil, err
	}
	g.Begin()
	u, seconds, err := usageDuring(c.server, c.library, func() error {
		for {
			if err := g.Sleep(c.window); err != nil || c.seen(g) >= c.least {
				g.End()
				return err
			}
		}
	})
	f := figures{requestRate: float64(u.Requests) / seconds, pingRate: float64(u.Pings) / seconds}
	if c.idle {
		f[waitingRate] = f[requestRate] - f[pingRate] - idle[waitingRate]
	}
	if n := float64(g.Total(c.own(g)...).Handoffs); n > 0 {
		f[requestsEach], f[commandsEach], f[cpuEach] = float64(u.Requests)/n, float64(u.Commands)/n, u.CPU*1e6/n
	}
	return f, err
}

// seen returns how many hand-offs, or writes, there were so far.
func (c competition) seen(g *load.Group) int64 {
	if c.writer != nil {
		return g.Total(g.Jobs[len(g.Jobs)-1]).Turns
	}
	return g.Total(c.own(g)...).Handoffs
}

// add adds what the clients say.
func (c competition) add(f figures, g *load.Group) {
	t := g.Total(c.own(g)...)
	seconds := t.Took.Seconds()
	f[pairRate] = float64(t.Turns) / seconds
	f[handoffRate] = float64(t.Handoffs) / seconds
	f[crossingRate] = float64(t.Crossings) / seconds
	f[longestWait] = t.Longest.Seconds() * 1e3
	if t.Turns > 0 {
		f[jainIndex] = load.Jain(t.Shares)
	}
	if t.Handoffs > 0 {
		f[longestTurns] = t.Longest.Seconds() * f[handoffRate] / float64(len(t.Shares))
	}
	for _, r := range g.Reports {
		f[violations] += float64(r.Intrusions)
	}
	if c.writer != nil {
		waits := g.Reports[len(g.Reports)-1]
		waits.Granted.Merge(waits.Cut)
		f[writes] = float64(c.seen(g))
		for figure, p := range map[string]float64{writerP50: 50, writerP99: 99, writerLongest: 100} {
			f[figure] = waits.Granted.Percentile(p).Seconds() * 1e3
		}
	}
}

// usageDuring returns what a server has done while a function ran, and for how many seconds it ran.
func usageDuring(s *redistest.Server, l library, do func() error) (u load.Usage, seconds float64, err error) {
	before, err := usageOf(s, l)
	if err != nil {
		return u, 0, err
	}
	began := time.Now()
	if err := do(); err != nil {
		return u, 0, err
	}
	seconds = time.Since(began).Seconds()
	after, err := usageOf(s, l)
	return after.Minus(before), seconds, err
}

func usageOf(s *redistest.Server, l library) (load.Usage, error) {
	return load.UsageOf(func(section string) (any, error) { return s.Try("INFO", section) }, l.sends...)
}
