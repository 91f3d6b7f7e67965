package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A stage is a driver whose calls to take a read lock the test can hold up and spoil.
type stage struct {
	driver.Driver
	takes atomic.Int32
	enter func(n int32) error // called for the n-th such call, before it is sent
	leave func(n int32) error // the same, after it was answered
	pass  func()              // called before a release is sent
}

func (s *stage) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	if c.Script.Name == "rwmutex_read_grant" && s.pass != nil {
		s.pass()
	}
	if c.Script.Name != "rwmutex_read_acquire" {
		return s.Driver.Do(ctx, c)
	}
	n := s.takes.Add(1)
	if s.enter != nil {
		if err := s.enter(n); err != nil {
			return driver.Reply{}, err
		}
	}
	r, err := s.Driver.Do(ctx, c)
	if s.leave != nil && err == nil {
		err = s.leave(n)
	}
	return r, err
}

// holdUpFirst returns a stage on which the first call waits until goOn is closed. Then it is
// sent, or fails with that error.
func holdUpFirst(err error) (st *stage, asked, goOn chan struct{}) {
	asked, goOn = make(chan struct{}), make(chan struct{})
	return &stage{enter: func(n int32) error {
		if n > 1 {
			return nil
		}
		close(asked)
		<-goOn
		return err
	}}, asked, goOn
}

// alwaysShare lets readers join a hold for longer than a test takes.
var alwaysShare = holdfast.Options{HandoffTime: time.Hour}

// openStage returns a client on a stage.
func openStage(t *testing.T, s *redistest.Server, st *stage, o ...holdfast.Options) *holdfast.Client {
	t.Helper()
	config, err := rueidis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	d, err := rueidis.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	st.Driver = d
	c, err := holdfast.New(st, &append(o, holdfast.Options{})[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// read reads in another goroutine, which parkedIn can find by the function that rlock is in.
func read(rlock func() (*holdfast.Lease, error)) <-chan locktest.Outcome {
	ch := make(chan locktest.Outcome, 1)
	go func() {
		l, err := rlock()
		ch <- locktest.Outcome{Lease: l, Err: err}
	}()
	return ch
}

// awaitFollowers waits until n readers that a function has started wait for the answer of another one.
func awaitFollowers(t *testing.T, function string, n int) {
	t.Helper()
	locktest.Eventually(t, 20*time.Second, fmt.Sprint(n, " readers wait for the answer of another one"), func() bool {
		return parkedIn(function, "engine.(*share).follow") == n
	})
}

// Readers of one client that come at the same time send one request. The lock is free when
// the last of them has released it.
func TestReadersShare(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	st, asked, goOn := holdUpFirst(nil)
	m := openStage(t, s, st, alwaysShare).RWMutex(locktest.Name(t))
	other := locktest.Open(t, s.URL()).RWMutex(m.Name())
	const readers = 20
	var calls []<-chan locktest.Outcome
	for i := range readers {
		calls = append(calls, read(func() (*holdfast.Lease, error) { return m.RLock(t.Context()) }))
		if i == 0 {
			<-asked
		}
	}
	awaitFollowers(t, "TestReadersShare", readers-1)
	close(goOn)
	var ls []*holdfast.Lease
	for _, ch := range calls {
		l := locktest.Entered(t, ch)
		ls = append(ls, l)
		if l.Owner() != ls[0].Owner() || l.Token() != ls[0].Token() || !l.Valid() {
			t.Errorf("owner %s, token %d, valid %v; the first has %s and %d", l.Owner(), l.Token(), l.Valid(), ls[0].Owner(), ls[0].Token())
		}
	}
	if n := st.takes.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
	rand.Shuffle(len(ls), func(i, j int) { ls[i], ls[j] = ls[j], ls[i] })
	for i, l := range ls {
		locktest.WantRefused(t, other)
		if i%2 == 0 { // the same lease again, inside
			inner := locktest.Lock(t, l.Context(), m.RLocker(), holdfast.LeaseTime(time.Minute))
			locktest.Release(t, inner)
		}
		locktest.Release(t, l)
		if l.Valid() {
			t.Error("a released lease is valid")
		}
	}
	locktest.WantFree(t, other)
}

// A reader does not join a hold that is being released.
func TestSharedReadEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	leaving, goOn := make(chan struct{}), make(chan struct{})
	st := &stage{pass: func() {
		select {
		case leaving <- struct{}{}:
			<-goOn
		default: // the second release
		}
	}}
	m := openStage(t, s, st, alwaysShare).RWMutex(locktest.Name(t))
	a := locktest.Lock(t, t.Context(), m.RLocker())
	released := make(chan error)
	go func() { released <- a.Release(t.Context()) }()
	<-leaving
	b := locktest.Lock(t, t.Context(), m.RLocker())
	if a.Owner() == b.Owner() {
		t.Error("a reader has joined")
	}
	close(goOn)
	if err := <-released; err != nil {
		t.Error(err)
	}
	locktest.WantRefused(t, locktest.Open(t, s.URL()).RWMutex(m.Name()))
	locktest.Release(t, b)
}

// A loss is told to all that share the hold.
func TestSharedReadIsLost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	goOn := make(chan struct{})
	st := &stage{enter: func(int32) error { <-goOn; return nil }}
	m := openStage(t, s, st, alwaysShare).RWMutex(locktest.Name(t))
	rlock := func() (*holdfast.Lease, error) { return m.RLock(t.Context()) }
	calls := []<-chan locktest.Outcome{read(rlock), read(rlock), read(rlock)}
	awaitFollowers(t, "TestSharedReadIsLost", len(calls)-1)
	close(goOn)
	var ls []*holdfast.Lease
	for _, ch := range calls {
		ls = append(ls, locktest.Entered(t, ch))
	}
	locktest.Release(t, ls[1])
	ends := []context.Context{ls[0].Context(), ls[2].Context()}
	if freed, err := locktest.Readers(locktest.Open(t, s.URL()).RWMutex(m.Name())).ForceUnlock(t.Context()); !freed || err != nil {
		t.Fatal(freed, err)
	}
	if freed, err := locktest.Readers(m).ForceUnlock(t.Context()); err != nil { // so that the client notices at once
		t.Fatal(freed, err)
	}
	for i, l := range []*holdfast.Lease{ls[0], ls[2]} {
		select {
		case <-ends[i].Done():
		case <-time.After(locktest.Late):
			t.Error("a lease does not end")
		}
		if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("released: %v", err)
		}
	}
}

