package faults_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A victim is a worker as its supervisor sees it.
type victim struct {
	*redistest.Process
	said  chan string   // "ready", "halted", "stays"
	gone  chan struct{} // closed at the end of what it has said
	since int64         // inside; 0: outside. Readable once gone is closed
}

// A supervisor kills processes that share a semaphore with one permit.
type supervisor struct {
	*testing.T
	k          permitKind
	s          *redistest.Server
	c          *holdfast.Client
	name, file string
	alive      []*victim
	rounds     atomic.Int64 // reported
	kills      int
	holders    int // of these, those that were inside

	mu  sync.Mutex
	ivs []redistest.Interval
}

func (m *supervisor) start() {
	v := &victim{
		redistest.Worker(m, "permit", "TEST_URL="+m.s.URL(), "TEST_NAME="+m.name, "TEST_FILE="+m.file, "TEST_KIND="+m.k.name),
		make(chan string, 10), make(chan struct{}), 0,
	}
	m.alive = append(m.alive, v)
	owner := fmt.Sprint("worker ", m.kills+len(m.alive))
	go func() {
		defer close(v.gone)
		for line := range v.Lines() {
			word, at, _ := strings.Cut(line, " ")
			now, _ := strconv.ParseInt(at, 10, 64)
			switch word {
			case "in":
				v.since = now
			case "out":
				m.record(redistest.Interval{Name: m.name, Owner: owner, Enter: v.since, Leave: now})
				v.since = 0
				m.rounds.Add(1)
			default:
				v.said <- word
			}
		}
	}()
}

func (m *supervisor) record(iv redistest.Interval) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ivs = append(m.ivs, iv)
}

// hear waits for a word.
func (m *supervisor) hear(v *victim, want string) {
	m.Helper()
	select {
	case word := <-v.said:
		if word != want {
			m.Fatalf("a worker says %q, not %q", word, want)
		}
	case <-v.gone:
		m.Fatalf("a worker has ended instead of saying %q", want)
	case <-time.After(30 * time.Second):
		m.Fatalf("a worker does not say %q", want)
	}
}

// kill kills a worker, and reports whether it certainly was inside.
func (m *supervisor) kill(v *victim) (inside bool) {
	m.alive = slices.DeleteFunc(m.alive, func(other *victim) bool { return other == v })
	before := redistest.Now()
	v.Kill()
	<-v.gone
	m.kills++
	if v.since != 0 { // until its end, since it says that it leaves before it does
		m.holders++
		m.record(redistest.Interval{Name: m.name, Owner: fmt.Sprint("the dead ", m.kills), Enter: v.since, Leave: max(before, v.since)})
	}
	return v.since != 0
}

func (m *supervisor) someone() *victim { return m.alive[rand.IntN(len(m.alive))] }

// free returns how many permits are free, as the server has it.
func (m *supervisor) free() int {
	m.Helper()
	n, err := m.k.free(m.Context(), m.c, m.name)
	if err != nil {
		m.Fatal(err)
	}
	return n
}

// recover brings a permit back that is gone with its holder, or waits for it.
func (m *supervisor) recover() {
	m.Helper()
	if m.k.recover != nil {
		m.k.recover(m.T, m.c, m.name)
		return
	}
	locktest.Eventually(m, locktest.Steady.WatchdogTimeout+5*time.Second, "the permit comes back by itself", func() bool { return m.free() == 1 })
}

// epoch lets all processes work while kill kills some of them. It returns how many
// permits are missing when no process is inside and no request is under way.
func (m *supervisor) epoch(kill func()) (lost int) {
	m.Helper()
	for len(m.alive) < 16 {
		m.start()
		m.hear(m.alive[len(m.alive)-1], "ready")
	}
	for _, v := range m.alive {
		v.Send("go")
	}
	start := m.rounds.Load()
	locktest.Eventually(m, 30*time.Second, "they work", func() bool { return m.rounds.Load() >= start+20 })
	kill()
	for _, v := range m.alive {
		v.Send("halt")
	}
	for _, v := range m.alive {
		m.hear(v, "halted")
	}
	return 1 - m.free()
}

