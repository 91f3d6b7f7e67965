package topology_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// An operator asks for a failover: each lease is kept, or its holder is told.
func TestPlannedFailover(t *testing.T) {
	t.Parallel()
	inSentinels(t, sentinelModes, func(f fleet) {
		crowds := f.crowds(2)
		holders := f.keep(lasting, "held")
		crowds.await(10)
		f.sentinels().Failover()
		crowds.await(10)
		crowds.endAfterFailover()
		for _, h := range holders {
			if h.w.strictly() {
				h.kept()
			} else if !h.Valid() {
				h.lost(slack, holdfast.LossFailover)
			}
		}
	})
}

// An operator has replicas take over, one after the other. When the two agree on
// the moment, nothing is lost; when the replica takes over by force, holders keep
// what they hold or are told.
func TestClusterPlannedFailover(t *testing.T) {
	inCluster(t, func(c *redistest.Cluster, f fleet) {
		for _, w := range f {
			w.open(leaseTime(2 * lease))
		}
		crowds := f.crowds(2)
		stalls := redistest.MeterStalls(t)
		for _, how := range [][]string{nil, {"FORCE"}, {"TAKEOVER"}} {
			leases := make(map[*world][]*holdfast.Lease)
			crowds.await(10)
			for _, w := range f {
				leases[w] = []*holdfast.Lease{w.hold(w.clients[0], "a"), w.hold(w.clients[0], "b")}
			}
			c.Failover(c.ReplicasOf(f.master())[0], how...)
			for i, w := range f {
				start := time.Now()
				if took := crowds[i].await(10) - stalls.Since(start); took > lease+slack {
					w.errorf("%v: the crowd went on after %v", how, took)
				}
				for _, l := range leases[w] {
					if how == nil || l.Valid() {
						w.kept(l)
					} else if _, why := loss(l, slack); why != holdfast.LossFailover && why != holdfast.LossUnreplicated {
						w.errorf("%v: the holder was told %q", how, why)
					}
				}
			}
		}
		crowds.endAfterFailover()
	}, patient)
}

// In mode Acked a replica that has come back after a failover is asked again.
func TestAckedAfterFailover(t *testing.T) {
	t.Parallel()
	inSentinels(t, []holdfast.Replication{acked}, func(f fleet) {
		w, s := f[0], f.sentinels()
		f.patient()
		c := w.open(long)
		h := w.keep(c, "held")
		for _, r := range s.Replicas() { // one was enough for the grant, and any of them may take over
			w.eventually(10*time.Second, "a replica has it", func() bool { return r.Int(w, "EXISTS", h.Name()) == 1 })
		}
		master := s.Failover()
		w.follows(c, master)
		for _, r := range s.Replicas() {
			r.Pause()
		}
		w.notReplicated(c.Mutex("new"))
		for _, r := range s.Nodes() {
			r.Resume()
		}
		h.kept()
		empty(f[0], master)
	})
}

// After a failover the new master has no replica, and acked locks count without
// one; as soon as there is one, they wait for it again.
func TestClusterAckedAfterFailover(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	w := &world{T: t, url: c.URL(), mode: acked, cluster: c, prefix: tag(0, "acked")}
	client := w.open()
	waits := func(s *redistest.Server) string {
		for line := range strings.Lines(fmt.Sprint(s.Do(t, "INFO", "commandstats"))) {
			if strings.HasPrefix(line, "cmdstat_wait:") {
				return line
			}
		}
		return ""
	}
	old := c.Nodes()[0]
	w.kept(w.hold(client, "first"))
	if waits(old) == "" {
		t.Error("the first lock of a client has waited for no replica")
	}
	old.Kill()
	next, _ := c.AwaitFailover(old)
	w.kept(w.hold(client, "alone"))
	old.Restart()
	c.AwaitReplicas(next, 1)
	before := waits(next)
	w.eventually(10*time.Second, "locks wait for the replica again", func() bool {
		w.kept(w.hold(client, "again"))
		return waits(next) != before
	})
}
