package holdfast_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// deadAfter bounds how long those who died at the head of a queue keep the next
// one waiting: three seconds without a sign of life, and one until the next
// look. The rest is for a busy machine.
const deadAfter = 4*time.Second + late

// owners returns who was in, one after the other.
func owners(tb testing.TB, ivs []redistest.Interval) []string {
	tb.Helper()
	if err := redistest.CheckExclusive(ivs); err != nil {
		tb.Error(err)
	}
	slices.SortFunc(ivs, func(a, b redistest.Interval) int { return cmp.Compare(a.Enter, b.Enter) })
	all := make([]string, len(ivs))
	for i, iv := range ivs {
		all[i] = iv.Owner
	}
	return all
}

// wantOrder checks that those who came to the server got in, in that order.
func wantOrder(tb testing.TB, came, got []string) {
	tb.Helper()
	for i := range min(len(came), len(got)) {
		if came[i] != got[i] {
			tb.Errorf("number %d in the queue was %s, number %d to get in was %s", i, came[i], i, got[i])
			break
		}
	}
	if len(came) != len(got) {
		tb.Errorf("%d waited and %d got in", len(came), len(got))
	}
}

// Whatever process they are in, those who wait get in as they have come to the
// server.
func TestFIFOAcrossProcesses(t *testing.T) {
	t.Parallel()
	const processes, waiters = 4, 50
	s := redistest.Shared(t)
	n := name(t)
	l := lock(t, t.Context(), open(t, s.URL()).FairMutex(n))
	ws := []*redistest.Process{enqueueProcess(t, s, n, waiters)}
	before := queue(t, s, n)
	for range processes - 1 { // at the same time, so that they mix
		ws = append(ws, redistest.Worker(t, "queue", "TEST_URL="+s.URL(), "TEST_NAME="+n, fmt.Sprint("TEST_WAITERS=", waiters)))
	}
	came := queued(t, s, n, processes*waiters)
	if !slices.Equal(came[:waiters], before) {
		t.Error("somebody has come before those who waited")
	}
	release(t, l)
	var ivs []redistest.Interval
	for _, w := range ws {
		ivs = append(ivs, visits(t, w)...)
	}
	wantOrder(t, came, owners(t, ivs))
	wantNoQueue(t, s, n)
}

