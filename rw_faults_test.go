package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// An rwRig is one side of a read/write lock on a client whose replies can be
// lost, and an undisturbed look at the server.
type rwRig struct {
	s    *redistest.Server
	p    *redistest.Proxy
	c    *holdfast.Client
	m    mutexLike
	mode string // read or write
}

func rwRigs(t *testing.T, test func(t *testing.T, r *rwRig), o ...holdfast.Options) {
	t.Helper()
	each(t, "RW", func(t *testing.T, k kind) {
		s := redistest.Start(t)
		p := redistest.NewProxy(t, s.Addr())
		r := &rwRig{s: s, p: p, c: open(t, p.URL(), o...), mode: k.name}
		r.m = k.make(r.c, "rig")
		l := lock(t, t.Context(), r.m) // so that the server knows the scripts
		release(t, lock(t, l.Context(), r.m))
		release(t, l)
		test(t, r)
	})
}

// has checks that the server knows so many holds of an owner, and nothing else.
func (r *rwRig) has(t *testing.T, owner string, holds int) {
	t.Helper()
	var keys, fields []string
	if holds > 0 {
		keys = []string{"rig"}
		field := owner
		if r.mode == "write" {
			field += ":write"
		}
		fields = []string{"mode", r.mode, field, fmt.Sprint(holds)}
		for i := 1; i <= holds && r.mode == "read"; i++ {
			keys = append(keys, fmt.Sprintf("{rig}:%s:rwlock_timeout:%d", owner, i))
		}
	}
	slices.Sort(keys)
	if got := r.s.Keys(t); !slices.Equal(got, keys) {
		t.Errorf("the server has the keys %q, want %q", got, keys)
	}
	got := r.s.Strings(t, "HGETALL", "rig")
	slices.Sort(got)
	slices.Sort(fields)
	if !slices.Equal(got, fields) {
		t.Errorf("the server has %q, want %q", got, fields)
	}
}

func (r *rwRig) dropNext() <-chan struct{} { return r.p.DropReply(1, redistest.Command("EVALSHA")) }

// dropNextOf is dropNext for an owner. What is done meanwhile for one who has
// gone does not count.
func (r *rwRig) dropNextOf(owner string) <-chan struct{} {
	return r.p.DropReply(1, func(cmd []string) bool { return strings.EqualFold(cmd[0], "EVALSHA") && about(owner, cmd) })
}

// about reports whether any of these words names an owner.
func about(owner string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return owner != "" && strings.Contains(w+":", owner+":") })
}

// releaseLost releases a lease whose reply is lost.
func releaseLost(t *testing.T, stalls *redistest.StallMeter, l *holdfast.Lease, freed func() bool) {
	t.Helper()
	start := time.Now()
	err := l.Release(t.Context())
	if stoodStill(stalls, err, start) {
		eventually(t, 10*time.Second, "released in the background", freed)
	} else if err != nil {
		t.Error(err)
	}
}

func TestRWReplyLost(t *testing.T) {
	t.Parallel()
	rwRigs(t, func(t *testing.T, r *rwRig) {
		stalls := redistest.MeterStalls(t, r.s)
		gone := "" // who is undone in the background
		for call, take := range map[string]func() (*holdfast.Lease, error){
			"Lock":    func() (*holdfast.Lease, error) { return r.m.Lock(t.Context()) },
			"TryLock": func() (*holdfast.Lease, error) { return r.m.TryLock(t.Context()) },
		} {
			dropped := r.p.DropReply(1, func(cmd []string) bool { return strings.EqualFold(cmd[0], "EVALSHA") && !about(gone, cmd) })
			start := time.Now()
			l, err := take()
			if call == "TryLock" && stoodStill(stalls, err, start) {
				eventually(t, 10*time.Second, "undone", func() bool { return len(r.s.Keys(t)) == 0 })
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", call, err)
			}
			<-dropped
			r.has(t, l.Owner(), 1)

			dropped = r.dropNextOf(l.Owner())
			inner := lock(t, l.Context(), r.m)
			<-dropped
			r.has(t, l.Owner(), 2)

			dropped = r.dropNextOf(l.Owner())
			_ = inner.Release(t.Context())
			<-dropped
			eventually(t, 5*time.Second, "a count of one", func() bool { return holds(t, l.Context(), r.m) == 1 })
			r.has(t, l.Owner(), 1)

			dropped = r.dropNextOf(l.Owner())
			releaseLost(t, stalls, l, func() bool { return len(r.s.Keys(t)) == 0 })
			<-dropped
			r.has(t, "", 0)
			gone = l.Owner()
		}
	})
}

