package holdfast_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// writes returns how many changes the server has made to its keys.
func writes(t *testing.T, s *redistest.Server) (n int) {
	t.Helper()
	_, after, _ := strings.Cut(fmt.Sprint(s.Do(t, "INFO", "persistence")), "rdb_changes_since_last_save:")
	if _, err := fmt.Sscan(after, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A set on one server that is not granted writes nothing, neither when it tries
// nor while it waits: it uses up no fencing token, and no listener hears of it.
func TestMultiLooksBeforeItWrites(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := open(t, s.URL()), open(t, s.URL())
	n := name(t)
	m := holdfast.Multi(c.FencedMutex(n+"1"), c.FencedMutex(n+"2"))
	held := lock(t, t.Context(), other.FencedMutex(n+"2"), holdfast.LeaseTime(time.Minute))
	before := writes(t, s)
	for range 5 {
		if _, err := m.TryLock(t.Context()); !errors.Is(err, holdfast.ErrNotAcquired) {
			t.Fatal(err)
		}
	}
	ch := background(t.Context(), m)
	listened(t, s, "redisson_lock__channel:{"+n+"2}")
	for range 5 { // each wakes it, and it looks in vain
		s.Do(t, "PUBLISH", "redisson_lock__channel:{"+n+"2}", "0")
		time.Sleep(20 * time.Millisecond)
	}
	if n := writes(t, s) - before; n != 0 {
		t.Errorf("%d changes for a set that was not granted", n)
	}
	release(t, held)
	l := entered(t, ch)
	if token := l.Parts()[0].Token(); token != 1 {
		t.Errorf("the first grant has token %d", token)
	}
	release(t, l)
}

// A set waits for a server that it has never spoken to as long as a single lock
// does.
func TestMultiBearsAnOutageAtFirst(t *testing.T) {
	t.Parallel()
	s1, s2 := redistest.Start(t), redistest.Start(t)
	p := redistest.NewProxy(t, s2.Addr())
	n := name(t)
	m := holdfast.Multi(open(t, s1.URL()).Mutex(n), open(t, p.URL()).Mutex(n))
	p.Refuse(true)
	p.Cut()
	time.AfterFunc(3200*time.Millisecond, func() { p.Refuse(false) })
	release(t, lock(t, t.Context(), m))
}

// A try of a set with a lease time gives up soon also at the last step, when all
// locks are granted and their time is to be set.
func TestMultiTryGivesUpSoonAtTheLast(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	o := holdfast.Options{RetryTimeout: 20 * time.Second}
	c, near := open(t, p.URL()+"?timeout=1s", o), open(t, s.URL(), o)
	set := func(n string) holdfast.Locker { return holdfast.Multi(near.FairMutex(n+"a"), c.Mutex(n+"b")) }
	lease := holdfast.LeaseTime(time.Minute)
	release(t, lock(t, t.Context(), set(name(t)), lease)) // so that the server knows the scripts
	scripts := 0
	arrived, letGo := p.HoldReply(func(cmd []string) bool {
		if redistest.Command("EVALSHA")(cmd) {
			scripts++
		}
		return scripts == 2 // one for the lock, and one for its time
	})
	defer letGo()
	go func() {
		<-arrived
		p.Freeze()
	}()
	defer p.Thaw()
	began := time.Now()
	_, err := set(name(t)).TryLock(t.Context(), lease)
	if took := time.Since(began); !errors.Is(err, holdfast.ErrUnavailable) || took > 12*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
}