// Those who give up cost nobody his place, whether the lock is held or going
// from hand to hand at that moment.
func TestThousandCancelled(t *testing.T) {
	redistest.CheckGoroutines(t)
	keen, moody := often(200), often(1000)
	s := redistest.Fresh(t)
	n := name(t)
	first := lock(t, t.Context(), open(t, enduring(s.URL())).FairMutex(n))
	var cs [4]*holdfast.Client
	for i := range cs {
		cs[i] = open(t, enduring(s.URL()))
	}
	var (
		order   []string // guarded by the lock under test
		entered int      // of the keen ones
		wg      sync.WaitGroup
		cancels []context.CancelFunc
	)
	for _, i := range rand.Perm(keen + moody) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if i >= keen {
			cancels = append(cancels, cancel)
		}
		wg.Go(func() {
			l, err := cs[i%len(cs)].FairMutex(n).Lock(ctx)
			if err != nil {
				if i < keen || !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				return
			}
			order = append(order, l.Owner())
			if i < keen {
				entered++
			}
			time.Sleep(time.Millisecond)
			if err := l.Release(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	came := queued(t, s, n, keen+moody)
	rand.Shuffle(len(cancels), func(i, j int) { cancels[i], cancels[j] = cancels[j], cancels[i] })

	for _, cancel := range cancels[:moody/2] {
		cancel()
	}
	stayed := queued(t, s, n, keen+moody/2)
	if !subsequence(stayed, came) {
		t.Error("the order has changed while others gave up")
	}
	release(t, first)
	for _, cancel := range cancels[moody/2:] {
		cancel()
		time.Sleep(rand.N(time.Millisecond))
	}
	wg.Wait()
	if !subsequence(order, stayed) {
		t.Error("the order of entry is not that of arrival")
	}
	if entered != keen {
		t.Errorf("%d of %d who did not give up got in", entered, keen)
	}
	t.Logf("%d of %d who gave up got in before that", len(order)-keen, moody)
	wantNoQueue(t, s, n)
	eventually(t, 5*time.Second, "no key and no channel is left", func() bool {
		return len(s.Keys(t)) == 0 && len(s.Channels(t)) == 0
	})
	for _, c := range cs {
		_ = c.Close()
	}
}

// subsequence reports whether part is what is left of whole without some.
func subsequence(part, whole []string) bool {
	for _, w := range whole {
		if len(part) > 0 && part[0] == w {
			part = part[1:]
		}
	}
	return len(part) == 0
}

// heardOut waits until the server has read the last words of processes that do
// not run any more: after a release they would be granted the lock.
func heardOut(tb testing.TB, s *redistest.Server) {
	tb.Helper()
	time.Sleep(100 * time.Millisecond)
	for range 2 { // what was there when it read the first has been read before the second
		s.Do(tb, "PING")
	}
}

// Processes that die at the head of the queue, several of them in a row, do not
// hold up those behind for long.
func TestKilledWaiters(t *testing.T) {
	t.Parallel()
	for when, harm := range map[string]func(t *testing.T, s *redistest.Server, ws []*redistest.Process, free func()){
		"before the release": func(t *testing.T, s *redistest.Server, ws []*redistest.Process, free func()) {
			for _, w := range ws {
				w.Kill()
			}
			heardOut(t, s)
			free()
		},
		"long before it": func(t *testing.T, s *redistest.Server, ws []*redistest.Process, free func()) {
			for _, w := range ws {
				w.Kill()
			}
			time.Sleep(4 * time.Second)
			heardOut(t, s)
			free()
		},
		"one after the other": func(t *testing.T, s *redistest.Server, ws []*redistest.Process, free func()) {
			for _, w := range ws {
				w.Pause() // would otherwise get in before it is killed
			}
			heardOut(t, s)
			free()
			for _, w := range ws {
				w.Kill()
				time.Sleep(500 * time.Millisecond)
			}
		},
	} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			n := name(t)
			l := lock(t, t.Context(), open(t, s.URL()).FairMutex(n))
			var ws []*redistest.Process
			for range 3 {
				ws = append(ws, enqueueProcess(t, s, n, 2))
			}
			a, b := open(t, s.URL()), open(t, s.URL())
			next := []place{
				enqueue(t, t.Context(), s, a.FairMutex(n)),
				enqueue(t, t.Context(), s, b.FairMutex(n)),
				enqueue(t, t.Context(), s, a.FairMutex(n)),
			}
			var freed time.Time
			harm(t, s, ws, func() {
				freed = time.Now()
				release(t, l)
			})
			first := <-next[0].got
			if first.err != nil {
				t.Fatal(first.err)
			}
			took := time.Since(freed)
			if took > deadAfter {
				t.Errorf("six dead ones have kept the next one waiting for %v", took)
			}
			t.Logf("the next one got in after %v", took)
			release(t, first.lease)
			inOrder(t, next[1:]...)
			wantNoQueue(t, s, n)
		})
	}
}

// A process that stands still at the head of the queue is passed over. When it
// goes on it has to queue again, and gets in.
func TestStoppedWaiter(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	n := name(t)
	l := lock(t, t.Context(), open(t, s.URL()).FairMutex(n))
	w := enqueueProcess(t, s, n, 2)
	c := open(t, s.URL())
	next := enqueue(t, t.Context(), s, c.FairMutex(n))
	w.Pause()
	heardOut(t, s)
	freed := time.Now()
	release(t, l)
	l = enteredPastDead(t, next.got)
	if took := time.Since(freed); took > deadAfter {
		t.Errorf("the stopped process has kept the next one waiting for %v", took)
	}
	w.Resume()
	queued(t, s, n, 2)
	passed := redistest.Now()
	release(t, l)
	ivs := visits(t, w)
	if err := w.Wait(); err != nil || len(ivs) != 2 {
		t.Errorf("the stopped process was in %d times and ended with %v", len(ivs), err)
	}
	for _, iv := range ivs {
		if iv.Enter < passed {
			t.Error("the stopped process was in beside the next one")
		}
	}
	wantNoQueue(t, s, n)
}