// A call whose own request may have been granted joins another call. What it may have got is
// given back.
func TestSharedReadAfterLostReply(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for range 50 { // the second call may come too early or too late
		if joinAfterLostReply(t, s) {
			return
		}
	}
	t.Error("the calls have never shared a hold")
}

// joinAfterLostReply reports whether the call without a reply has joined the other one.
func joinAfterLostReply(t *testing.T, s *redistest.Server) (joined bool) {
	const lose = 4 // the pause after it is long enough for the second call
	second, goOn := make(chan struct{}), make(chan struct{})
	lost := make(chan struct{})
	st := &stage{
		enter: func(n int32) error {
			if n == lose+1 {
				close(second)
				<-goOn
			}
			return nil
		},
		leave: func(n int32) error {
			if n == lose {
				close(lost)
			}
			if n <= lose {
				return driver.Unknown(errors.New("the reply was lost"))
			}
			return nil
		},
	}
	m := openStage(t, s, st, alwaysShare).RWMutex(locktest.Name(t))
	rlock := func() (*holdfast.Lease, error) { return m.RLock(t.Context()) }
	first := read(rlock)
	<-lost
	locktest.Eventually(t, 20*time.Second, "the call pauses", func() bool {
		select {
		case <-second: // it has paused
			return true
		default:
			return parkedIn("joinAfterLostReply", "engine.sleep(") == 1
		}
	})
	next := read(rlock)
	<-second // one of the two asks
	awaitFollowers(t, "joinAfterLostReply", 1)
	close(goOn)
	a, b := locktest.Entered(t, first), locktest.Entered(t, next)
	joined = a.Owner() == b.Owner() && !strings.HasSuffix(a.Owner(), ":1") // not by the request without a reply
	locktest.Release(t, a)
	locktest.Release(t, b)
	l, err := locktest.Open(t, s.URL()).RWMutex(m.Name()).TryLock(t.Context(), holdfast.Wait(10*time.Second))
	if err != nil {
		t.Fatal("the lock is not free: ", err)
	}
	locktest.Release(t, l)
	return joined
}

// Calls that wait for the answer of another one end with their own contexts, and a refusal
// of that one is not theirs.
func TestSharedReadIsCancelled(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	st, asked, goOn := holdUpFirst(&driver.Error{Class: driver.Fatal, Code: "ERR", Err: errors.New("ERR not this one")})
	m := openStage(t, s, st).RWMutex(locktest.Name(t))
	first := locktest.Background(t.Context(), m.RLocker())
	<-asked
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if l, err := m.RLock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, %v", l, err)
	}
	if l, err := m.TryRLock(ctx); err == nil {
		t.Errorf("%v", l)
	}
	second := read(func() (*holdfast.Lease, error) { return m.RLock(t.Context()) })
	awaitFollowers(t, "TestSharedReadIsCancelled", 1)
	close(goOn)
	if o := <-first; !errors.Is(o.Err, holdfast.ErrRefused) {
		t.Errorf("the first call: %v", o.Err)
	}
	locktest.Release(t, locktest.Entered(t, second))
}

