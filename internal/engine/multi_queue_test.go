package engine

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
)

// slotted is a driver of a cluster: the last letter of a key is its slot.
type slotted struct{ *fake.Driver }

func (d slotted) Place(key string) driver.Place {
	p := d.Driver.Place(key)
	p.Slot = int(key[len(key)-1])
	return p
}

// acrossSlots runs a test in fake time on some engines that share a cluster.
func acrossSlots(t *testing.T, n int, test func(d *fake.Driver, es []*Engine)) {
	t.Helper()
	inSlots(t, n, func(d *fake.Driver) driver.Driver { return slotted{d} }, test)
}

// inOneSlot runs a test in fake time on some engines that share a server.
func inOneSlot(t *testing.T, n int, test func(d *fake.Driver, es []*Engine)) {
	t.Helper()
	inSlots(t, n, func(d *fake.Driver) driver.Driver { return d }, test)
}

func inSlots(t *testing.T, n int, wrap func(*fake.Driver) driver.Driver, test func(d *fake.Driver, es []*Engine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := fake.New()
		var es []*Engine
		for range n {
			es = append(es, New(wrap(d), options))
		}
		test(d, es)
		for _, e := range es {
			e.Close(time.Second)
		}
		if d.Waiting() != 0 || d.Holder("a")+d.Holder("b") != "" {
			t.Errorf("%d owners are left in queues, a is held by %q, b by %q", d.Waiting(), d.Holder("a"), d.Holder("b"))
		}
	})
}

// lock acquires a mutex.
func lock(t *testing.T, e *Engine, name string) *Hold {
	t.Helper()
	h, err := e.Acquire(context.Background(), script.NewMutex(name), forever, new(user))
	if err != nil {
		t.Error(err)
	}
	return h
}

// lockLater starts a call for a mutex. The call has asked when it returns.
func lockLater(t *testing.T, e *Engine, name string) <-chan *Hold {
	t.Helper()
	got := make(chan *Hold, 1)
	go func() { got <- lock(t, e, name) }()
	synctest.Wait()
	return got
}

// A setCall is a call for the locks a and b, and sometimes more.
type setCall struct {
	e     *Engine
	wants []*Want
	done  chan error
}

// lockSet starts a call for a set. The call has asked when it returns.
func lockSet(e *Engine, r Request, more ...string) *setCall {
	s := &setCall{e: e, done: make(chan error, 1)}
	for _, name := range append([]string{"a", "b"}, more...) {
		s.wants = append(s.wants, &Want{Engine: e, Kind: script.NewMutex(name), User: new(user)})
	}
	go func() { s.done <- AcquireAll(context.Background(), s.wants, r) }()
	synctest.Wait()
	return s
}

// granted fails the test if the set is not granted now.
func (s *setCall) granted(t *testing.T) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-s.done:
		if err != nil {
			t.Error(err)
		}
		ReleaseAll(departures(s.wants, true))
	default:
		t.Error("the set is not granted")
		ReleaseAll(departures(s.wants, true))
	}
}

// holds reports whether the client of the set holds a lock, and waits whether it is in the queue of
// the only lock that has one.
func (s *setCall) holds(d *fake.Driver, name string) bool {
	return strings.HasPrefix(d.Holder(name), s.e.owners.id)
}

func (s *setCall) place(d *fake.Driver) int {
	for i, owner := range d.Queue() {
		if strings.HasPrefix(owner, s.e.owners.id) {
			return i + 1
		}
	}
	return 0
}

// A set waits for a lock of one slot in its queue, while it holds another.
func TestSetQueues(t *testing.T) {
	acrossSlots(t, 3, func(d *fake.Driver, es []*Engine) {
		held := lock(t, es[0], "b")
		s := lockSet(es[1], forever)
		next := lockLater(t, es[2], "b")
		if !s.holds(d, "a") || s.place(d) != 1 {
			t.Errorf("a is held by %q, the place for b is %d", d.Holder("a"), s.place(d))
		}
		time.Sleep(100 * time.Millisecond)
		release(t, held)
		s.granted(t)
		release(t, <-next)
	})
}

// A set that waits behind many others keeps the locks that it has while the queue moves.
func TestSetKeepsLocksWhileQueueMoves(t *testing.T) {
	const ahead = 40
	acrossSlots(t, ahead+2, func(d *fake.Driver, es []*Engine) {
		held := lock(t, es[0], "b")
		var next []<-chan *Hold
		for _, e := range es[2:] {
			next = append(next, lockLater(t, e, "b"))
		}
		s := lockSet(es[1], forever)
		for _, n := range next {
			time.Sleep(200 * time.Millisecond)
			release(t, held)
			held = <-n
			if !s.holds(d, "a") {
				t.Fatal("the set has released a")
			}
		}
		release(t, held)
		s.granted(t)
	})
}