// Released once, although the request ran twice, and never what somebody else
// holds by then.
func TestRWReleaseReplyLost(t *testing.T) {
	t.Parallel()
	rwRigs(t, func(t *testing.T, r *rwRig) {
		rival := open(t, r.s.URL()).RWMutex("rig")
		stalls := redistest.MeterStalls(t, r.s)
		for _, other := range []mutexLike{rival, rival.RLocker()} {
			l := lock(t, t.Context(), r.m)
			dropped := r.dropNextOf(l.Owner())
			taken := make(chan *holdfast.Lease, 1)
			go func() {
				<-dropped // the lock is free, but the one who freed it does not know
				taken <- lock(t, t.Context(), other)
			}()
			releaseLost(t, stalls, l, func() bool {
				return !about(l.Owner(), r.s.Keys(t)) && !about(l.Owner(), r.s.Strings(t, "HKEYS", "rig"))
			})
			got := <-taken
			time.Sleep(50 * time.Millisecond)
			if n := holds(t, got.Context(), other); n != 1 || !got.Valid() {
				t.Errorf("the next one has %d holds, valid: %v", n, got.Valid())
			}
			release(t, got)
			r.has(t, "", 0)
		}
	})
}

func TestRWRenewReplyLost(t *testing.T) {
	t.Parallel()
	rwRigs(t, func(t *testing.T, r *rwRig) {
		l := lock(t, t.Context(), r.m)
		for range 3 {
			<-r.dropNext() // nothing but renewals goes out
		}
		time.Sleep(steady.RenewEvery)
		if !l.Valid() {
			t.Error("lost by a lost reply")
		}
		r.has(t, l.Owner(), 1)
		release(t, l)
		r.has(t, "", 0)
	}, holdfast.Options{WatchdogTimeout: 2 * steady.WatchdogTimeout, RenewEvery: steady.RenewEvery}) // time for three, and for a standstill
}

// A lost reply to the reading of a writer, and to the release of either.
func TestDowngradeReplyLost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	stalls := redistest.MeterStalls(t, s)
	m := open(t, p.URL()).RWMutex("rig")
	drop := func() <-chan struct{} { return p.DropReply(1, redistest.Command("EVALSHA")) }
	for range 2 { // the first round makes the scripts known
		w := lock(t, t.Context(), m)
		dropped := drop()
		r := lock(t, w.Context(), m.RLocker())
		<-dropped
		if n := holds(t, r.Context(), m.RLocker()); n != 1 {
			t.Errorf("%d holds to read", n)
		}
		dropped = drop()
		releaseLost(t, stalls, w, func() bool { return s.Int(t, "HEXISTS", "rig", w.Owner()+":write") == 0 })
		<-dropped
		wantSides(t, m, false, true)
		dropped = drop()
		releaseLost(t, stalls, r, func() bool { return len(s.Keys(t)) == 0 })
		<-dropped
		if keys := s.Keys(t); len(keys) > 0 {
			t.Errorf("keys left: %q", keys)
		}
	}
}

// The caller gives up while its request is on the way: what the request
// acquires is given back at once, not when the lease ends.
func TestRWCancelledAcquireLeavesNothing(t *testing.T) {
	t.Parallel()
	rwRigs(t, func(t *testing.T, r *rwRig) {
		for call, take := range map[string]func(context.Context) (*holdfast.Lease, error){
			"Lock":    func(ctx context.Context) (*holdfast.Lease, error) { return r.m.Lock(ctx) },
			"TryLock": func(ctx context.Context) (*holdfast.Lease, error) { return r.m.TryLock(ctx) },
		} {
			arrived, letGo := r.p.HoldReply(redistest.Command("EVALSHA"))
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-arrived
				time.Sleep(20 * time.Millisecond)
				cancel()
			}()
			if l, err := take(ctx); !errors.Is(err, context.Canceled) {
				t.Fatalf("%s: %v, %v", call, l, err)
			}
			letGo()
			eventually(t, 5*time.Second, "free again", func() bool { return len(r.s.Keys(t)) == 0 })
		}
	})
}

