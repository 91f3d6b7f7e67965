// Package settle ends what owners may still have at the server: a place in a queue, a lock that no
// call uses any more, or a request that has no answer yet.
//
// A [Settler] sends the release of an owner until the server confirms that nothing is left. A
// confirmation is final only if no earlier request of the owner can still be executed. The time
// since a call gave up says nothing about that: the server may have been silent. So the Settler
// repeats the release until the server has answered each for a while, the grace.
//
// An entry in a queue has no end of its own. A hold ends with its lease. So the Settler stops at
// the end of a lease, but not while there may be an entry or an open request.
package settle

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// Remains say what may exist at the server for an owner.
type Remains struct {
	Entry bool          // it may be in a queue
	Until time.Duration // a hold of the owner ends then, a value of clock.Now
	Open  bool          // a request without an answer may still be executed

	answering time.Duration // when the first request was sent since which the server answers; 0: it does not
}

// Answered notes the answer to a request that was sent at that time. It closes an open request if
// the server has answered all requests for the grace.
func (r *Remains) Answered(sent, grace time.Duration) {
	switch {
	case !r.Open:
	case r.answering == 0:
		r.answering = sent
	case sent-r.answering >= grace:
		r.Open, r.answering = false, 0
	}
}

// Unanswered notes that a request has no answer. It is open only if it can make something exist.
func (r *Remains) Unanswered() { r.answering = 0 }

// An Owner is an owner to settle.
type Owner struct {
	Name     string      // as messages to the client name it; "": no message does
	Free     driver.Call // releases all that the owner has
	Unqueued driver.Call // does the same without the queue, if the server refuses Free; no script: there is no such call
	From     time.Duration
	Remains
	Done func() // called when nothing is left; nil: not

	node     string
	due      time.Duration
	tries    int  // how often the server has refused the call
	unqueued bool // the next request is Unqueued
}

// answered takes in the result of a call sent at that time. It reports whether nothing is left.
func (o *Owner) answered(err error, sent, grace, pause time.Duration) bool {
	now, code := clock.Now(), driver.CodeOf(err)
	switch {
	case err == nil || code == "WRONGTYPE": // released, or the key is no longer a lock
		o.Answered(sent, grace)
		if !o.Open && (!o.unqueued || !o.Entry) {
			return true
		}
		o.unqueued = o.unqueued && !o.Entry // the entry is left
		o.due = now + repeat
		if o.Open {
			o.due = now + min(repeat, max(o.answering+grace-sent, pause))
		}
	case !o.unqueued && o.Unqueued.Script != nil && (code == "NOPERM" || code == "TRYAGAIN"):
		// The user lacks the right to the key of the queue, or the slot is being moved.
		o.unqueued = true
		o.Entry = o.Entry && code != "NOPERM" // it could not queue either
		o.due = now
	case driver.ClassOf(err) == driver.Fatal: // the server refuses until an operator changes something
		o.tries++
		o.due = now + pause<<min(2*o.tries, 6)
	default:
		o.Unanswered()
		o.due = now + pause
	}
	return !o.Entry && !o.Open && now >= o.Until
}

const (
	repeat     = time.Second              // between two releases of an owner with an open request
	maxOwners  = 10_000                   // owners at the same time before those are forgotten that can only be in a queue
	maxSettled = 1000                     // settled owners that are remembered, in case that a late request is executed
	mostAgain  = 100                      // owners that are settled again per second because of messages
	maxCalls   = 500                      // calls that are sent together
	never      = time.Duration(1<<63 - 1) // later than any owner is due
)

// A Settler settles the owners of one client, in the background.
type Settler struct {
	d     driver.Driver
	grace time.Duration // the server must answer for this long before an open request cannot be executed any more
	limit time.Duration // of one request

	mu      sync.Mutex
	pending []*Owner            // in the order in which they are due
	busy    map[string][]*Owner // by node with a request under way: those that are due meanwhile
	sent    int                 // owners in the requests under way
	settled map[string]*Owner   // by name; a request of each was open
	order   []string            // of settled, the oldest first
	again   int                 // how many were settled again since then
	since   time.Duration
	timer   *time.Timer // runs runDue; nil until the first owner
	wakesAt time.Duration
	closed  bool

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// New returns a settler. The limit is that of one request.
func New(d driver.Driver, grace, limit time.Duration) *Settler {
	s := &Settler{d: d, grace: grace, limit: limit, busy: make(map[string][]*Owner), settled: make(map[string]*Owner), wakesAt: never}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Settle settles an owner in the background, or returns false if the settler is closed: see Now.
func (s *Settler) Settle(o *Owner) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if len(s.pending) >= maxOwners && !o.Open && o.Until <= clock.Now() {
		return true
	}
	o.node, o.due = s.d.Place(o.Free.Keys[0]).Node, o.From
	s.push(o)
	return true
}

// push makes an owner pending. The caller holds s.mu.
func (s *Settler) push(o *Owner) {
	i, _ := slices.BinarySearchFunc(s.pending, o.due+1, func(o *Owner, due time.Duration) int { return cmp.Compare(o.due, due) }) // behind those due at the same time
	s.pending = slices.Insert(s.pending, i, o)
	s.wakeBy(o.due)
}

// Again settles an owner once more, to which a message says that it has something. It does so only
// if the owner was settled before, and not for more than some owners per second.
func (s *Settler) Again(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.Now()
	if now-s.since >= time.Second {
		s.since, s.again = now, 0
	}
	o := s.settled[name]
	if o == nil || s.closed || s.again >= mostAgain {
		return
	}
	s.again++
	delete(s.settled, name)
	o.Open, o.answering, o.due = true, 0, now
	s.push(o)
}

// Pending returns how many owners are not settled yet.
func (s *Settler) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.pending) + s.sent
	for _, some := range s.busy {
		n += len(some)
	}
	return n
}

