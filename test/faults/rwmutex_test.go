package faults_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// An rwRig is a rig with one side of a read/write lock.
type rwRig struct {
	*rig
	mode string // read or write
}

func rwRigs(t *testing.T, test func(t *testing.T, r *rwRig), o ...holdfast.Options) {
	t.Helper()
	locktest.Each(t, "RW", func(t *testing.T, k locktest.Kind) {
		test(t, &rwRig{newRigOf(t, k, o...), k.Name})
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
	if got := r.Server.Keys(t); !slices.Equal(got, keys) {
		t.Errorf("the server has the keys %q, want %q", got, keys)
	}
	got := r.Server.Strings(t, "HGETALL", "rig")
	slices.Sort(got)
	slices.Sort(fields)
	if !slices.Equal(got, fields) {
		t.Errorf("the server has %q, want %q", got, fields)
	}
}

// dropNextOf is DropNext for the scripts of one owner. Those that undo something for
// an earlier owner do not count.
func (r *rwRig) dropNextOf(owner string) <-chan struct{} {
	return r.Proxy.DropReply(1, func(cmd []string) bool { return strings.EqualFold(cmd[0], "EVALSHA") && about(owner, cmd) })
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
	if locktest.StoodStill(stalls, err, start) {
		locktest.Eventually(t, 10*time.Second, "released in the background", freed)
	} else if err != nil {
		t.Error(err)
	}
}

func TestRWReplyLost(t *testing.T) {
	t.Parallel()
	rwRigs(t, func(t *testing.T, r *rwRig) {
		stalls := redistest.MeterStalls(t, r.Server)
		gone := "" // the owner that is undone in the background
		for call, take := range map[string]func() (*holdfast.Lease, error){
			"Lock":    func() (*holdfast.Lease, error) { return r.m.Lock(t.Context()) },
			"TryLock": func() (*holdfast.Lease, error) { return r.m.TryLock(t.Context()) },
		} {
			dropped := r.Proxy.DropReply(1, func(cmd []string) bool { return strings.EqualFold(cmd[0], "EVALSHA") && !about(gone, cmd) })
			start := time.Now()
			l, err := take()
			if call == "TryLock" && locktest.StoodStill(stalls, err, start) {
				locktest.Eventually(t, 10*time.Second, "undone", func() bool { return len(r.Server.Keys(t)) == 0 })
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", call, err)
			}
			<-dropped
			r.has(t, l.Owner(), 1)

			dropped = r.dropNextOf(l.Owner())
			inner := locktest.Lock(t, l.Context(), r.m)
			<-dropped
			r.has(t, l.Owner(), 2)

			dropped = r.dropNextOf(l.Owner())
			_ = inner.Release(t.Context())
			<-dropped
			locktest.Eventually(t, 5*time.Second, "a count of one", func() bool { return locktest.HoldCount(t, l.Context(), r.m) == 1 })
			r.has(t, l.Owner(), 1)

			dropped = r.dropNextOf(l.Owner())
			releaseLost(t, stalls, l, func() bool { return len(r.Server.Keys(t)) == 0 })
			<-dropped
			r.has(t, "", 0)
			gone = l.Owner()
		}
	})
}

// Released once, although the request ran twice. A lock that another owner holds by
// then is not released.
func TestRWReleaseReplyLost(t *testing.T) {
	t.Parallel()
	rwRigs(t, func(t *testing.T, r *rwRig) {
		rival := locktest.Open(t, r.Server.URL()).RWMutex("rig")
		stalls := redistest.MeterStalls(t, r.Server)
		for _, other := range []locktest.MutexLike{rival, locktest.Readers(rival)} {
			l := locktest.Lock(t, t.Context(), r.m)
			dropped := r.dropNextOf(l.Owner())
			taken := make(chan *holdfast.Lease, 1)
			go func() {
				<-dropped // the lock is free, but the caller of Release does not know
				taken <- locktest.Lock(t, t.Context(), other)
			}()
			releaseLost(t, stalls, l, func() bool {
				return !about(l.Owner(), r.Server.Keys(t)) && !about(l.Owner(), r.Server.Strings(t, "HKEYS", "rig"))
			})
			got := <-taken
			locktest.AwaitSettled(t, r.Client)
			if n := locktest.HoldCount(t, got.Context(), other); n != 1 || !got.Valid() {
				t.Errorf("the next one has %d holds, valid: %v", n, got.Valid())
			}
			locktest.Release(t, got)
			r.has(t, "", 0)
		}
	})
}

func TestRWRenewReplyLost(t *testing.T) {
	t.Parallel()
	rwRigs(t, func(t *testing.T, r *rwRig) {
		l := locktest.Lock(t, t.Context(), r.m)
		for range 3 {
			<-r.DropNext() // nothing but renewals goes out
		}
		locktest.AwaitRenewals(t, r.Client, 1)
		if !l.Valid() {
			t.Error("lost by a lost reply")
		}
		r.has(t, l.Owner(), 1)
		locktest.Release(t, l)
		r.has(t, "", 0)
	}, holdfast.Options{WatchdogTimeout: 2 * locktest.Steady.WatchdogTimeout, RenewEvery: locktest.Steady.RenewEvery}) // time for three, and for a standstill
}

// A lost reply to the reading of a writer, and to the release of either.
func TestDowngradeReplyLost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	stalls := redistest.MeterStalls(t, s)
	m := locktest.Open(t, p.URL()).RWMutex("rig")
	drop := func() <-chan struct{} { return p.DropReply(1, redistest.Command("EVALSHA")) }
	for range 2 { // the first round makes the scripts known
		w := locktest.Lock(t, t.Context(), m)
		dropped := drop()
		r := locktest.Lock(t, w.Context(), m.RLocker())
		<-dropped
		if n := locktest.HoldCount(t, r.Context(), locktest.Readers(m)); n != 1 {
			t.Errorf("%d holds to read", n)
		}
		dropped = drop()
		releaseLost(t, stalls, w, func() bool { return s.Int(t, "HEXISTS", "rig", w.Owner()+":write") == 0 })
		<-dropped
		locktest.WantSides(t, m, false, true)
		dropped = drop()
		releaseLost(t, stalls, r, func() bool { return len(s.Keys(t)) == 0 })
		<-dropped
		if keys := s.Keys(t); len(keys) > 0 {
			t.Errorf("keys left: %q", keys)
		}
	}
}

// The caller gives up while its request is under way. What the request acquires is
// released at once, not at the end of the lease.
func TestRWCancelledAcquireLeavesNothing(t *testing.T) {
	t.Parallel()
	rwRigs(t, func(t *testing.T, r *rwRig) {
		for call, take := range map[string]func(context.Context) (*holdfast.Lease, error){
			"Lock":    func(ctx context.Context) (*holdfast.Lease, error) { return r.m.Lock(ctx) },
			"TryLock": func(ctx context.Context) (*holdfast.Lease, error) { return r.m.TryLock(ctx) },
		} {
			arrived, letGo := r.Proxy.HoldReply(redistest.Command("EVALSHA"))
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-arrived
				cancel()
			}()
			if l, err := take(ctx); !errors.Is(err, context.Canceled) {
				t.Fatalf("%s: %v, %v", call, l, err)
			}
			letGo()
			locktest.Eventually(t, 5*time.Second, "free again", func() bool { return len(r.Server.Keys(t)) == 0 })
		}
	})
}

