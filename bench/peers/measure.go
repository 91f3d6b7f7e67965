package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

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

// A load is n clients in some processes, which all lock and release in a loop.
type load struct {
	library    library
	server     *redistest.Server
	addr       string // of the server, or of a proxy
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

// measure runs the load and returns what happened in the window.
func (l load) measure(ctx context.Context) (f figures, err error) {
	err = within(func(s *scope) error {
		f, err = l.run(ctx, s)
		return err
	})
	return f, err
}

func (l load) run(ctx context.Context, s *scope) (figures, error) {
	m, path, err := newMemory(s.TempDir())
	if err != nil {
		return nil, err
	}
	s.Cleanup(func() { _ = m.detach() })
	l.server.Do(s, "FLUSHALL")
	if l.addr == "" {
		l.addr = l.server.Addr()
	}
	if l.idle {
		holder, err := l.library.open(ctx, l.addr)
		if err != nil {
			return nil, err
		}
		s.Cleanup(holder.close)
		if err := holder.lock(lockName).acquire(ctx); err != nil {
			return nil, err
		}
	}
	var ps []*redistest.Process
	first := 0
	for i := range l.processes {
		n := l.clients / l.processes
		if i < l.clients%l.processes {
			n++
		}
		if n == 0 {
			break
		}
		p, err := startWorker(s, "compete", job{
			Library: l.library.name, Addr: l.addr, Memory: path,
			Process: i, First: first, Clients: n, Goroutines: l.goroutines, OwnNames: l.ownNames, Hold: l.hold,
		})
		if err != nil {
			return nil, err
		}
		ps = append(ps, p)
		first += n * l.goroutines
	}
	all := first // goroutines, with that of the writer
	if l.writer != nil {
		p, err := startWorker(s, "compete", job{
			Library: l.writer.name, Addr: l.addr, Memory: path,
			Process: l.processes, First: first, Clients: 1, Goroutines: 1, Hold: writerHold, Pause: writerPause, Record: true,
		})
		if err != nil {
			return nil, err
		}
		ps = append(ps, p)
		all++
	}
	for _, p := range ps {
		if _, err := line(ctx, p); err != nil {
			return nil, err
		}
	}
	idle := make(figures) // of clients that are connected and do not wait
	if l.idle {
		if idle, err = l.observe(ctx, m, first); err != nil {
			return nil, err
		}
	}
	for _, p := range ps {
		p.Send("go")
	}
	for l.idle && slices.ContainsFunc(m.all(first), func(s *slot) bool { return s.asked.Load() == 0 }) {
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return nil, err
		}
	}
	if err := pause(ctx, l.settle); err != nil {
		return nil, err
	}
	// Until each goroutine has had the lock, some still subscribe or load scripts. Some
	// libraries let a goroutine wait much longer, so there is a limit.
	for end := time.Now().Add(l.window / 2); !l.idle && time.Now().Before(end); {
		if !slices.ContainsFunc(m.all(all), func(s *slot) bool { return s.pairs.Load() == 0 }) {
			break
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return nil, err
		}
	}
	m.start.Store(now())
	for _, s := range m.all(first) {
		s.longest.Store(0)
	}
	m.recorded.Store(0)
	f, err := l.observe(ctx, m, first)
	if err != nil {
		return nil, err
	}
	if l.idle {
		f[waitingRate] = f[requestRate] - f[pingRate] - (idle[requestRate] - idle[pingRate])
	}
	for _, p := range ps {
		p.Send("stop")
	}
	for _, p := range ps {
		text, err := line(ctx, p)
		if err != nil {
			return nil, err
		}
		if text != "" {
			return nil, errors.New(text)
		}
	}
	for i := range m.names { // also those after the window
		f[violations] += float64(m.names[i].violations.Load())
	}
	return f, nil
}

// observe returns what happens in the window.
func (l load) observe(ctx context.Context, m *memory, slots int) (figures, error) {
	before, err := l.look(m, slots)
	for err == nil {
		if err = pause(ctx, l.window); err != nil {
			break
		}
		var after look
		if after, err = l.look(m, slots); err != nil {
			break
		}
		seen := after.handoffs - before.handoffs
		if l.writer != nil {
			seen = after.writes - before.writes
		}
		if l.idle || seen >= l.least {
			return after.since(before), nil
		}
	}
	return nil, err
}

// all returns the slots in use.
func (m *memory) all(n int) []*slot {
	list := make([]*slot, n)
	for i := range list {
		list[i] = &m.slots[i]
	}
	return list
}

