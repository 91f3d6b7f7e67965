package dashboard

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/inspect"
)

const (
	// share is how many times longer than its requests a round of the scanner is: the
	// scanner keeps the servers busy for less than a twentieth of the time.
	share = 25

	lingerTime     = 10 * time.Second // how long the scanner runs after a request without a stream
	minPause       = time.Millisecond // between two steps of a scan
	maxPause       = 20 * time.Millisecond
	minStep        = 25 // keys
	maxStep        = 400
	briefCall      = 300 * time.Microsecond // the steps are so small that requests take about as long, apart from the network
	scanLimit      = 10 * time.Minute       // for one round
	leastCall      = 30 * time.Microsecond  // of a server for the fastest request
	firstTime      = 5 * time.Second        // the longest time between the first two rounds
	lateTime       = 2 * time.Second        // by how much a round may be late
	partly         = 500 * time.Millisecond
	maxShown       = 20               // the number of locks that are read between two rounds
	deadlocksEvery = 10 * time.Second // between two reads of deadlocks, while their page is not viewed

	manyPermit = 200 // the number of semaphores whose free permits are read
)

// A scanner reads the locks again and again while they are viewed.
type scanner struct {
	client  *holdfast.Client
	options Options
	meter   *meter
	inspect *inspect.Inspector
	current atomic.Pointer[snapshot]
	history history

	mu      sync.Mutex
	streams map[string]int       // the number of streams by page
	shown   map[string]int       // the same by the lock that a page is about
	seen    map[string]time.Time // the last request by page
	wake    chan struct{}        // receives a value when a page is requested
	changed chan struct{}        // is closed and replaced with each snapshot
	scans   int
	pause   time.Duration // between the steps of the next round
	step    int           // the number of keys of each of them
}

func newScanner(client *holdfast.Client, o Options) *scanner {
	s := &scanner{
		client: client, options: o, meter: &meter{Driver: client.Driver()},
		streams: make(map[string]int), shown: make(map[string]int), seen: make(map[string]time.Time),
		wake: make(chan struct{}, 1), changed: make(chan struct{}), pause: minPause, step: 2 * minStep,
	}
	s.inspect = inspect.New(s.meter)
	s.history.locks = make(map[string]*timeline)
	return s
}

// A meter is a driver that measures how long requests take.
type meter struct {
	driver.Driver
	busy  atomic.Int64 // ns; the time of all requests
	calls atomic.Int64
	least atomic.Int64 // ns; the fastest request
}

func (m *meter) Do(ctx context.Context, call driver.Call) (driver.Reply, error) {
	defer m.note(time.Now())
	return m.Driver.Do(ctx, call)
}

func (m *meter) DoMany(ctx context.Context, calls []driver.Call) []driver.Result {
	defer m.note(time.Now())
	return m.Driver.DoMany(ctx, calls)
}

// used returns an estimate of how long the servers were busy: the time of all requests,
// without the time on the network, which is about that of the fastest request.
func (m *meter) used() time.Duration {
	calls := time.Duration(m.calls.Load())
	return time.Duration(m.busy.Load()) - calls*time.Duration(m.least.Load()) + calls*leastCall
}

func (m *meter) note(start time.Time) {
	took := int64(time.Since(start))
	m.busy.Add(took)
	if m.calls.Add(1) == 1 || took < m.least.Load() {
		m.least.Store(took) // requests of a scan follow one another
	}
}

// run scans while pages are viewed, until ctx is done.
func (s *scanner) run(ctx context.Context) {
	var due time.Time
	for {
		if !s.viewed() {
			select {
			case <-ctx.Done():
				return
			case <-s.wake:
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(time.Until(due), s.options.Every)):
		}
		switch now := time.Now(); {
		case !s.viewed():
		case now.Before(due):
			s.refresh(ctx)
		default:
			due = now.Add(s.scan(ctx))
		}
	}
}

