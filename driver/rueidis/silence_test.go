package rueidis_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A master falls silent and is replaced. The driver still learns about the new
// master, and still serves calls at other nodes.
func TestSilentMaster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Args("--cluster-require-full-coverage", "no"))
	var ds []driver.Driver // several, because each may query another node
	for range 6 {
		ds = append(ds, connect(t, c.URL()+"?timeout=10s")) // a call to the silent master could take this long
	}
	d := ds[0]
	old := c.MasterOf("k")
	var other string
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		if c.MasterOf(key) != old {
			other = key
		}
	}
	for _, key := range []string{"k", other} {
		if _, err := d.Do(t.Context(), addOne(key)); err != nil {
			t.Fatal(err)
		}
	}
	old.Pause()
	defer old.Resume()
	elsewhere := keepCalling(t, d, other)
	waiting := make(chan error, 1)
	go func() {
		_, err := d.Do(t.Context(), addOne("k"))
		waiting <- err
	}()
	next, _ := c.AwaitFailover(old)
	begin := time.Now()
	locktest.Eventually(t, 2*soon, "the driver knows the new master", func() bool { return d.Place("k").Node == next.Addr() })
	if took := time.Since(begin); took > soon { // it looks once a second
		t.Errorf("the driver learned of the failover %v after all nodes had", took)
	}
	select {
	case err := <-waiting:
		if driver.ClassOf(err) == driver.Fatal {
			t.Errorf("a call that waited for the silent master: %v", err)
		}
	case <-time.After(soon):
		t.Error("a call still waits for the silent master")
	}
	if _, err := d.Do(t.Context(), addOne("k")); err != nil {
		t.Errorf("at the new master: %v", err)
	}
	if took, err := elsewhere(); err != nil || took > soon {
		t.Errorf("a call at another node took %v: %v", took, err)
	}
}

// keepCalling calls again and again until stop is called, which returns how long
// the slowest took, and the last error.
func keepCalling(t *testing.T, d driver.Driver, key string) (stop func() (time.Duration, error)) {
	ctx, cancel := context.WithCancel(t.Context())
	var slowest time.Duration
	var failed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			begin := time.Now()
			if _, err := d.Do(t.Context(), addOne(key)); err != nil {
				failed = err
			}
			slowest = max(slowest, time.Since(begin))
			locktest.Work(5 * time.Millisecond)
		}
	}()
	return func() (time.Duration, error) {
		cancel()
		<-done
		return slowest, failed
	}
}

// Close ends everything, even if a node is silent, another is gone and a listener
// subscribes at all of them.
func TestCloseLeavesNothing(t *testing.T) {
	redistest.CheckGoroutines(t)
	c := redistest.StartCluster(t, redistest.WithReplicas(0))
	d := connect(t, c.URL())
	h := drivertest.NewRecorder()
	l := d.Listen(h) // and never closed
	keys := []string{"a", "b", "c", "d", "e", "f"}
	for _, key := range keys {
		l.Subscribe(key)
		h.Want(t, "+"+key)
		if r := d.DoAcked(t.Context(), []driver.Call{addOne(key)}, 1, 10*time.Millisecond)[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	c.Masters()[2].Kill()
	silent := c.Masters()[0]
	silent.Pause()
	defer silent.Resume()
	for _, key := range keys {
		go func() { _, _ = d.Do(context.Background(), addOne(key)) }()
	}
	locktest.Eventually(t, soon, "a call is on its way", func() bool { return waitsInDo("TestCloseLeavesNothing") > 0 })
	begin := time.Now()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 2*soon {
		t.Errorf("Close took %v", took)
	}
}

// waitsInDo returns how many goroutines that a function has started wait for the end of a call.
func waitsInDo(function string) (n int) {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for g := range strings.SplitSeq(string(stacks), "\n\n") {
		state, calls, _ := strings.Cut(g, "\n")
		if !strings.Contains(state, "[run") && strings.Contains(calls, "rueidis.(*Driver).Do(") && strings.Contains(calls, function) {
			n++
		}
	}
	return n
}

// Callers wait for a connection that is being opened. Some give up; the others
// are served on it.
func TestDialOutlivesCaller(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	d := connect(t, p.URL())
	p.Delay(50 * time.Millisecond) // it takes a few answers to open one; some give up before the first
	for range 5 {
		p.Refuse(true)
		p.Cut()
		_, _ = d.Do(t.Context(), addOne("k")) // a call notices that the connection is gone
		tried := p.Connections()
		// The driver tries by itself, with longer and longer pauses. Now one of 160 ms begins.
		locktest.Eventually(t, soon, "the driver has tried five times", func() bool { return p.Connections() >= tried+5 })
		tried = p.Connections()
		p.Refuse(false)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { _, _ = d.Do(ctx, addOne("k")) })
		}
		locktest.Eventually(t, soon, "they wait for a connection", func() bool { return p.Connections() > tried })
		for range 3 {
			wg.Go(func() {
				if _, err := d.Do(context.Background(), addOne("k")); err != nil {
					t.Errorf("others have given up: %v", err)
				}
			})
		}
		wg.Wait()
		cancel()
	}
}

// A call takes no longer than its timeout, whatever it has to wait for: an
// answer, or a connection that takes longer to open.
func TestCallIsBounded(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, err := rueidis.ParseURL(s.URL() + "?timeout=500ms&dial_timeout=1m")
	if err != nil {
		t.Fatal(err)
	}
	d, err := rueidis.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s.Pause()
	defer s.Resume()   // or Close waits for the dial
	for i := range 4 { // the first costs the connection
		begin := time.Now()
		_, err := d.Do(context.Background(), addOne("k"))
		if took := time.Since(begin); err == nil || took > c.Timeout+soon {
			t.Errorf("call %d of a silent server: %v after %v", i+1, err, took)
		}
		begin = time.Now()
		r := d.DoAcked(context.Background(), []driver.Call{addOne("k")}, 1, c.Timeout)[0]
		if took := time.Since(begin); r.Err == nil || took > 2*c.Timeout+soon {
			t.Errorf("call %d of a silent server, to be acknowledged: %v after %v", i+1, r.Err, took)
		}
	}
}