// A set that waits for a lock that one owner holds for long releases the others. It keeps its
// place.
func TestSetGivesWayInPlace(t *testing.T) {
	acrossSlots(t, 3, func(d *fake.Driver, es []*Engine) {
		held := lock(t, es[0], "b")
		s := lockSet(es[1], forever)
		next := lockLater(t, es[2], "b")
		time.Sleep(2 * time.Second)
		if d.Holder("a") != "" || s.place(d) != 1 {
			t.Errorf("a is held by %q, the place for b is %d", d.Holder("a"), s.place(d))
		}
		release(t, held)
		s.granted(t)
		release(t, <-next)
	})
}

// A set that has waited for a lock with nothing in hand keeps it while it asks for the others.
func TestSetReleasesOnce(t *testing.T) {
	acrossSlots(t, 2, func(d *fake.Driver, es []*Engine) {
		held := lock(t, es[0], "b")
		s := lockSet(es[1], forever)
		time.Sleep(2 * time.Second)
		before := d.Releases()
		release(t, held)
		s.granted(t)
		if n := d.Releases() - before; n != 3 {
			t.Errorf("%d releases, want one of the other client, and one per lock of the set", n)
		}
	})
}

// Without a queue, too, a set does not keep locks while it waits for long.
func TestSetGivesWayWithoutQueue(t *testing.T) {
	acrossSlots(t, 2, func(d *fake.Driver, es []*Engine) {
		es[1].o.Queue = false
		held := lock(t, es[0], "b")
		s := lockSet(es[1], forever)
		time.Sleep(2 * time.Second)
		if d.Holder("a") != "" || s.place(d) != 0 {
			t.Errorf("a is held by %q, the place for b is %d", d.Holder("a"), s.place(d))
		}
		release(t, held)
		time.Sleep(10 * time.Second)
		s.granted(t)
	})
}

