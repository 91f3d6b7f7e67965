package topology_test

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The server is paused for less than the lease: no client notices. The pause is
// also shorter than its Sentinels tolerate; TestPausedMasterResumes has a longer
// one.
func TestShortPause(t *testing.T) {
	t.Parallel()
	test := func(f fleet) {
		f.patient()
		s := f.master()
		crowds := f.crowds(2)
		holders := f.keep(lasting, "held")
		for range 3 {
			crowds.await(10)
			<-redistest.Outage(1500*time.Millisecond, s.Pause, s.Resume)
		}
		crowds.await(10)
		crowds.end()
		holders.kept()
		empty(f[0], s)
	}
	inSingle(t, test)
	inSentinels(t, sentinelModes, test)
}

// The server is paused for longer than the lease: the holder gives up first,
// and the lock is free when the server is back.
func TestLongPause(t *testing.T) {
	t.Parallel()
	inSingle(t, func(f fleet) {
		w := f[0]
		h := w.keep(w.open(), "held")
		r := w.rival(w.open(), "held")
		crowd := w.crowd(2, 2)
		crowd.await(10)
		var resumed time.Time
		over := redistest.Outage(lease+200*time.Millisecond, w.single.Pause, func() { // the key has expired, too
			<-h.over
			if r.in() {
				w.errorf("a lock was granted by a paused server")
			}
			resumed = time.Now()
			w.single.Resume()
		})
		h.lost(lease+slack, holdfast.LossExpired)
		h.inTime()
		<-over
		r.await(resumed.Add(time.Second))
		r.after(h)
		r.release()
		crowd.await(10)
		crowd.end(true)
		empty(w, w.single)
	})
}

// A master is paused for less than a lease, in all the ways there are: no lease
// is lost.
func TestClusterShortPause(t *testing.T) {
	const pause = 1500 * time.Millisecond
	inCluster(t, func(c *redistest.Cluster, f fleet) {
		master := c.Nodes()[0]
		holders := f.keep(lasting, "a", "b")
		crowds := f.crowds(2)
		for _, stop := range []func(){
			func() { <-redistest.Outage(pause, master.Pause, master.Resume) },
			func() { master.Do(t, "DEBUG", "SLEEP", "1.5") },
			func() { master.Do(t, "CLIENT", "PAUSE", "1500", "ALL"); master.Do(t, "PING") }, // which waits for the end
		} {
			crowds.await(10)
			stop()
		}
		crowds.await(10)
		crowds.end()
		holders.kept()
	}, patient, redistest.Args("--enable-debug-command", "yes"))
}

// A master runs a long script of another client, and answers everything with an error.
func TestClusterBusy(t *testing.T) {
	inCluster(t, func(c *redistest.Cluster, f fleet) {
		holders := f.keep(lasting, "a", "b")
		crowds := f.crowds(2)
		for range 2 {
			crowds.await(10)
			_, _ = c.Nodes()[0].Try("EVAL", "local t = redis.call('time') local stop = t[1] + 2 repeat t = redis.call('time') until tonumber(t[1]) >= stop", "0")
		}
		crowds.await(10)
		crowds.end()
		holders.kept()
	}, patient, redistest.Args("--lua-time-limit", "100"))
}

// A client is closed while one master is silent: what it holds at the others is
// free at once, and closing takes no longer than it says.
func TestClusterCloseWhilePaused(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, patient)
	f := clusterFleet(t, c)
	for _, w := range f {
		client := w.open(leaseTime(30 * time.Second))
		w.hold(client, "silent")
		if _, err := client.Mutex(tag(1, w.mode.Mode.String())).Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c.Nodes()[0].Pause()
	begin := time.Now()
	var wg sync.WaitGroup
	for _, w := range f {
		wg.Go(func() {
			_ = w.clients[0].Close()
			if took := locktest.Took(begin); took > 10*time.Second {
				w.errorf("closing took %v", took)
			}
		})
	}
	for _, w := range f {
		w.eventually(slack, "what is held elsewhere is free", func() bool {
			return c.Nodes()[1].Int(t, "EXISTS", tag(1, w.mode.Mode.String())) == 0
		})
	}
	wg.Wait()
	c.Nodes()[0].Resume()
}