// killHolder kills one that is inside.
func (m *supervisor) killHolder(where string) {
	v := m.someone()
	v.Send(where)
	m.hear(v, "stays")
	if !m.kill(v) {
		m.Error("it stayed, and was not inside")
	}
}

// killWaiters kills some that certainly wait, since the permit is not theirs.
func (m *supervisor) killWaiters(n int) {
	m.Helper()
	// Without a subscription, so that only the processes to be killed have one.
	giveBack, err := m.k.take(m.Context(), m.c, m.name, holdfast.Poll(holdfast.Backoff{Max: 2 * time.Millisecond}))
	if err != nil {
		m.Fatal(err)
	}
	iv := redistest.Interval{Name: m.name, Owner: "supervisor", Enter: redistest.Now()}
	m.listening()
	for range n {
		if m.kill(m.someone()) {
			m.Error("one that waited was inside")
		}
	}
	m.listening() // the server has noticed
	iv.Leave = redistest.Now()
	m.record(iv)
	if err := giveBack(m.Context()); err != nil {
		m.Fatal(err)
	}
	start := m.rounds.Load()
	locktest.Eventually(m, 30*time.Second, "the others go on", func() bool { return m.rounds.Load() >= start+20 })
}

// listening waits until exactly the live processes have a subscription.
func (m *supervisor) listening() {
	m.Helper()
	locktest.Eventually(m, 20*time.Second, "all that are alive wait", func() bool {
		return m.s.Listeners(m, "redisson_sc:{"+m.name+"}") == len(m.alive)
	})
}

// sample looks at the permits until the test calls stop: never is there more
// than one.
func (m *supervisor) sample() (stop func()) {
	var ended atomic.Bool
	var sampling sync.WaitGroup
	looks := 0
	sampling.Go(func() {
		locktest.Repeat(time.Millisecond, time.Millisecond, func() bool { return !ended.Load() }, func(int) {
			if free, err := m.s.Try("GET", m.name); err != nil || free != "0" && free != "1" {
				m.Errorf("%v permits are free; %v", free, err)
				ended.Store(true)
			}
			looks++
		})
	})
	stop = sync.OnceFunc(func() {
		ended.Store(true)
		sampling.Wait()
		m.Logf("%d rounds, %d kills, %d of holders, %d looks", m.rounds.Load(), m.kills, m.holders, looks)
	})
	m.Cleanup(stop)
	return stop
}

// check checks what has been done under the permit: never two were inside, and
// every round has counted, those of the dead included.
func (m *supervisor) check() {
	m.Helper()
	if err := redistest.CheckExclusive(m.ivs); err != nil {
		m.Error(err)
	}
	journal, err := os.ReadFile(m.file)
	if err != nil {
		m.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(journal), "\n"), "\n")
	for i, line := range lines {
		if f := strings.Fields(line); len(f) != 2 || f[0] != strconv.Itoa(i+1) {
			m.Fatalf("round %d has counted %q: a count is lost", i+1, line)
		}
	}
	// A killed holder may have counted and not said so.
	if silent := len(lines) - int(m.rounds.Load()); silent < 0 || silent > m.holders {
		m.Errorf("%d counts, %d reported, %d holders killed", len(lines), m.rounds.Load(), m.holders)
	}
}

