package faults_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func init() {
	workers["candidate"] = candidateWorker
	workers["observer"] = observerWorker
}

// candidateWorker campaigns again and again, and writes down when it was
// elected, when it was still sure to lead, and when it ended: what, the term and
// the time. It resigns for every line "resign" that it reads, and ends at "quit".
func candidateWorker() {
	c, err := holdfast.Open(context.Background(), os.Getenv("TEST_URL"), &locktest.Steady)
	if err != nil {
		panic(err)
	}
	defer c.Close()
	ctx, quit := context.WithCancel(context.Background())
	resign := make(chan struct{}, 1)
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			if in.Text() == "quit" {
				quit()
				return
			}
			resign <- struct{}{}
		}
	}()
	e := c.Election(os.Getenv("TEST_NAME"))
	for ctx.Err() == nil {
		l, err := e.Campaign(ctx, os.Getenv("TEST_SAID"))
		switch {
		case err == nil:
			govern(ctx, l, resign)
		case ctx.Err() == nil && !errors.Is(err, holdfast.ErrUnavailable) && !errors.Is(err, holdfast.ErrLost):
			panic(err)
		}
	}
}

// govern leads until the lease is lost, or until it is to resign or ctx is done.
func govern(ctx context.Context, l *holdfast.Lease, resign <-chan struct{}) {
	say := func(what string, at int64) { fmt.Println(what, l.Token(), at) }
	say("elected", redistest.Now())
	var said, last int64
	for {
		now := redistest.Now() // before the question: a stop between the two must not count
		if !l.Valid() {
			break
		}
		if last = now; now-said > int64(5*time.Millisecond) {
			say("valid", now)
			said = now
		}
		locktest.Work(time.Millisecond)
		select {
		case <-resign:
		case <-ctx.Done():
		default:
			continue
		}
		say("valid", last)
		say("resigned", redistest.Now())
		if err := l.Release(ctx); err != nil && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrUnavailable) {
			panic(err)
		}
		return
	}
	say("valid", last)
	<-l.Context().Done() // must come on its own
	if !errors.Is(context.Cause(l.Context()), holdfast.ErrLost) {
		panic(context.Cause(l.Context()))
	}
	say("lost", redistest.Now())
}

// observerWorker prints the leaders that it sees: term, time and name.
func observerWorker() {
	c, err := holdfast.Open(context.Background(), os.Getenv("TEST_URL"), &locktest.Steady)
	if err != nil {
		panic(err)
	}
	for l, err := range c.Election(os.Getenv("TEST_NAME")).Observe(context.Background()) {
		if err != nil {
			panic(err)
		}
		fmt.Printf("%d %d %q\n", l.Term, redistest.Now(), l.Name)
	}
}

// A reign is one term, as the candidate has told.
type reign struct {
	term     int64
	by       *candidate
	elected  int64
	first    int64 // when it was first sure to lead; zero: never
	last     int64
	resigned int64 // zero: it did not
	lost     bool
	outlived bool // the fault that ended it, and so it must say that it was lost
}

// A candidate is a process with a link of its own to the server.
type candidate struct {
	*redistest.Process
	link *redistest.Proxy
	said string
}

// A race is an election and all its candidates.
type race struct {
	t       *testing.T
	s       *redistest.Server
	name    string
	made    int // candidates
	elected chan int64
	readers sync.WaitGroup
	mu      sync.Mutex
	reigns  map[int64]*reign // by their terms
}

// start starts a candidate.
func (r *race) start() *candidate {
	r.made++
	c := &candidate{link: redistest.NewProxy(r.t, r.s.Addr()), said: fmt.Sprint("candidate ", r.made)}
	c.Process = redistest.Worker(r.t, "candidate", "TEST_URL="+c.link.URL(), "TEST_NAME="+r.name, "TEST_SAID="+c.said)
	r.readers.Go(func() {
		for line := range c.Lines() {
			r.note(c, line)
		}
	})
	return c
}

