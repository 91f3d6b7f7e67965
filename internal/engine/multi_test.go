package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
)

// masters is a driver of a cluster whose masters can be down or unknown.
type masters struct {
	*fake.Driver
	mu    sync.Mutex
	facts []driver.Facts
	asked [][]string
}

func (m *masters) set(facts ...driver.Facts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.facts = facts
}

func (m *masters) Facts(_ context.Context, nodes ...string) []driver.Facts {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, nodes)
	return m.facts
}

// down returns the facts of a master that is down.
func down() driver.Facts { return driver.Facts{Err: driver.Unsent(errors.New("down"))} }

// over returns an engine on that driver.
func over(t *testing.T, d driver.Driver) *Engine {
	e := New(d, options)
	t.Cleanup(func() { e.Close(time.Second) })
	return e
}

// wantsOf returns a want of the same name at each engine.
func wantsOf(engines ...*Engine) (wants []*Want) {
	for _, e := range engines {
		wants = append(wants, &Want{Engine: e, Kind: script.NewMutex("k"), User: new(user)})
	}
	return wants
}

// A set gets its locks while a master that stores none of them is down.
func TestSetBesideDeadMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &masters{Driver: fake.New()}, &masters{Driver: fake.New()}
		a.set(down(), driver.Facts{RunID: "2"}, driver.Facts{RunID: "1"})
		b.set(driver.Facts{RunID: "3"})
		wants := wantsOf(over(t, a), over(t, b))
		if err := AcquireAll(t.Context(), wants, Request{}); err != nil {
			t.Fatal(err)
		}
		for _, w := range wants {
			_ = w.Hold.Release(w.User, true)
		}
	})
}

// A set waits for a server that it has not reached yet as long as a single lock does, both
// with and without a wait time.
func TestSetPatienceAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &masters{Driver: fake.New()}, &masters{Driver: fake.New()}
		a.set(down())
		b.set(driver.Facts{RunID: "3"})
		for _, c := range []struct {
			wait, patience time.Duration
		}{{Forever, options.Patience}, {0, time.Second}} {
			began := time.Now()
			err := AcquireAll(t.Context(), wantsOf(over(t, a), over(t, b)), Request{Wait: c.wait})
			if took := time.Since(began); !errors.Is(err, ErrUnavailable) || took < c.patience || took > c.patience+time.Second {
				t.Errorf("gave up after %v, want %v: %v", took, c.patience, err)
			}
		}
		time.AfterFunc(options.Patience-time.Second, func() { a.set(driver.Facts{RunID: "1"}) })
		wants := wantsOf(over(t, a), over(t, b))
		if err := AcquireAll(t.Context(), wants, Request{Wait: Forever}); err != nil {
			t.Fatal(err)
		}
		for _, w := range wants {
			_ = w.Hold.Release(w.User, true)
		}
	})
}

// quorumOf returns a quorum of n servers, and a want for each of them.
func quorumOf(t *testing.T, n int, wrap func(i int, m *masters) driver.Driver) (*Quorum, []*Want) {
	var engines []*Engine
	for i := range n {
		m := &masters{Driver: fake.New()}
		m.set(driver.Facts{RunID: string(rune('1' + i))})
		engines = append(engines, over(t, wrap(i, m)))
	}
	return NewQuorum(n, n, 200*time.Millisecond), wantsOf(engines...)
}

// Clients without a known master do not vote. They are not taken for clients of the same
// server later.
func TestQuorumBeforeMastersAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []*masters
		q, wants := quorumOf(t, 3, func(_ int, m *masters) driver.Driver {
			all = append(all, m)
			return m
		})
		for _, m := range all {
			m.set()
		}
		if err := q.Acquire(t.Context(), wants, Request{}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("without a master: %v", err)
		}
		for i, m := range all {
			m.set(driver.Facts{RunID: string(rune('1' + i))})
		}
		if err := q.Acquire(t.Context(), wants, Request{}); err != nil {
			t.Errorf("with masters: %v", err)
		}
		releaseWithin(q.Limit, departures(wants, true))
		for _, m := range all {
			m.set(driver.Facts{RunID: "1"})
		}
		q, wants = NewQuorum(3, 3, 200*time.Millisecond), wantsOf(over(t, all[0]), over(t, all[1]), over(t, all[2]))
		if err := q.Acquire(t.Context(), wants, Request{}); !errors.Is(err, ErrSameServer) {
			t.Errorf("clients of the same server: %v", err)
		}
	})
}

// hold acquires a mutex for an owner that belongs to no engine.
func hold(t *testing.T, d driver.Driver, name string) {
	t.Helper()
	if v, err := script.Acquire(t.Context(), d, script.NewMutex(name), script.Claim{Owner: "x:1", Count: 1, Lease: time.Hour}); err != nil || !v.Granted() {
		t.Fatal(v, err)
	}
}

// A slow driver delays each script by its time.
type slow struct {
	driver.Driver
	takes map[string]time.Duration
}

func (d slow) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	time.Sleep(d.takes[c.Script.Name])
	return d.Driver.Do(context.WithoutCancel(ctx), c)
}

// Votes that come too late are released concurrently, not one after the other.
func TestQuorumLateVotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const late, long = 100 * time.Millisecond, time.Second
		var all []*masters
		q, wants := quorumOf(t, 7, func(i int, m *masters) driver.Driver {
			if i < 4 { // a majority has refused when the others grant
				hold(t, m, "k")
				return m
			}
			all = append(all, m)
			return slow{m, map[string]time.Duration{"mutex_acquire": late, "mutex_release": long, "mutex_grant": long}}
		})
		if err := q.Acquire(t.Context(), wants, Request{}); !errors.Is(err, ErrNotAcquired) {
			t.Errorf("held by another owner: %v", err)
		}
		time.Sleep(late + long + long/2)
		for i, m := range all {
			if owner := m.Holder("k"); owner != "" {
				t.Errorf("server %d: the late vote was not released", i)
			}
		}
		time.Sleep(10 * long)
	})
}