// Sixteen processes count under one permit in a way that needs it, and are
// killed. What the dead had is brought back as an operator would, if the kind
// does not do that by itself; what they wanted was never theirs.
func TestPermitsOfTheKilled(t *testing.T) {
	for _, k := range permitKinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			m := &supervisor{T: t, k: k, s: s, c: locktest.Open(t, s.URL(), locktest.Steady), name: locktest.Name(t), file: filepath.Join(t.TempDir(), "journal")}
			if err := os.WriteFile(m.file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := k.setUp(t.Context(), m.c, m.name); err != nil {
				t.Fatal(err)
			}
			stop := m.sample()
			for _, killed := range []struct {
				who         string
				least, most int // permits that may be gone
				kill        func()
			}{
				{"waiters", 0, 0, func() { m.killWaiters(5) }},
				{"a holder that has read", 1, 1, func() { m.killHolder("before"); m.kill(m.someone()) }},
				{"any process", 0, 1, m.killAny},
				{"waiters", 0, 0, func() { m.killWaiters(5) }},
				{"a holder that has written", 1, 1, func() { m.killHolder("after"); m.kill(m.someone()) }},
				{"any process", 0, 1, m.killAny},
				{"any process", 0, 1, m.killAny},
			} {
				holders := m.holders
				lost := m.epoch(killed.kill)
				least := max(killed.least, m.holders-holders)
				if k.recover == nil {
					least = 0 // it may be back already
				}
				if lost < least || lost > killed.most {
					t.Fatalf("%d permits are gone with %s, want %d to %d", lost, killed.who, least, killed.most)
				}
				if lost == 1 {
					m.recover()
				}
				if m.free() != 1 {
					t.Fatalf("%d permits are free", m.free())
				}
			}
			stop()
			m.check()
			if m.kills < 10 || m.holders < 1 {
				t.Errorf("%d kills, %d of holders", m.kills, m.holders)
			}
		})
	}
}

// killAny kills three at any moment.
func (m *supervisor) killAny() {
	kills := m.kills
	locktest.Repeat(0, 50*time.Millisecond, func() bool { return m.kills < kills+3 }, func(int) { m.kill(m.someone()) })
}

// A permitKind is a semaphore whose users are killed.
type permitKind struct {
	name string
	// setUp makes one with a single permit.
	setUp func(ctx context.Context, c *holdfast.Client, name string) error
	// take waits for the permit.
	take func(ctx context.Context, c *holdfast.Client, name string, opt holdfast.WaitOption) (giveBack func(context.Context) error, err error)
	// free returns how many permits are free.
	free func(ctx context.Context, c *holdfast.Client, name string) (int, error)
	// recover brings back the permit of a dead holder; nil: it comes by itself.
	recover func(t *testing.T, c *holdfast.Client, name string)
}

var permitKinds = []permitKind{
	{
		name: "semaphore",
		setUp: func(ctx context.Context, c *holdfast.Client, name string) error {
			_, err := c.Semaphore(name).TrySet(ctx, 1, 0)
			return err
		},
		take: func(ctx context.Context, c *holdfast.Client, name string, opt holdfast.WaitOption) (func(context.Context) error, error) {
			sem := c.Semaphore(name)
			return func(ctx context.Context) error { return sem.Release(ctx, 1) }, sem.Acquire(ctx, 1, opt)
		},
		free: func(ctx context.Context, c *holdfast.Client, name string) (int, error) {
			return c.Semaphore(name).Available(ctx)
		},
		// The holder is not known, so a permit has to be added by hand.
		recover: func(t *testing.T, c *holdfast.Client, name string) {
			if err := c.Semaphore(name).Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		},
	},
	{
		name: "leased semaphore",
		setUp: func(ctx context.Context, c *holdfast.Client, name string) error {
			_, err := c.LeasedSemaphore(name).TrySet(ctx, 1, 0)
			return err
		},
		take: func(ctx context.Context, c *holdfast.Client, name string, opt holdfast.WaitOption) (func(context.Context) error, error) {
			lease, err := c.LeasedSemaphore(name).Acquire(ctx, 1, opt)
			return func(ctx context.Context) error { return lease.Release(ctx) }, err
		},
		free: func(ctx context.Context, c *holdfast.Client, name string) (int, error) {
			return c.LeasedSemaphore(name).Available(ctx)
		},
	},
}

func init() { workers["permit"] = permitWorker }