func (r *race) note(c *candidate, line string) {
	var what string
	var term, at int64
	if _, err := fmt.Sscan(line, &what, &term, &at); err != nil {
		return // the last line of a killed process may be torn
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if what == "elected" {
		if old := r.reigns[term]; old != nil {
			r.t.Errorf("%s and %s were both elected for term %d", old.by.said, c.said, term)
		}
		r.reigns[term] = &reign{term: term, by: c, elected: at}
		r.elected <- term
		return
	}
	switch g := r.reigns[term]; {
	case g == nil || g.by != c:
		r.t.Errorf("%s: %q without an election", c.said, line)
	case what == "valid":
		g.last = at
		if g.first == 0 {
			g.first = at
		}
	case what == "resigned":
		g.resigned = at
	case what == "lost":
		g.lost = true
	}
}

// next waits for the next election.
func (r *race) next() reign {
	r.t.Helper()
	select {
	case term := <-r.elected:
		r.mu.Lock()
		defer r.mu.Unlock()
		return *r.reigns[term]
	case <-time.After(20 * time.Second):
		r.check() // which may say why
		r.t.Fatal("there is no leader")
		return reign{}
	}
}

// Leaders are killed, stopped and cut off, and resign in between. There are
// never two of them, there is soon another one, and observers see all that.
func TestElectionUnderFaults(t *testing.T) {
	t.Parallel()
	const faults, candidates = 6, 5
	const reigns = 300 * time.Millisecond // how long a term lasts at least
	s := redistest.Start(t)
	r := &race{t: t, s: s, name: locktest.Name(t), elected: make(chan int64, 100), reigns: make(map[int64]*reign)}
	watcher := redistest.Worker(t, "observer", "TEST_URL="+s.URL(), "TEST_NAME="+r.name)
	sights := watch(t, watcher)

	var field []*candidate
	for range candidates {
		field = append(field, r.start())
	}
	var afterFault, afterResign []time.Duration
	leader := r.next()
	var seen []sighting
	rule := func() { // for a while, and until that is seen
		t.Helper()
		locktest.Eventually(t, 10*time.Second, "the leader has led for a while", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			g := r.reigns[leader.term]
			return g.last-g.elected >= int64(reigns)
		})
		seen = append(seen, awaitSight(t, sights, func(s sighting) bool { return s.term == leader.term })...)
	}
	for i := range faults {
		rule()
		what := []string{"killed", "stopped", "cut off"}[i%3]
		end := redistest.Now()
		switch what {
		case "killed":
			leader.by.Kill()
			field[slices.Index(field, leader.by)] = r.start()
		case "stopped":
			leader.by.Pause()
		case "cut off":
			leader.by.link.Freeze()
		}
		next := r.next()
		took := time.Duration(next.elected - end)
		if afterFault = append(afterFault, took); took > locktest.Steady.WatchdogTimeout+locktest.Late {
			t.Errorf("%d: %s in term %d, the next leader came %v later", i, what, leader.term, took)
		}
		switch what {
		case "stopped":
			leader.by.Resume()
		case "cut off":
			leader.by.link.Thaw()
		}
		r.mu.Lock()
		r.reigns[leader.term].outlived = what != "killed"
		r.mu.Unlock()
		leader = next

		rule()
		leader.by.Send("resign")
		next = r.next()
		locktest.Eventually(t, 10*time.Second, "the leader says that it has resigned", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			end = r.reigns[leader.term].resigned
			return end != 0
		})
		took = time.Duration(next.elected - end)
		if afterResign = append(afterResign, took); took > locktest.Late {
			t.Errorf("%d: the next leader came %v after term %d", i, took, leader.term)
		}
		leader = next
	}
	rule()
	// A candidate that resumes this late could see that it must quit before it sees
	// that it has lost.
	locktest.Eventually(t, 10*time.Second, "all candidates that were superseded report that they have lost", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return !slices.ContainsFunc(r.inOrder(), func(g *reign) bool { return g.outlived && !g.lost })
	})
	quit := func(c *candidate) {
		c.Send("quit")
		if err := c.Wait(); err != nil {
			t.Errorf("%s: %v", c.said, err)
		}
	}
	for _, c := range field {
		if c != leader.by {
			quit(c)
		}
	}
	quit(leader.by)
	r.readers.Wait()
	seen = append(seen, awaitSight(t, sights, func(s sighting) bool { return s.term == 0 && s.at >= r.reigns[leader.term].resigned })...)
	if n := len(r.reigns); n != 2*faults+1 {
		t.Errorf("%d terms, want %d: some ended for no reason", n, 2*faults+1)
	}
	r.check()
	r.checkSeen(seen)
	slices.Sort(afterFault)
	slices.Sort(afterResign)
	t.Logf("%d terms; next leader after a fault: %v ... %v, median %v; after a resignation: %v ... %v, median %v, 9 of 10 within %v",
		len(r.reigns), afterFault[0], afterFault[faults-1], locktest.Median(afterFault),
		afterResign[0], afterResign[faults-1], locktest.Median(afterResign), afterResign[faults*9/10-1])
}

