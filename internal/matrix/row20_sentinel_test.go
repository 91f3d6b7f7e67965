package matrix_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A master stands still until it is replaced, and then carries out the renewals
// that have been waiting for it. In mode Strict they count for nothing.
func TestRow20PausedMasterResumes(t *testing.T) {
	t.Parallel()
	inFleet(t, modes, func(f fleet) {
		f.patient()
		s, old := f.sentinels(), f.master()
		const lease = 60 * time.Second // its renewals wait for 10 s
		crowds := f.crowds()
		var holders []*holder
		for _, w := range f {
			c := w.openAt(s.URL()+"&scan_interval=1m&timeout=20s", func(o *holdfast.Options) { o.WatchdogTimeout = lease })
			holders = append(holders, w.keep(c, w.key("held")))
		}
		crowds.await()
		f.watchful()
		old.Pause()
		paused := time.Now()
		master, took := s.AwaitMaster(old)
		f.patient() // one failover is enough
		f[0].Logf("the failover took %v", took)
		time.Sleep(time.Until(paused.Add(2 * time.Second)))
		for _, w := range f { // so that nothing but the old master could prolong it
			master.Do(w, "DEL", w.key("held"))
		}
		old.Resume()
		for _, h := range holders {
			h.lost(15*time.Second, holdfast.LossFailover)
			_, deadline := h.last()
			// What was sent up to the pause may count, and a renewal is sent
			// every half second.
			late := deadline.Sub(paused.Add(lease))
			f[0].Logf("%v: a deadline %v after the pause", h.w.mode.Mode, late+lease)
			if h.w.strictly() && late > 0 {
				h.w.errorf("a renewal counted that was sent %v after the server was paused", late)
			}
		}
		crowds.await()
		crowds.end(true)
	})
}

// A failover that somebody asks for: what is held is kept, or its holder is told.
func TestRow21PlannedFailover(t *testing.T) {
	t.Parallel()
	inFleet(t, modes, func(f fleet) {
		crowds := f.crowds()
		var holders []*holder
		for _, w := range f {
			holders = append(holders, w.keep(w.open(func(o *holdfast.Options) { o.WatchdogTimeout = time.Minute }), w.key("held")))
		}
		crowds.await()
		f.sentinels().Failover()
		crowds.await()
		crowds.end(true)
		for _, h := range holders {
			if h.w.strictly() {
				h.kept()
			} else if !h.Valid() {
				h.lost(slack, holdfast.LossFailover)
			}
		}
	})
}

// The clock of the replica that takes over is not that of the master: a lease
// ends earlier there, or later. The first is what ClockSkew is for.
func TestRow22ClockOfPromoted(t *testing.T) {
	t.Parallel()
	const lease, skew = 12 * time.Second, 3 * time.Second
	for _, test := range []struct {
		name string
		off  time.Duration
	}{{"ahead", skew - 500*time.Millisecond}, {"behind", -skew}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			inFleet(t, []holdfast.Replication{strict(2)}, func(f fleet) {
				f.patient()
				w, s, old := f[0], f.sentinels(), f.master()
				for _, r := range s.Replicas() {
					r.MoveClock(test.off)
				}
				careful := func(o *holdfast.Options) { o.WatchdogTimeout, o.ClockSkew = lease, skew }
				c := w.open(careful)
				start := time.Now()
				h := w.keep(c, "held", holdfast.LeaseTime(lease)) // nobody renews it
				r := w.rival(w.open(careful), "held")
				time.Sleep(100 * time.Millisecond)
				f.watchful()
				old.Kill()
				master, _ := s.AwaitMaster(old)
				f.patient() // one failover is enough
				w.follows(c, master)
				old.Restart()
				s.AwaitReplicas(2)
				ready := time.Now() // before that, strict locks are not granted
				f[0].Logf("all is well again after %v", ready.Sub(start))
				h.lost(lease, holdfast.LossExpired)
				h.inTime()
				by := start.Add(lease - test.off)
				if by.Before(ready) {
					by = ready
				}
				r.await(by)
				f[0].Logf("the rival was let in %v after the lease ended", r.at.Sub(start.Add(lease)))
				r.after(h)
				r.release()
			}, redistest.WithClock())
		})
	}
}

// All Sentinels are gone: what is held is kept and renewed, and locks are
// granted, as long as the master lives.
func TestRow27NoSentinels(t *testing.T) {
	t.Parallel()
	inFleet(t, modes, func(f fleet) {
		s := f.sentinels()
		f.patient()
		crowds := f.crowds()
		var holders []*holder
		for _, w := range f {
			holders = append(holders, w.keep(w.open(long), w.key("held")))
		}
		crowds.await()
		for i, sentinel := range s.Sentinels() {
			if i == 0 {
				sentinel.Pause()
			} else {
				sentinel.Kill()
			}
		}
		master := s.Nodes()[0]
		time.Sleep(5 * time.Second) // several times as long as they are left alone
		crowds.await()
		// Connections break, too, and come back to where they were.
		master.Do(f[0], "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		crowds.await()
		crowds.end(false)
		for _, h := range holders {
			h.kept()
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if c, err := holdfast.Open(ctx, s.URL()); err == nil {
			f[0].Error("a master that no Sentinel has named")
			c.Close()
		}
	})
}