// wakeBy makes sure that runDue runs at that time or earlier. The caller holds s.mu.
func (s *Settler) wakeBy(at time.Duration) {
	if s.closed || at >= s.wakesAt {
		return
	}
	s.wakesAt = at
	if d := max(at-clock.Now(), 0); s.timer == nil {
		s.timer = time.AfterFunc(d, s.runDue)
	} else {
		s.timer.Reset(d)
	}
}

// runDue sends what is due.
func (s *Settler) runDue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	now := clock.Now()
	s.sendDue(now)
	if s.wakesAt = never; len(s.pending) > 0 {
		s.wakeBy(min(s.pending[0].due, now+time.Second)) // timers do not advance while the machine sleeps
	}
}

// sendDue sends the calls that are due, those of each node in one goroutine. The caller holds s.mu.
func (s *Settler) sendDue(now time.Duration) {
	for len(s.pending) > 0 && s.pending[0].due <= now {
		o := s.pending[0]
		s.pending[0], s.pending = nil, s.pending[1:] // so that a settled owner is not kept
		if now >= o.Until && !o.Entry && !o.Open {
			continue // the lease is over
		}
		_, busy := s.busy[o.node]
		s.busy[o.node] = append(s.busy[o.node], o)
		if !busy {
			s.wg.Go(func() { s.sendAll(o.node) })
		}
	}
}

// sendAll sends the calls of a node until none is due.
func (s *Settler) sendAll(node string) {
	for {
		s.mu.Lock()
		some := s.busy[node]
		if len(some) == 0 {
			delete(s.busy, node)
			s.mu.Unlock()
			return
		}
		rest := some[min(len(some), maxCalls):]
		some, s.busy[node] = some[:len(some)-len(rest)], rest
		s.sent += len(some)
		s.mu.Unlock()
		left := s.send(some)
		s.mu.Lock()
		s.sent -= len(some)
		for _, o := range left {
			s.push(o)
		}
		s.mu.Unlock()
	}
}

// send sends the calls of some owners of one node, and returns those that are not settled.
func (s *Settler) send(some []*Owner) (left []*Owner) {
	sent := clock.Now()
	for i, r := range s.ask(s.ctx, s.limit, some) {
		o := some[i]
		open := o.Open
		if !o.answered(r.Err, sent, s.grace, clock.RetryPause(s.limit)) {
			left = append(left, o)
			continue
		}
		if o.Done != nil && r.Err == nil {
			o.Done()
		}
		if open {
			s.remember(o)
		}
	}
	return left
}

// ask sends the calls of some owners of one node, and returns the results.
func (s *Settler) ask(ctx context.Context, limit time.Duration, some []*Owner) []driver.Result {
	calls := make([]driver.Call, len(some))
	for i, o := range some {
		if calls[i] = o.Free; o.unqueued {
			calls[i] = o.Unqueued
		}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return s.d.DoMany(ctx, calls)
}

// remember keeps an owner for Again.
func (s *Settler) remember(o *Owner) {
	if o.Name == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.order) == maxSettled {
		delete(s.settled, s.order[0])
		s.order = s.order[1:]
	}
	s.settled[o.Name] = o
	s.order = append(s.order, o.Name)
}

// Close ends the goroutines, and returns the owners that are not settled.
func (s *Settler) Close() []*Owner {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
	left := s.pending
	for _, some := range s.busy {
		left = append(left, some...)
	}
	s.pending, s.busy = nil, nil
	return left
}

// Now settles owners before it returns, those of each node in one goroutine, for at most limit. One
// confirmation is enough. It returns those that are not confirmed, and the error of one of them.
func (s *Settler) Now(limit time.Duration, all []*Owner) (left []*Owner, err error) {
	nodes := make(map[string][]*Owner)
	for _, o := range all {
		o.Remains, o.tries = Remains{Until: never}, 0
		o.node = s.d.Place(o.Free.Keys[0]).Node
		nodes[o.node] = append(nodes[o.node], o)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, some := range nodes {
		wg.Go(func() {
			rest, why := s.now(clock.Early()+limit, some)
			mu.Lock()
			defer mu.Unlock()
			if len(rest) > 0 {
				left, err = append(left, rest...), why
			}
		})
	}
	wg.Wait()
	return left, err
}

// now settles the owners of one node until that time.
func (s *Settler) now(end time.Duration, all []*Owner) (left []*Owner, err error) {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		var again []*Owner
		var why error
		next := never // when to send the first call again
		for some := range slices.Chunk(all, maxCalls) {
			if why != nil && driver.CodeOf(why) == "" { // the node does not answer
				again = append(again, some...)
				continue
			}
			for i, r := range s.ask(context.Background(), max(end-clock.Early(), time.Millisecond), some) {
				switch o := some[i]; {
				case o.answered(r.Err, 0, 0, pause/2+clock.Random(pause/2)):
				case o.tries > 0: // the server refuses the call
					left, err = append(left, o), r.Err
				default:
					again, why = append(again, o), r.Err
					next = min(next, o.due)
				}
			}
		}
		if len(again) == 0 {
			return left, err
		}
		if clock.Early() >= end {
			return append(left, again...), why
		}
		time.Sleep(next - clock.Now())
		all = again
	}
}