// Many readers and some writers of several clients. No writer is beside another one or
// beside readers, and all get the lock.
func TestSharedReadsExclude(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	name := locktest.Name(t)
	var requests atomic.Int64
	section := locktest.NewSection(name)
	var wg sync.WaitGroup
	for range 3 {
		st := &stage{enter: func(int32) error { requests.Add(1); return nil }}
		m := openStage(t, s, st).RWMutex(name)
		for range 20 {
			wg.Go(func() {
				for range 50 {
					l := locktest.Lock(t, t.Context(), m.RLocker())
					inside := time.Duration(0)
					if rand.N(10) == 0 {
						inside = rand.N(time.Millisecond)
					}
					section.Read(l, inside)
					locktest.Release(t, l)
				}
			})
		}
		wg.Go(func() {
			for range 10 {
				l := locktest.Lock(t, t.Context(), m)
				section.Visit(l, 0)
				locktest.Release(t, l)
			}
		})
	}
	wg.Wait()
	section.Check(t, 3*20*50+3*10)
	t.Logf("%d requests for 3000 reads", requests.Load())
}

// With WriterFirst, a reader that comes after a waiting writer does not join earlier readers.
func TestWriterFirstIsNotShared(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	st := &stage{}
	m := openStage(t, s, st).RWMutex(locktest.Name(t), holdfast.WriterFirst())
	a := locktest.Lock(t, t.Context(), m.RLocker())
	b := locktest.Lock(t, t.Context(), m.RLocker())
	if a.Owner() == b.Owner() || st.takes.Load() != 2 {
		t.Errorf("owners %s and %s, %d requests", a.Owner(), b.Owner(), st.takes.Load())
	}
	locktest.Release(t, a)
	locktest.Release(t, b)
}

// A fixed lease, a shorter lease, a later call and a client without hand-offs share nothing.
func TestReadsThatAreNotShared(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for name, test := range map[string]struct {
		o    holdfast.Options
		opts []holdfast.LockOption
	}{
		"LeaseTime":       {opts: []holdfast.LockOption{holdfast.LeaseTime(time.Minute)}},
		"WatchdogTimeout": {opts: []holdfast.LockOption{holdfast.WatchdogTimeout(20 * time.Second)}},
		"Handoffs":        {o: holdfast.Options{Handoffs: -1}},
		"later":           {o: holdfast.Options{HandoffTime: 40 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			st := &stage{}
			m := openStage(t, s, st, test.o).RWMutex(locktest.Name(t))
			a := locktest.Lock(t, t.Context(), m.RLocker())
			b := locktest.Lock(t, t.Context(), m.RLocker(), test.opts...)
			if name == "later" { // the first ones may come early enough
				locktest.Eventually(t, locktest.Late, "a later call has a hold of its own", func() bool {
					if a.Owner() != b.Owner() {
						return true
					}
					locktest.Release(t, b)
					b = locktest.Lock(t, t.Context(), m.RLocker())
					return false
				})
			}
			if a.Owner() == b.Owner() {
				t.Error("they share a hold")
			}
			locktest.Release(t, a)
			locktest.Release(t, b)
			if keys := fmt.Sprint(s.Keys(t)); strings.Contains(keys, m.Name()) {
				t.Errorf("keys left: %s", keys)
			}
		})
	}
}

// Two readers share a hold. Each waits for something else, one of them in a deadlock.
func TestDeadlockOfSharedReader(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	name := locktest.Name(t)
	open := func() *holdfast.Client {
		return locktest.Open(t, s.URL(), holdfast.Options{Deadlocks: holdfast.EndDeadlocks})
	}
	readers, writer, third := open(), open(), open()
	var a, b *holdfast.Lease
	for a == nil || a.Owner() != b.Owner() { // the machine may be too slow to share it the first time
		if a != nil {
			locktest.Release(t, a)
			locktest.Release(t, b)
		}
		a = locktest.Lock(t, t.Context(), readers.RWMutex(name).RLocker())
		b = locktest.Lock(t, t.Context(), readers.RWMutex(name).RLocker())
	}
	written := locktest.Lock(t, t.Context(), writer.Mutex(name+":written"))
	busy := locktest.Lock(t, t.Context(), third.Mutex(name+":busy"))
	calls := []<-chan locktest.Outcome{
		locktest.Background(a.Context(), readers.Mutex(name+":written")),
		locktest.Background(b.Context(), readers.Mutex(name+":busy")),
		locktest.Background(written.Context(), writer.RWMutex(name)),
	}
	select {
	case o := <-calls[0]:
		if !errors.Is(o.Err, holdfast.ErrDeadlock) {
			t.Errorf("the reader: %v", o.Err)
		}
		locktest.Release(t, a)
		locktest.Release(t, busy)
		locktest.Release(t, locktest.Entered(t, calls[1]))
		locktest.Release(t, b)
		locktest.Release(t, locktest.Entered(t, calls[2]))
	case o := <-calls[2]:
		if !errors.Is(o.Err, holdfast.ErrDeadlock) {
			t.Errorf("the writer: %v", o.Err)
		}
		locktest.Release(t, written)
		locktest.Release(t, locktest.Entered(t, calls[0]))
		locktest.Release(t, busy)
		locktest.Release(t, locktest.Entered(t, calls[1]))
	case o := <-calls[1]:
		t.Errorf("the other reader has ended: %v", o.Err)
	case <-time.After(time.Minute):
		t.Error("the deadlock was not found")
	}
}