// Nobody who lives loses his place, however long he waits. Redisson's deadlines
// would have passed long ago if nobody moved them on.
func TestLiveWaitersKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := name(t)
	cs := []*holdfast.Client{open(t, s.URL()), open(t, s.URL()), open(t, s.URL()), open(t, s.URL())}
	l := lock(t, t.Context(), open(t, s.URL(), steady).FairMutex(n))
	var places []place
	for i := range 20 {
		places = append(places, enqueue(t, t.Context(), s, cs[i%len(cs)].FairMutex(n)))
	}
	for range 24 { // twelve seconds: more than the slack of ten
		time.Sleep(500 * time.Millisecond)
		wantQueue(t, s, n, places...)
		wantDeadlines(t, s, n, steady.WatchdogTimeout)
	}
	release(t, l)
	inOrder(t, places...)
	wantNoQueue(t, s, n)
}

// A waiter that could not be heard of for a while keeps its place, unless it
// was its turn: then it has to queue again.
func TestFrozenWaiter(t *testing.T) {
	t.Parallel()
	const silence = 4500 * time.Millisecond
	setup := func(t *testing.T, frozen int) (*redistest.Server, *redistest.Proxy, *holdfast.Lease, []place) {
		t.Helper()
		s := redistest.Start(t)
		p := redistest.NewProxy(t, s.Addr())
		n := name(t)
		l := lock(t, t.Context(), open(t, s.URL()).FairMutex(n))
		var places []place
		for i := range 4 {
			url := s.URL()
			if i == frozen {
				url = p.URL()
			}
			places = append(places, enqueue(t, t.Context(), s, open(t, url).FairMutex(n)))
		}
		return s, p, l, places
	}
	t.Run("in the middle", func(t *testing.T) {
		t.Parallel()
		s, p, l, places := setup(t, 2)
		p.Freeze()
		time.Sleep(silence)
		wantQueue(t, s, l.Name(), places...)
		p.Thaw()
		time.Sleep(1500 * time.Millisecond)
		wantQueue(t, s, l.Name(), places...)
		release(t, l)
		inOrder(t, places...)
		wantNoQueue(t, s, l.Name())
	})
	t.Run("at the head", func(t *testing.T) {
		t.Parallel()
		s, p, l, places := setup(t, 0)
		p.Freeze()
		time.Sleep(silence)
		queued(t, s, l.Name(), 3) // by now, unless the machine stood still
		wantQueue(t, s, l.Name(), places[1:]...)
		p.Thaw()
		queued(t, s, l.Name(), 4)
		places = append(places[1:], places[0])
		wantQueue(t, s, l.Name(), places...)
		release(t, l)
		inOrder(t, places...)
		wantNoQueue(t, s, l.Name())
	})
}

// The server or the way to it stands still for a time that is more than a sign
// of life lasts for those who gave it first, and less for the others. These
// must not take the former for dead.
func TestShortPause(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{2200, 2450, 2700, 2950} {
		pause *= time.Millisecond
		t.Run(pause.String(), func(t *testing.T) {
			t.Parallel()
			pausedServer(t, pause, false)
		})
	}
}