// open notes that a stream shows a page, and the lock that the page is about, or "". The
// caller must call the result at the end.
func (s *scanner) open(page, lock string) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[page]++
	s.shown[lock]++
	s.wakeUp()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.streams[page]--
		if s.shown[lock]--; s.shown[lock] == 0 {
			delete(s.shown, lock)
		}
		s.seen[page] = time.Now()
	}
}

// refresh reads the locks that have a page open between two rounds, which may be far
// apart on a server with many keys.
func (s *scanner) refresh(ctx context.Context) {
	last := s.current.Load()
	s.mu.Lock()
	names := slices.Sorted(maps.Keys(s.shown))
	s.mu.Unlock()
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	if last == nil || last.partial || last.err != nil || len(names) == 0 {
		return
	}
	p := *last
	p.locks, p.byName = slices.Clone(last.locks), maps.Clone(last.byName)
	for _, name := range names[:min(len(names), maxShown)] {
		lock, err := s.inspect.Lock(ctx, name)
		if err != nil {
			continue // the next round reports it
		}
		before, now := p.byName[name], newState(lock, time.Now())
		p.locks = slices.DeleteFunc(p.locks, func(l *state) bool { return l == before })
		delete(p.byName, name)
		if len(lock.Holders) > 0 || len(lock.Queue) > 0 {
			p.locks, p.byName[name] = append(p.locks, now), now
		}
		s.history.read(now, before)
	}
	p.index()
	s.publish(&p)
}

// view notes that a page is requested.
func (s *scanner) view(page string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[page] = time.Now()
	s.wakeUp()
}

func (s *scanner) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// viewed reports whether one of the pages is viewed; without arguments, any page.
func (s *scanner) viewed(pages ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for page, n := range s.streams {
		if n > 0 && (len(pages) == 0 || slices.Contains(pages, page)) {
			return true
		}
	}
	for page, at := range s.seen {
		if time.Since(at) < lingerTime && (len(pages) == 0 || slices.Contains(pages, page)) {
			return true
		}
	}
	return false
}

// next returns a channel that is closed when there is a new snapshot.
func (s *scanner) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// fresh returns the last snapshot. If that is old, it waits for the next one, for at
// most the given time.
func (s *scanner) fresh(ctx context.Context, wait time.Duration) *snapshot {
	limit := time.After(wait)
	for {
		next := s.next()
		if p := s.current.Load(); p != nil && !p.partial && time.Since(p.at) < p.every+2*time.Second {
			return p
		}
		select {
		case <-next:
		case <-limit:
			return s.last()
		case <-ctx.Done():
			return s.last()
		}
	}
}

// last returns the last snapshot, or an empty one.
func (s *scanner) last() *snapshot {
	if p := s.current.Load(); p != nil {
		return p
	}
	return &snapshot{partial: true}
}

func (s *scanner) publish(p *snapshot) {
	s.current.Store(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scans++
	close(s.changed)
	s.changed = make(chan struct{})
}

// scan takes a snapshot and publishes it. It returns the time between the starts of
// this round and the next.
func (s *scanner) scan(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, scanLimit)
	defer cancel()
	last, start := s.current.Load(), time.Now()
	s.meter.busy.Store(0)
	s.meter.calls.Store(0)
	p := &snapshot{complete: true}
	shown := start
	for lock, err := range s.inspect.Locks(ctx, s.query()) {
		switch {
		case errors.Is(err, inspect.ErrMore):
			p.complete = false
		case err != nil:
			p.err = err
		default:
			p.locks = append(p.locks, newState(lock, time.Now()))
		}
		if last == nil && time.Since(shown) > partly {
			shown = time.Now()
			part := &snapshot{at: shown, locks: slices.Clone(p.locks), partial: true, every: s.options.Every}
			part.index()
			s.publish(part)
		}
	}
	if ctx.Err() != nil {
		return s.options.Every
	}
	s.more(ctx, p, last)
	p.at = time.Now()
	p.took, p.busy = p.at.Sub(start), s.meter.used()
	p.load = load(last, p.busy)
	p.every = max(s.options.Every, share*p.load)
	if last == nil || last.partial || p.err != nil { // a request that fails takes its time, but is no load
		p.every = min(p.every, max(s.options.Every, firstTime))
	}
	s.tune(p)
	switch {
	case p.err == nil:
		p.index()
		s.history.add(last, p)
		p.read, p.limit = p.at, 2*max(p.every, p.took)+lateTime
	case last != nil: // the last list stays until the server answers again
		p.locks, p.byName, p.complete, p.partial = last.locks, last.byName, last.complete, last.partial
		p.read, p.limit, p.failed = last.read, last.limit, last.failed+1
	default:
		p.index()
	}
	if p.failed >= 2 {
		p.limit = 0
	}
	s.publish(p)
	return p.every
}