// The same for one that waits, and for the reading of a writer, which leaves
// the writing alone.
func TestRWCancelledWaitLeavesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	holder := locktest.Open(t, s.URL()).RWMutex("rig")
	c := locktest.Open(t, p.URL(), holdfast.Options{WakeAll: true}) // so that it asks when it is told
	for _, m := range []locktest.MutexLike{c.RWMutex("rig"), c.RWMutex("rig", holdfast.WriterFirst()), locktest.Readers(c.RWMutex("rig"))} {
		l := locktest.Lock(t, t.Context(), holder)
		ctx, cancel := context.WithCancel(t.Context())
		waiter := locktest.Background(ctx, m)
		locktest.AwaitWaiting(t, c, 1)
		arrived, letGo := p.HoldReply(redistest.Command("EVALSHA"))
		locktest.Release(t, l) // the waiter asks, and is granted what it does not hear of
		<-arrived
		cancel()
		if o := locktest.Await(t, waiter); !errors.Is(o.Err, context.Canceled) {
			t.Errorf("%v, %v", o.Lease, o.Err)
		}
		letGo()
		locktest.Eventually(t, 5*time.Second, "free again", func() bool { return len(s.Keys(t)) == 0 })
	}

	m := c.RWMutex("rig")
	w := locktest.Lock(t, t.Context(), m)
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
	locktest.Eventually(t, 5*time.Second, "there is no reader", func() bool { return len(s.Keys(t)) == 1 })
	if n := locktest.HoldCount(t, w.Context(), m); n != 1 || !w.Valid() {
		t.Errorf("the writer has %d holds, valid: %v", n, w.Valid())
	}
	locktest.Release(t, w)
	// The request may have been under way when there was no reader.
	locktest.Eventually(t, 5*time.Second, "no key left", func() bool { return len(s.Keys(t)) == 0 })
}

// RLock with the context of a write lease must not be granted under that lease when
// it was handed to the next goroutine meanwhile.
func TestReadUnderPassedWrite(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := locktest.Open(t, p.URL(), holdfast.Options{HandoffTime: time.Minute})
	m := c.RWMutex("passed")
	w := locktest.Lock(t, t.Context(), m)
	locktest.Release(t, locktest.Lock(t, w.Context(), m.RLocker())) // the server knows the scripts
	locktest.Release(t, w)
	w = locktest.Lock(t, t.Context(), m)
	writer := locktest.Background(t.Context(), m)
	locktest.AwaitWaiting(t, c, 1)
	arrived, letGo := p.HoldReply(redistest.Command("EVALSHA"))
	defer letGo()
	reader := locktest.Background(context.WithoutCancel(w.Context()), m.RLocker())
	<-arrived // granted, as to a writer
	redistest.Outage(100*time.Millisecond, func() {}, letGo)
	locktest.Release(t, w)
	r := locktest.Entered(t, reader)
	locktest.Eventually(t, 10*time.Second, "the server has released the write lock, or the next writer has it", func() bool {
		return len(writer) > 0 || s.Int(t, "HEXISTS", "passed", w.Owner()+":write") == 0
	})
	if len(writer) == 0 {
		locktest.Release(t, r)
		locktest.Release(t, locktest.Entered(t, writer))
		return
	}
	o := <-writer
	if r.Valid() && o.Lease.Valid() {
		t.Error("a reader is in while another writes")
	}
	locktest.Release(t, r)
	locktest.Release(t, o.Lease)
}