// The wait out of order grows, up to a limit.
func TestOutOfOrderWait(t *testing.T) {
	wants := []*Want{{}, {}}
	o := multiOrder{patience: time.Hour}
	for _, want := range []time.Duration{outOfOrderWait, 4 * outOfOrderWait, 16 * outOfOrderWait, maxPatience, maxPatience} {
		o.start = wants[1]
		_, got := o.arrange([]group{{wants: wants[:1]}, {wants: wants[1:]}})
		if got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// A set that has a lock out of order, and finds another one held, releases it.
func TestSetGivesBackOutOfOrder(t *testing.T) {
	acrossSlots(t, 3, func(d *fake.Driver, es []*Engine) {
		held := lock(t, es[0], "b")
		s := lockSet(es[1], forever)
		time.Sleep(2 * time.Second)
		other := lock(t, es[2], "a")
		release(t, held)
		synctest.Wait()
		if !s.holds(d, "b") {
			t.Errorf("b is held by %q", d.Holder("b"))
		}
		time.Sleep(400 * time.Millisecond)
		if d.Holder("b") != "" || s.place(d) != 1 {
			t.Errorf("b is held by %q, the place for a is %d", d.Holder("b"), s.place(d))
		}
		release(t, other)
		s.granted(t)
	})
}

// A set gets locks that are never free, each of which is held for longer than the set waits at
// first while it holds another one.
func TestSetOfLongHeldLocks(t *testing.T) {
	acrossSlots(t, 7, func(d *fake.Driver, es []*Engine) {
		ctx, cancel := context.WithCancel(context.Background())
		for i, e := range es[1:] {
			go func() {
				k := script.NewMutex([]string{"a", "b"}[i%2])
				for ctx.Err() == nil {
					if h, err := e.Acquire(ctx, k, forever, new(user)); err == nil {
						time.Sleep(7 * time.Second)
						_ = h.Release(nil, true)
					}
				}
			}()
		}
		time.Sleep(time.Second)
		s := lockSet(es[0], Request{Wait: 20 * time.Minute})
		err := <-s.done
		if err != nil {
			t.Error(err)
		}
		ReleaseAll(departures(s.wants, true))
		cancel()
		time.Sleep(10 * time.Second)
	})
}

// Locks of one slot are asked for together. If one of them stays in use, the call waits in its
// queue, and holds nothing.
func TestGroupQueuesForItsBlocker(t *testing.T) {
	inOneSlot(t, 3, func(d *fake.Driver, es []*Engine) {
		held := lock(t, es[0], "b")
		s := lockSet(es[1], forever)
		time.Sleep(groupTime / 2)
		if n := d.Waiting(); n != 0 {
			t.Errorf("%d owners are in the queue at first", n)
		}
		time.Sleep(groupTime)
		next := lockLater(t, es[2], "b")
		if d.Holder("a") != "" || s.place(d) != 1 {
			t.Errorf("a is held by %q, the place for b is %d", d.Holder("a"), s.place(d))
		}
		time.Sleep(10 * time.Second)
		if d.Holder("a") != "" {
			t.Errorf("a is held by %q", d.Holder("a"))
		}
		release(t, held)
		s.granted(t)
		release(t, <-next)
	})
}

// If several locks of one slot are in use, the call takes one after the other and keeps those that
// it has.
func TestGroupQueuesForEach(t *testing.T) {
	inOneSlot(t, 4, func(d *fake.Driver, es []*Engine) {
		one, two := lock(t, es[0], "a"), lock(t, es[2], "b")
		s := lockSet(es[1], forever)
		time.Sleep(2 * groupTime) // it queues for a
		release(t, one)
		synctest.Wait()
		if !s.holds(d, "a") {
			t.Errorf("a is held by %q", d.Holder("a"))
		}
		time.Sleep(2 * groupTime)
		next := lockLater(t, es[3], "b")
		if !s.holds(d, "a") || s.place(d) != 1 {
			t.Errorf("a is held by %q, the place for b is %d", d.Holder("a"), s.place(d))
		}
		release(t, two)
		s.granted(t)
		release(t, <-next)
	})
}

// If several locks of one slot are in use besides the one that the call has queued for, it takes
// one after the other.
func TestGroupOfThreeQueuesForEach(t *testing.T) {
	inOneSlot(t, 5, func(d *fake.Driver, es []*Engine) {
		one, two, three := lock(t, es[0], "a"), lock(t, es[2], "b"), lock(t, es[3], "c")
		s := lockSet(es[1], forever, "c")
		time.Sleep(2 * groupTime)
		release(t, one) // now it queues for b
		time.Sleep(2 * groupTime)
		release(t, two)
		time.Sleep(2 * groupTime)
		next := lockLater(t, es[4], "c")
		if !s.holds(d, "a") || !s.holds(d, "b") || s.place(d) != 1 {
			t.Errorf("a is held by %q, b by %q, the place for c is %d", d.Holder("a"), d.Holder("b"), s.place(d))
		}
		release(t, three)
		s.granted(t)
		release(t, <-next)
	})
}

// While a call of a process queues for the locks of a group, the other calls for the same group
// wait for their turn in the process.
func TestGroupQueuesOnce(t *testing.T) {
	inOneSlot(t, 2, func(d *fake.Driver, es []*Engine) {
		held := lock(t, es[0], "b")
		var calls []*setCall
		for range 5 {
			calls = append(calls, lockSet(es[1], forever))
		}
		time.Sleep(4 * groupTime)
		if n := d.Waiting(); n != 1 {
			t.Errorf("%d owners are in the queue", n)
		}
		release(t, held)
		for _, s := range calls {
			synctest.Wait()
			s.granted(t)
		}
	})
}

// A call that has divided a part of its set does not keep others of its process from that part.
func TestGroupLeavesPartsToOthers(t *testing.T) {
	inOneSlot(t, 3, func(d *fake.Driver, es []*Engine) {
		one, two := lock(t, es[0], "a"), lock(t, es[2], "b")
		s := lockSet(es[1], forever, "c")
		time.Sleep(2 * groupTime)
		release(t, one) // it has a, and then divides b and c
		time.Sleep(2 * groupTime)
		one = lockAfter(t, es[0], "a", 5*time.Second) // it gives a back, since b is held for long
		part := &setCall{e: es[1], done: make(chan error, 1)}
		for _, name := range []string{"b", "c"} {
			part.wants = append(part.wants, &Want{Engine: es[1], Kind: script.NewMutex(name), User: new(user)})
		}
		go func() { part.done <- AcquireAll(context.Background(), part.wants, Request{Wait: 10 * time.Second}) }()
		time.Sleep(time.Second)
		release(t, two)
		time.Sleep(2 * time.Second) // the set has had b, has not got a, and waits for it
		part.granted(t)
		release(t, one)
		s.granted(t)
	})
}

// lockAfter waits, and acquires a mutex that is free then.
func lockAfter(t *testing.T, e *Engine, name string, d time.Duration) *Hold {
	t.Helper()
	time.Sleep(d)
	return lock(t, e, name)
}

// A set with a limit leaves the queue in time, and keeps nothing.
func TestSetLeavesQueue(t *testing.T) {
	for name, in := range map[string]func(*testing.T, int, func(*fake.Driver, []*Engine)){"slots": acrossSlots, "one slot": inOneSlot} {
		for _, wait := range []time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second} {
			t.Run(name+" "+wait.String(), func(t *testing.T) {
				in(t, 2, func(d *fake.Driver, es []*Engine) {
					held := lock(t, es[0], "b")
					began := time.Now()
					s := lockSet(es[1], Request{Wait: wait})
					if err := <-s.done; err == nil || time.Since(began) != wait {
						t.Errorf("after %v: %v", time.Since(began), err)
					}
					if d.Waiting() != 0 || d.Holder("a") != "" {
						t.Errorf("%d owners are in the queue, a is held by %q", d.Waiting(), d.Holder("a"))
					}
					release(t, held)
				})
			})
		}
	}
}