// Without any message, a lock is handed over at the next sign of life.
func TestFairWithoutMessages(t *testing.T) {
	t.Parallel()
	const beat = time.Second
	for fault, harm := range map[string]func(*testing.T, *redistest.Server, *redistest.Proxy){
		"messages dropped": func(_ *testing.T, _ *redistest.Server, p *redistest.Proxy) { p.DropMessages(true) },
		"subscriptions killed": func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) {
			s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := redistest.NewProxy(t, s.Addr())
			n := name(t)
			l := lock(t, t.Context(), open(t, s.URL()).FairMutex(n))
			var places []place
			for range 5 {
				places = append(places, enqueue(t, t.Context(), s, open(t, p.URL()).FairMutex(n)))
				time.Sleep(150 * time.Millisecond) // so that they look at different times
			}
			eventually(t, 5*time.Second, "all have subscribed", func() bool { return len(s.Channels(t)) == len(places) })
			harm(t, s, p)
			for i, place := range places {
				start := time.Now()
				release(t, l)
				l = entered(t, place.got)
				if took := time.Since(start); took > beat+late {
					t.Errorf("number %d got in after %v", i, took)
				}
				if l.Owner() != place.owner {
					t.Errorf("number %d in the queue was %s, and is %s", i, place.owner, l.Owner())
				}
			}
			release(t, l)
			wantNoQueue(t, s, n)
		})
	}
}

