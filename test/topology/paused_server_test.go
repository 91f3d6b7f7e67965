package topology_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The server stands still for less than the lease: nobody notices. (Less than
// its Sentinels bear, where it has some; TestPausedMasterResumes is about more.)
func TestShortPause(t *testing.T) {
	t.Parallel()
	test := func(f fleet) {
		f.patient()
		s := f.master()
		crowds := f.crowds()
		var holders []*holder
		for _, w := range f {
			holders = append(holders, w.keep(w.open(long), w.key("held")))
		}
		for range 3 {
			crowds.await()
			s.Pause()
			time.Sleep(1500 * time.Millisecond)
			s.Resume()
		}
		crowds.await()
		crowds.end(false)
		for _, h := range holders {
			h.kept()
		}
		empty(f[0], s)
	}
	alone(t, test)
	inFleet(t, modes, test)
}

// The server stands still for longer than the lease: the holder gives up first,
// and the lock is free when the server is back.
func TestLongPause(t *testing.T) {
	t.Parallel()
	alone(t, func(f fleet) {
		w := f[0]
		h := w.keep(w.open(), "held")
		r := w.rival(w.open(), "held")
		crowd := w.crowd(2, 2)
		crowd.await(10)
		w.single.Pause()
		h.lost(lease+slack, holdfast.LossExpired)
		h.inTime()
		if r.in() {
			w.errorf("a lock of a server that stands still")
		}
		time.Sleep(time.Second)
		resumed := time.Now()
		w.single.Resume()
		r.await(resumed.Add(time.Second))
		r.after(h)
		r.release()
		crowd.await(10)
		crowd.end(true)
		empty(w, w.single)
	})
}

// A master is paused for less than a lease, in all the ways there are: nobody
// loses anything.
func TestClusterShortPause(t *testing.T) {
	const pause = 1500 * time.Millisecond
	inOneCluster(t, func(c *redistest.Cluster, ws []*world) {
		master := c.Nodes()[0]
		for _, w := range ws {
			leases := w.hold(w.open(long), "a", "b")
			defer func() { w.kept(leases) }()
		}
		var crowds []*crowd
		for _, w := range ws {
			crowds = append(crowds, w.crowd(2, 2))
		}
		for _, stop := range []func(){
			func() { master.Pause(); time.Sleep(pause); master.Resume() },
			func() { master.Do(t, "DEBUG", "SLEEP", "1.5") },
			func() { master.Do(t, "CLIENT", "PAUSE", "1500", "ALL"); time.Sleep(pause) },
		} {
			for _, c := range crowds {
				c.await(10)
			}
			stop()
		}
		for _, c := range crowds {
			c.await(10)
			c.end(true)
		}
	}, patient, redistest.Args("--enable-debug-command", "yes"))
}

// A master runs somebody's long script, and answers everything with an error.
func TestClusterBusy(t *testing.T) {
	inOneCluster(t, func(c *redistest.Cluster, ws []*world) {
		var crowds []*crowd
		for _, w := range ws {
			leases := w.hold(w.open(long), "a", "b")
			defer func() { w.kept(leases) }()
			crowds = append(crowds, w.crowd(2, 2))
		}
		for range 2 {
			for _, c := range crowds {
				c.await(10)
			}
			_, _ = c.Nodes()[0].Try("EVAL", "local t = redis.call('time') local stop = t[1] + 2 repeat t = redis.call('time') until tonumber(t[1]) >= stop", "0")
		}
		for _, c := range crowds {
			c.await(10)
			c.end(true)
		}
	}, patient, redistest.Args("--busy-reply-threshold", "100"))
}

// A client is closed while one master is silent: what it holds at the others is
// free at once, and closing takes no longer than it says.
func TestClusterCloseWhilePaused(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, patient)
	for _, mode := range allModes {
		w := &world{T: t, url: c.URL(), mode: mode, cluster: c, prefix: tag(0, mode.Mode.String())}
		client := w.open(func(o *holdfast.Options) { o.WatchdogTimeout = 30 * time.Second })
		w.hold(client, "silent")
		other := tag(1, mode.Mode.String())
		if _, err := client.Mutex(other).Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.Nodes()[0].Pause()
		begin := time.Now()
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			_ = client.Close()
		}()
		w.eventually(soon, "what is held elsewhere is free", func() bool { return c.Nodes()[1].Int(t, "EXISTS", other) == 0 })
		<-closed
		if took := time.Since(begin); took > 10*time.Second {
			w.errorf("closing took %v", took)
		}
		c.Nodes()[0].Resume()
	}
}