// check checks the terms: they rise, and no two are valid at once.
func (r *race) check() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var ivs []redistest.Interval
	var before int64
	for _, g := range r.inOrder() {
		if g.term <= before {
			r.t.Errorf("term %d was elected after term %d", g.term, before)
		}
		before = g.term
		if g.lost != g.outlived {
			r.t.Errorf("term %d: lost %v, want %v", g.term, g.lost, g.outlived)
		}
		if g.first != 0 {
			ivs = append(ivs, redistest.Interval{Name: r.name, Owner: fmt.Sprint(g.by.said, "#", g.term), Enter: g.first, Leave: g.last})
		}
	}
	if err := redistest.CheckExclusive(ivs); err != nil {
		r.t.Error(err)
	}
}

// inOrder returns the terms in the order of their elections.
func (r *race) inOrder() []*reign {
	return slices.SortedFunc(maps.Values(r.reigns), func(a, b *reign) int { return cmp.Compare(a.elected, b.elected) })
}

// checkSeen checks that the observer has seen all terms, in order, each soon
// after it began, and an end after each.
func (r *race) checkSeen(seen []sighting) {
	r.t.Helper()
	at := make(map[int64]int64)
	var before, highest int64 = -1, 0
	for _, s := range seen {
		if s.term == before || s.term != 0 && s.term <= highest {
			r.t.Errorf("saw term %d after %d", s.term, before)
		}
		before, highest = s.term, max(highest, s.term)
		at[s.term] = s.at
		if g := r.reigns[s.term]; s.term != 0 && (g == nil || g.by.said != s.name) {
			r.t.Errorf("saw %q in term %d, when %+v led", s.name, s.term, g)
		}
	}
	var worst time.Duration
	for _, g := range r.inOrder() {
		if when, ok := at[g.term]; ok {
			worst = max(worst, time.Duration(when-g.elected))
		} else {
			r.t.Errorf("term %d lasted for %v and was not seen", g.term, time.Duration(g.last-g.elected))
		}
	}
	if worst > locktest.Late {
		r.t.Errorf("a leader was seen %v after its election", worst)
	}
	r.t.Logf("%d sightings, at most %v after the candidate itself knew", len(seen), worst)
}

// A sighting is the leader that the observer saw, and when.
type sighting struct {
	term, at int64
	name     string
}

// watch returns what an observer writes down.
func watch(t *testing.T, w *redistest.Process) <-chan sighting {
	sights := make(chan sighting, 1000)
	go func() {
		for line := range w.Lines() {
			var s sighting
			if _, err := fmt.Sscanf(line, "%d %d %q", &s.term, &s.at, &s.name); err != nil {
				t.Errorf("observer: %q: %v", line, err)
			}
			sights <- s
		}
	}()
	return sights
}

// awaitSight returns all sightings up to the one that is awaited.
func awaitSight(t *testing.T, sights <-chan sighting, awaited func(sighting) bool) (seen []sighting) {
	t.Helper()
	for {
		select {
		case s := <-sights:
			if seen = append(seen, s); awaited(s) {
				return seen
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("the observer does not see what is there: %v", seen)
		}
	}
}