// The queue is gone with the server's memory. Everybody gets in, if in another
// order.
func TestFairRestartedEmpty(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	n := name(t)
	const waiters = 30
	l := lock(t, t.Context(), open(t, s.URL()).FairMutex(n))
	cs := []*holdfast.Client{open(t, s.URL()), open(t, s.URL()), open(t, s.URL())}
	sec := newSection(n)
	var wg sync.WaitGroup
	for i := range waiters {
		wg.Go(func() {
			l, err := cs[i%len(cs)].FairMutex(n).Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			sec.visit(l, 2*time.Millisecond)
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	queued(t, s, n, waiters)
	s.Restart()
	start := time.Now()
	wg.Wait()
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("all were in after %v", took)
	}
	_ = l.Release(t.Context()) // has nothing to release
	sec.check(t, waiters)
	wantNoQueue(t, s, n)
}

// executed returns how many commands the server has run, scripts and what they
// consist of.
func executed(t *testing.T, s *redistest.Server) (scripts, all int) {
	t.Helper()
	text, _ := s.Do(t, "INFO", "commandstats").(string)
	for line := range strings.SplitSeq(text, "\r\n") {
		name, stats, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		number, _, _ := strings.Cut(stats, ",")
		n, _ := strconv.Atoi(number)
		switch name {
		case "info", "config|resetstat", "llen", "exists":
			continue // our own
		case "evalsha", "eval":
			scripts += n
		}
		all += n
	}
	return scripts, all
}

// A hand-over costs the server the same, however many wait.
func TestHandOverCost(t *testing.T) {
	t.Parallel()
	cost := func(waiters int) (scripts, all float64) {
		s := redistest.Start(t)
		n := name(t)
		l := lock(t, t.Context(), open(t, s.URL()).FairMutex(n))
		cs := []*holdfast.Client{open(t, s.URL()), open(t, s.URL())}
		var wg sync.WaitGroup
		for i := range waiters {
			wg.Go(func() {
				l, err := cs[i%len(cs)].FairMutex(n).Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if err := l.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		queued(t, s, n, waiters)
		eventually(t, 10*time.Second, "all have subscribed", func() bool { return len(s.Channels(t)) == waiters })
		s.Do(t, "CONFIG", "RESETSTAT")
		start := time.Now()
		release(t, l)
		wg.Wait()
		took := time.Since(start)
		a, b := executed(t, s)
		// Those who wait give a sign of life every second, which is not the
		// price of a hand-over.
		signs := float64(waiters) * took.Seconds() / 2
		t.Logf("%d hand-overs in %v: %d scripts, %d commands, up to %.0f signs of life", waiters, took, a, b, signs)
		return (float64(a) - signs) / float64(waiters), (float64(b) - 9*signs) / float64(waiters)
	}
	for _, waiters := range []int{10, 200} {
		scripts, all := cost(waiters)
		if scripts > 5 || all > 60 {
			t.Errorf("with %d waiters, a hand-over costs %.1f scripts and %.1f commands", waiters, scripts, all)
		}
	}
}

// While the one whose turn it is stays away, the others wait and do not spin.
func TestDeadHeadCost(t *testing.T) {
	t.Parallel()
	const waiters, watch = 20, 2 * time.Second
	s := redistest.Start(t)
	n := name(t)
	l := lock(t, t.Context(), open(t, s.URL()).FairMutex(n))
	w := enqueueProcess(t, s, n, 1)
	c := open(t, s.URL())
	var places []place
	for range waiters {
		places = append(places, enqueue(t, t.Context(), s, c.FairMutex(n)))
	}
	w.Kill()
	heardOut(t, s)
	release(t, l)
	start := time.Now()
	s.Do(t, "CONFIG", "RESETSTAT")
	time.Sleep(watch)
	scripts, _ := executed(t, s)
	took := time.Since(start) // on a busy machine more than that
	// One for each second, one for when the dead one's time is over, and one
	// for what may have been under way.
	if float64(scripts) > waiters*(took.Seconds()+2) {
		t.Errorf("%d scripts in %v for %d waiters", scripts, took, waiters)
	} else {
		t.Logf("%d scripts in %v for %d waiters", scripts, took, waiters)
	}
	inOrder(t, places...)
	wantNoQueue(t, s, n)
}

// fairRig is a rig for a fair mutex that somebody else holds.
func fairRig(t *testing.T) (r *rig, holder *holdfast.Lease) {
	t.Helper()
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.letter == "F" })
	r = newRigOf(t, kinds[i])
	return r, lock(t, t.Context(), open(t, r.s.URL()).FairMutex("rig"))
}

// The reply to the request that queues is lost: the next one does not queue
// again.
func TestEnqueueReplyLost(t *testing.T) {
	t.Parallel()
	r, holder := fairRig(t)
	before := enqueue(t, t.Context(), r.s, open(t, r.s.URL()).FairMutex("rig"))
	dropped := r.dropNext()
	lost := enqueue(t, t.Context(), r.s, r.m)
	after := enqueue(t, t.Context(), r.s, open(t, r.s.URL()).FairMutex("rig"))
	<-dropped
	for range 3 { // signs of life
		<-r.dropNext()
		wantQueue(t, r.s, "rig", before, lost, after)
	}
	release(t, holder)
	inOrder(t, before, lost, after)
	wantNoQueue(t, r.s, "rig")
}

// The reply to the request that was granted is lost: the next one finds that
// it was, and nobody is in the queue who holds the lock.
func TestGrantReplyLost(t *testing.T) {
	t.Parallel()
	r, holder := fairRig(t)
	lost := enqueue(t, t.Context(), r.s, r.m)
	after := enqueue(t, t.Context(), r.s, open(t, r.s.URL()).FairMutex("rig"))
	eventually(t, 5*time.Second, "both have subscribed", func() bool { return len(r.s.Channels(t)) == 2 })
	time.Sleep(100 * time.Millisecond) // until it has looked once more
	dropped := r.dropNext()
	release(t, holder)
	<-dropped
	eventually(t, 10*time.Second, "the lock is taken", func() bool { return r.s.Int(t, "HEXISTS", "rig", lost.owner) == 1 })
	wantQueue(t, r.s, "rig", after)
	inOrder(t, lost, after)
	wantNoQueue(t, r.s, "rig")
	r.has(t, "[]")
}

// The reply to the release is lost: the lock goes to the next one once.
func TestFairReleaseReplyLost(t *testing.T) {
	t.Parallel()
	r, holder := fairRig(t)
	stalls := redistest.MeterStalls(t, r.s)
	release(t, holder)
	l := lock(t, t.Context(), r.m)
	c := open(t, r.s.URL())
	next := enqueue(t, t.Context(), r.s, c.FairMutex("rig"))
	after := enqueue(t, t.Context(), r.s, c.FairMutex("rig"))
	dropped := r.dropNext()
	releaseUnheard(t, stalls, l)
	<-dropped
	got := entered(t, next.got)
	r.has(t, fmt.Sprintf("[%s 1]", next.owner))
	wantQueue(t, r.s, "rig", after)
	release(t, got)
	inOrder(t, after)
	wantNoQueue(t, r.s, "rig")
}

// The reply to a request that leaves the queue is lost, or the request is: the
// queue is left all the same, and the others go on.
func TestGiveUpReplyLost(t *testing.T) {
	t.Parallel()
	for fault, harm := range map[string]func(*rig) (mend func()){
		"reply": func(r *rig) func() {
			dropped := r.dropNext()
			return func() { <-dropped }
		},
		"request": func(r *rig) func() {
			r.p.Refuse(true)
			r.p.Cut()
			return func() { r.p.Refuse(false) }
		},
		"late": func(r *rig) func() {
			r.p.Freeze()
			return r.p.Thaw
		},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			r, holder := fairRig(t)
			c := open(t, r.s.URL())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			before := enqueue(t, t.Context(), r.s, c.FairMutex("rig"))
			lost := enqueue(t, ctx, r.s, r.m)
			after := enqueue(t, t.Context(), r.s, c.FairMutex("rig"))
			time.Sleep(100 * time.Millisecond) // until it has looked once more
			mend := harm(r)
			start := time.Now()
			cancel()
			if err := await(t, lost.got).err; !errors.Is(err, context.Canceled) {
				t.Errorf("gave up with %v", err)
			}
			if took := time.Since(start); took > 2*late { // a moment for the answer included
				t.Errorf("gave up after %v", took)
			}
			mend()
			eventually(t, 10*time.Second, "the queue is left", func() bool { return len(queue(t, r.s, "rig")) == 2 })
			wantQueue(t, r.s, "rig", before, after)
			release(t, holder)
			inOrder(t, before, after)
			wantNoQueue(t, r.s, "rig")
			time.Sleep(3 * time.Second) // when what was in doubt is undone once more
			eventually(t, late, "no key is left", func() bool { return len(r.s.Keys(t)) == 0 })
		})
	}
}

// Some Redisson calls lower the deadlines of all who wait, by more than there
// was. Who gives signs of life keeps his place all the same.
func TestLoweredDeadlines(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := name(t)
	l := lock(t, t.Context(), open(t, s.URL()).FairMutex(n))
	c := open(t, s.URL())
	places := []place{enqueue(t, t.Context(), s, c.FairMutex(n)), enqueue(t, t.Context(), s, c.FairMutex(n))}
	time.Sleep(100 * time.Millisecond)
	for _, p := range places {
		s.Do(t, "ZINCRBY", deadlinesKey(n), "-300000", p.owner)
	}
	start := time.Now()
	release(t, l)
	l = entered(t, places[0].got)
	if took := time.Since(start); took > late {
		t.Errorf("the first one got in after %v, want at once", took)
	}
	wantQueue(t, s, n, places[1])
	release(t, l)
	inOrder(t, places[1])
	wantNoQueue(t, s, n)
}

// A waiter behind a dead one gets in, also on a line that is so slow that it is
// itself too late with every sign of life.
func TestSlowWaiterBehindDead(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	n := name(t)
	l := lock(t, t.Context(), open(t, s.URL()).FairMutex(n))
	w := enqueueProcess(t, s, n, 1)
	slow := enqueue(t, t.Context(), s, open(t, p.URL()+"?timeout=20s").FairMutex(n))
	p.Delay(2500 * time.Millisecond)
	w.Kill()
	heardOut(t, s)
	release(t, l)
	select {
	case o := <-slow.got:
		if o.err != nil {
			t.Fatal(o.err)
		}
		p.Delay(0)
		release(t, o.lease)
	case <-time.After(25 * time.Second):
		t.Errorf("still waiting behind a dead one: the queue is %q", queue(t, s, n))
		p.Delay(0)
	}
}

// Without subscriptions, and looking as seldom as it likes, a waiter keeps its
// place and gets in.
func TestFairPoll(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	n := name(t)
	l := lock(t, t.Context(), open(t, s.URL()).FairMutex(n))
	lazy := holdfast.Poll(holdfast.Backoff{Initial: time.Minute, Max: time.Minute})
	var places []place
	for range 3 {
		places = append(places, enqueue(t, t.Context(), s, open(t, s.URL()).FairMutex(n, lazy)))
	}
	time.Sleep(4 * time.Second) // more than a sign of life lasts
	wantQueue(t, s, n, places...)
	if chs := s.Channels(t); len(chs) > 0 {
		t.Errorf("subscribed to %q", chs)
	}
	release(t, l)
	inOrder(t, places...)
	wantNoQueue(t, s, n)
}

// A server that is out of memory turns newcomers away, and lets those who wait
// keep their places.
func TestFairOutOfMemory(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	n := name(t)
	c := open(t, s.URL())
	l := lock(t, t.Context(), c.FairMutex(n))
	inner := lock(t, l.Context(), c.FairMutex(n))
	p := enqueue(t, t.Context(), s, c.FairMutex(n))
	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	if _, err := c.FairMutex(n).Lock(t.Context()); !errors.Is(err, holdfast.ErrRefused) {
		t.Errorf("a newcomer got %v, want ErrRefused", err)
	}
	time.Sleep(4 * time.Second) // more than a sign of life lasts
	wantQueue(t, s, n, p)
	release(t, inner)
	release(t, l)
	release(t, entered(t, p.got))
	wantNoQueue(t, s, n)
	if keys := s.Keys(t); len(keys) > 0 {
		t.Errorf("keys left: %q", keys)
	}
}

// A Mutex and a FairMutex by one name exclude each other.
func TestFairBesidePlain(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := open(t, s.URL())
	n := name(t)
	plain, fair := c.Mutex(n), c.FairMutex(n)
	l := lock(t, t.Context(), plain)
	wantRefused(t, fair)
	p := enqueue(t, t.Context(), s, fair)
	release(t, l)
	l = entered(t, p.got)
	wantRefused(t, plain)
	release(t, l)
	wantFree(t, plain)
	wantNoQueue(t, s, n)
}

// Closing a client turns its waiters away and takes them out of the queue.
func TestFairClose(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Shared(t)
	n := name(t)
	other := open(t, s.URL())
	l := lock(t, t.Context(), other.FairMutex(n))
	c := open(t, s.URL())
	var closed []place
	for range 20 {
		closed = append(closed, enqueue(t, t.Context(), s, c.FairMutex(n)))
	}
	last := enqueue(t, t.Context(), s, other.FairMutex(n))
	start := time.Now()
	_ = c.Close()
	if took := time.Since(start); took > late {
		t.Errorf("Close took %v", took)
	}
	for _, p := range closed {
		if err := await(t, p.got).err; !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("a waiter was turned away with %v, want ErrClosed", err)
		}
	}
	wantQueue(t, s, n, last)
	release(t, l)
	inOrder(t, last)
	wantNoQueue(t, s, n)
	_ = other.Close()
}

// Who gives up while the server cannot be reached leaves the queue when it can,
// however short the lease would have been.
func TestGiveUpDuringOutage(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	n := name(t)
	held := lock(t, t.Context(), open(t, s.URL()).FairMutex(n))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := enqueue(t, ctx, s, open(t, p.URL()).FairMutex(n), holdfast.LeaseTime(50*time.Millisecond))
	p.Freeze()
	cancel()
	if o := await(t, w.got); !errors.Is(o.err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", o.err)
	}
	time.Sleep(100 * time.Millisecond)
	p.Cut() // what was sent is gone
	p.Thaw()
	wantNoQueue(t, s, n)
	release(t, held)
}