// tune sets the pauses and steps of the next round. Small steps delay other clients of the
// server less, and large steps need fewer requests. The pauses spread a round over half of
// the time until the next one.
func (s *scanner) tune(p *snapshot) {
	calls := time.Duration(max(s.meter.calls.Load(), 1))
	s.pause = min(max(p.every/2/calls, minPause), maxPause)
	switch own := p.busy / calls; {
	case own > briefCall:
		s.step = max(s.step/2, minStep)
	case own < briefCall/4:
		s.step = min(s.step*2, maxStep)
	}
}

// load returns how long a round uses the servers, on average of the last rounds: one slow
// request is not typical.
func load(last *snapshot, busy time.Duration) time.Duration {
	if last == nil || last.partial {
		return busy
	}
	return (3*last.load + busy) / 4
}

func (s *scanner) query() inspect.Query {
	return inspect.Query{Match: s.options.Match, Limit: s.options.Limit, Keys: s.options.Keys, Pause: s.pause, Step: s.step}
}

// more adds what only some pages show.
func (s *scanner) more(ctx context.Context, p, last *snapshot) {
	if last != nil {
		p.deadlocks, p.deadlocksErr, p.deadlocksAt = last.deadlocks, last.deadlocksErr, last.deadlocksAt
		p.clients, p.clientsErr, p.limiters, p.limitersErr, p.free = last.clients, last.clientsErr, last.limiters, last.limitersErr, last.free
	}
	if p.err != nil {
		return
	}
	if s.viewed("deadlocks") || p.deadlocksAt.IsZero() || time.Since(p.deadlocksAt) > deadlocksEvery {
		p.deadlocks, p.deadlocksErr, p.deadlocksAt = nil, nil, time.Now()
		for d, err := range s.inspect.Deadlocks(ctx, inspect.Query{Keys: s.options.Keys, Pause: s.pause, Step: s.step}) {
			if err != nil {
				p.deadlocksErr = err
				break
			}
			p.deadlocks = append(p.deadlocks, d)
		}
		slices.SortFunc(p.deadlocks, func(a, b inspect.Deadlock) int { return strings.Compare(a.ID, b.ID) })
	}
	if s.viewed("clients") {
		p.clients, p.clientsErr = nil, nil
		for c, err := range s.inspect.Clients(ctx, inspect.Query{Keys: s.options.Keys, Pause: s.pause, Step: s.step}) {
			if err != nil {
				p.clientsErr = err
				break
			}
			p.clients = append(p.clients, c)
		}
	}
	if s.viewed("limits") {
		p.limiters, p.limitersErr = nil, nil
		for l, err := range s.inspect.Limiters(ctx, s.query()) {
			if err != nil {
				p.limitersErr = err
				break
			}
			p.limiters = append(p.limiters, l)
		}
		slices.SortFunc(p.limiters, func(a, b inspect.Limiter) int { return strings.Compare(a.Name, b.Name) })
		p.free = s.permits(ctx, p)
	}
}

// permits returns the number of free permits of semaphores.
func (s *scanner) permits(ctx context.Context, p *snapshot) map[string]int {
	free := make(map[string]int)
	for _, l := range p.locks {
		if l.Kind != inspect.Semaphore || len(free) == manyPermit {
			continue
		}
		start := time.Now()
		n, err := s.client.LeasedSemaphore(l.Name).Available(ctx)
		s.meter.note(start)
		if err == nil {
			free[l.Name] = n
		}
	}
	return free
}