// The same for one that waits, and for the reading of a writer, which leaves
// the writing alone.
func TestRWCancelledWaitLeavesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	holder := open(t, s.URL()).RWMutex("rig")
	c := open(t, p.URL())
	for _, m := range []mutexLike{c.RWMutex("rig"), c.RWMutex("rig", holdfast.WriterFirst()), c.RWMutex("rig").RLocker()} {
		l := lock(t, t.Context(), holder)
		ctx, cancel := context.WithCancel(t.Context())
		waiter := background(ctx, m)
		time.Sleep(100 * time.Millisecond)
		arrived, letGo := p.HoldReply(redistest.Command("EVALSHA"))
		release(t, l) // the waiter asks, and is granted what it does not hear of
		<-arrived
		cancel()
		if o := await(t, waiter); !errors.Is(o.err, context.Canceled) {
			t.Errorf("%v, %v", o.lease, o.err)
		}
		letGo()
		eventually(t, 5*time.Second, "free again", func() bool { return len(s.Keys(t)) == 0 })
	}

	m := c.RWMutex("rig")
	w := lock(t, t.Context(), m)
	arrived, letGo := p.HoldReply(redistest.Command("EVALSHA"))
	ctx, cancel := context.WithCancel(w.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if r, err := m.RLock(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", r, err)
	}
	letGo()
	eventually(t, 5*time.Second, "nobody reads", func() bool { return len(s.Keys(t)) == 1 })
	if n := holds(t, w.Context(), m); n != 1 || !w.Valid() {
		t.Errorf("the writer has %d holds, valid: %v", n, w.Valid())
	}
	release(t, w)
	// The request may have been on its way when nobody read.
	eventually(t, 5*time.Second, "no key left", func() bool { return len(s.Keys(t)) == 0 })
}

// Force hits all holders of one side, in whichever client they are, and nobody
// else.
func TestRWForceUnlock(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	a, b := open(t, s.URL(), steady), open(t, s.URL(), steady)
	for by, c := range map[string]*holdfast.Client{"a holder's client": a, "another client": open(t, s.URL())} {
		t.Run(by, func(t *testing.T) {
			n := name(t)
			force := c.RWMutex(n)
			told := func(l *holdfast.Lease) {
				t.Helper()
				select {
				case <-l.Context().Done():
				case <-time.After(10 * time.Second):
					t.Error("a holder was not told")
				}
				if !errors.Is(context.Cause(l.Context()), holdfast.ErrLost) || l.Valid() {
					t.Errorf("cause %v, valid %v", context.Cause(l.Context()), l.Valid())
				}
				if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
					t.Errorf("release: %v", err)
				}
			}
			ls := []*holdfast.Lease{
				lock(t, t.Context(), a.RWMutex(n).RLocker()),
				lock(t, t.Context(), a.RWMutex(n).RLocker()),
				lock(t, t.Context(), b.RWMutex(n).RLocker()),
			}
			writer := background(t.Context(), force)
			time.Sleep(50 * time.Millisecond) // until it waits, most likely
			if freed, err := force.RLocker().ForceUnlock(t.Context()); !freed || err != nil {
				t.Errorf("read side: %v, %v", freed, err)
			}
			release(t, entered(t, writer))
			for _, l := range ls {
				told(l)
			}
			if keys := s.Keys(t); len(keys) > 0 {
				t.Errorf("keys left: %q", keys)
			}

			w := lock(t, t.Context(), a.RWMutex(n))
			r := lock(t, w.Context(), a.RWMutex(n).RLocker())
			reader := background(t.Context(), force.RLocker())
			time.Sleep(50 * time.Millisecond)
			if freed, err := force.ForceUnlock(t.Context()); !freed || err != nil {
				t.Errorf("write side: %v, %v", freed, err)
			}
			release(t, entered(t, reader))
			<-w.Context().Done()
			if !r.Valid() {
				t.Error("what the writer read is lost")
			}
			wantRefused(t, force)
			release(t, r)
			told(w)
			if keys := s.Keys(t); len(keys) > 0 {
				t.Errorf("keys left: %q", keys)
			}
		})
	}
}