// permitWorker counts in a file under a permit, from "go" to "halt", and says
// when it is inside. Told to stay, it does not leave any more: before it has
// written, or after. It has no client, and nothing is on its way, when it is
// halted.
func permitWorker() {
	k := permitKinds[slices.IndexFunc(permitKinds, func(k permitKind) bool { return k.name == os.Getenv("TEST_KIND") })]
	url, name, file := os.Getenv("TEST_URL"), os.Getenv("TEST_NAME"), os.Getenv("TEST_FILE")
	var stay atomic.Value
	stay.Store("")
	var halt atomic.Bool
	halted := make(chan struct{})
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch word := in.Text(); word {
		case "go":
			c, err := holdfast.Open(context.Background(), url, &locktest.Steady)
			for errors.Is(err, holdfast.ErrUnavailable) { // sixteen at once may be slow
				c, err = holdfast.Open(context.Background(), url, &locktest.Steady)
			}
			if err != nil {
				panic(err)
			}
			halt.Store(false)
			go func() {
				for !halt.Load() {
					countUnderPermit(func() (func(context.Context) error, error) {
						return k.take(context.Background(), c, name, holdfast.Wait(300*time.Millisecond))
					}, file, &stay)
				}
				_ = c.Close()
				halted <- struct{}{}
			}()
		case "halt":
			halt.Store(true)
			<-halted
			fmt.Println("halted")
		default:
			stay.Store(word)
		}
	}
}

// countUnderPermit counts by one, if it gets the permit, in a way that loses
// counts if two are inside.
func countUnderPermit(take func() (func(context.Context) error, error), file string, stay *atomic.Value) {
	giveBack, err := take()
	if err != nil {
		if errors.Is(err, holdfast.ErrNotAcquired) || errors.Is(err, holdfast.ErrUnavailable) {
			return // in doubt, on a machine that stands still: undone when the client is closed
		}
		panic(err)
	}
	fmt.Println("in", redistest.Now())
	value := lastCount(file)
	if stay.Load() == "before" {
		fmt.Println("stays")
		select {}
	}
	locktest.Work(rand.N(2 * time.Millisecond))
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	// The count and the journal of counts are one, so that no process dies between them.
	if _, err := fmt.Fprintf(f, "%10d %10d\n", value+1, os.Getpid()); err != nil {
		panic(err)
	}
	f.Close()
	if stay.Load() == "after" {
		fmt.Println("stays")
		select {}
	}
	fmt.Println("out", redistest.Now())
	if err := giveBack(context.Background()); err != nil {
		panic(err)
	}
}

const journalLine = 22

// lastCount reads the count: the last line of the journal.
func lastCount(file string) int {
	f, err := os.Open(file)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.Seek(-journalLine, io.SeekEnd); err != nil {
		return 0 // the first
	}
	line, err := io.ReadAll(f)
	if err != nil {
		panic(err)
	}
	n, err := strconv.Atoi(strings.Fields(string(line))[0])
	if err != nil {
		panic(err)
	}
	return n
}

// A process that acquires a permit again right after it has released it does not
// starve the others.
func TestPermitsAreShared(t *testing.T) {
	t.Parallel()
	for _, k := range permitKinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			n := locktest.Name(t)
			if err := k.setUp(t.Context(), locktest.Open(t, s.URL()), n); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			var wg sync.WaitGroup
			rounds := make([]int, 3)
			for i := range rounds {
				c := locktest.Open(t, s.URL(), holdfast.Options{PollInterval: 30 * time.Second})
				wg.Go(func() {
					for ctx.Err() == nil {
						giveBack, err := k.take(ctx, c, n, holdfast.Wait(time.Minute))
						if err != nil {
							if ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
								t.Error(err)
							}
							return
						}
						locktest.Work(10 * time.Millisecond)
						if err := giveBack(ctx); err != nil {
							t.Error(err)
						}
						rounds[i]++
					}
				})
			}
			wg.Wait()
			t.Log(rounds)
			all := rounds[0] + rounds[1] + rounds[2]
			for i, n := range rounds {
				if n < all/10 {
					t.Errorf("client %d had %d of %d rounds", i, n, all)
				}
			}
		})
	}
}