// A look is the state of a measurement at one time.
type look struct {
	at                  time.Time
	handoffs, crossings int64
	pairs               []int64 // of each goroutine
	longest             int64   // wait since the start of the measurement
	writes              int64
	waits               []time.Duration // of the writer, since the start of the measurement
	server              usage
}

func (l load) look(m *memory, slots int) (k look, err error) {
	k = look{at: time.Now()}
	for i := range m.names {
		k.handoffs += m.names[i].handoffs.Load()
		k.crossings += m.names[i].crossings.Load()
	}
	t := now()
	for _, s := range m.all(slots) {
		k.pairs = append(k.pairs, s.pairs.Load())
		k.longest = max(k.longest, s.longest.Load())
		if asked := s.asked.Load(); asked != 0 { // it still waits
			k.longest = max(k.longest, t-max(asked, m.start.Load()))
		}
	}
	if l.writer != nil {
		writer := &m.slots[slots]
		k.writes, k.waits = writer.pairs.Load(), m.allWaits(writer, t)
	}
	k.server, err = usageOf(l.server, l.library)
	return k, err
}

func (k look) since(before look) figures {
	seconds := k.at.Sub(before.at).Seconds()
	handoffs := float64(k.handoffs - before.handoffs)
	var sum, squares float64
	for i, n := range k.pairs {
		n := float64(n - before.pairs[i])
		sum += n
		squares += n * n
	}
	requests := float64(k.server.requests - before.server.requests)
	f := figures{
		pairRate:     sum / seconds,
		handoffRate:  handoffs / seconds,
		crossingRate: float64(k.crossings-before.crossings) / seconds,
		requestRate:  requests / seconds,
		pingRate:     float64(k.server.pings-before.server.pings) / seconds,
		longestWait:  float64(k.longest) / 1e6,
	}
	if sum > 0 {
		f[jainIndex] = sum * sum / (float64(len(k.pairs)) * squares)
	}
	if handoffs > 0 {
		f[requestsEach] = requests / handoffs
		f[commandsEach] = float64(k.server.commands-before.server.commands) / handoffs
		f[cpuEach] = (k.server.cpu - before.server.cpu) * 1e6 / handoffs
		f[longestTurns] = float64(k.longest) / 1e9 * handoffs / seconds / float64(len(k.pairs))
	}
	if len(k.waits) > 0 {
		f[writes] = float64(k.writes - before.writes)
		for figure, p := range map[string]int{writerP50: 50, writerP99: 99, writerLongest: 100} {
			f[figure] = float64(percentile(k.waits, p)) / 1e6
		}
	}
	return f
}

// usage is what a server has done since its start.
type usage struct {
	requests int64   // commands that clients have sent
	pings    int64   // those of them that only keep a connection alive
	commands int64   // requests, and those that scripts have called
	cpu      float64 // seconds
}

// onlySent are commands that no script calls. A name that ends in | has subcommands.
var onlySent = []string{
	"evalsha", "eval", "script|", "ping", "wait",
	"subscribe", "unsubscribe", "ssubscribe", "sunsubscribe",
}

// usageOf asks the server. The server counts a command that a script calls like a command
// that a client sends. So requests has the commands that no script calls, and those that
// the library sends by itself and calls in no script. A test compares the sum with what
// goes through a proxy. Only requests of the clients count, without those that a client
// library sends first on a connection.
func usageOf(s *redistest.Server, l library) (u usage, err error) {
	reply, err := s.Try("INFO", "commandstats")
	if err != nil {
		return u, err
	}
	text, _ := reply.(string)
	for row := range strings.Lines(text) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(row, "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return u, err
		}
		switch name {
		case "info", "replconf", "psync", "flushall", "hello":
			continue
		}
		if strings.HasPrefix(name, "client|") {
			continue
		}
		u.commands += n
		sent := func(c string) bool { return c == name || strings.HasSuffix(c, "|") && strings.HasPrefix(name, c) }
		if slices.ContainsFunc(onlySent, sent) || slices.Contains(l.sends, name) {
			u.requests += n
		}
		if name == "ping" {
			u.pings += n
		}
	}
	if reply, err = s.Try("INFO", "cpu"); err != nil {
		return u, err
	}
	text, _ = reply.(string)
	for row := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(row), ":")
		if key == "used_cpu_user" || key == "used_cpu_sys" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return u, err
			}
			u.cpu += seconds
		}
	}
	return u, nil
}

// pause waits for d, or until ctx is done.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