// Nothing is left of thousands of contended rounds on both sides, some of them
// cancelled, some lost, some cut off.
func TestRWNothingLeaks(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	cs := []*holdfast.Client{open(t, p.URL(), quick), open(t, p.URL(), quick), open(t, p.URL(), quick)}
	const rounds = 3000
	next := make(chan int)
	var wg sync.WaitGroup
	for g := range 24 {
		wg.Go(func() {
			for i := range next {
				rwRound(t, cs[g%len(cs)], fmt.Sprint("leak:", i%4), i)
			}
		})
	}
	for i := range rounds {
		if i%500 == 250 { // not at the end, when nobody would be subscribed for a moment
			p.Cut()
		}
		next <- i
	}
	close(next)
	wg.Wait()
	eventually(t, 8*time.Second, "no key left", func() bool { return len(s.Keys(t)) == 0 })
	eventually(t, 5*time.Second, "no subscription left", func() bool { return len(s.Channels(t)) == 0 })
	for _, c := range cs {
		_ = c.Close()
	}
}

// rwRound reads or writes, and every so often does not get that far.
func rwRound(t *testing.T, c *holdfast.Client, name string, i int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var opts []holdfast.Option
	switch i % 20 {
	case 3, 4:
		time.AfterFunc(time.Millisecond, cancel)
	case 7, 8:
		opts = append(opts, holdfast.Wait(2*time.Millisecond))
	case 11, 12:
		opts = append(opts, holdfast.LeaseTime(10*time.Millisecond))
	}
	m := c.RWMutex(name)
	if i%5 == 0 {
		m = c.RWMutex(name, holdfast.WriterFirst())
	}
	side := holdfast.Locker(m)
	if i%3 > 0 {
		side = m.RLocker()
	}
	l, err := side.Lock(ctx, opts...)
	if !tolerable(err) {
		t.Error(err)
	}
	if err != nil {
		return
	}
	switch i % 20 {
	case 11, 12:
		<-l.Context().Done() // lost, and never released
		return
	case 13, 14, 15:
		inner, err := side.Lock(l.Context())
		if err == nil {
			err = inner.Release(ctx)
		}
		if !tolerable(err) {
			t.Error(err)
		}
	}
	var r *holdfast.Lease
	if side == m && i%2 == 0 {
		r, err = m.RLock(l.Context())
		if !tolerable(err) {
			t.Error(err)
		}
	}
	if err := l.Release(ctx); !tolerable(err) {
		t.Error(err)
	}
	if r != nil {
		_ = r.Context()
		if err := r.Release(ctx); !tolerable(err) {
			t.Error(err)
		}
	}
}

// The keys of readers must be gone with them, also where they have names of the
// kind that Redisson uses.
func TestReadersLeaveNoKeys(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	cs := []*holdfast.Client{open(t, s.URL()), open(t, s.URL())}
	var ls []*holdfast.Lease
	for i := range 40 {
		l := lock(t, t.Context(), cs[i%2].RWMutex("many").RLocker())
		ls = append(ls, l, lock(t, context.WithoutCancel(l.Context()), cs[i%2].RWMutex("many").RLocker()))
	}
	if keys := s.Keys(t); len(keys) != 81 {
		t.Errorf("%d keys, want that of the lock and one for every hold", len(keys))
	}
	for i := range ls {
		release(t, ls[(i*37)%len(ls)])
	}
	for _, key := range s.Keys(t) {
		t.Errorf("left: %s", key)
		if strings.Contains(key, "rwlock_timeout") {
			t.Error("of a reader")
		}
	}
}
