package topology_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A failover that somebody asks for: what is held is kept, or its holder is told.
func TestPlannedFailover(t *testing.T) {
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

// An operator has replicas take over, one after the other. When the two agree on
// the moment, nothing is lost; when the replica takes over by force, holders keep
// what they hold or are told.
func TestClusterPlannedFailover(t *testing.T) {
	inOneCluster(t, func(c *redistest.Cluster, ws []*world) {
		var crowds []*crowd
		for _, w := range ws {
			w.open(func(o *holdfast.Options) { o.WatchdogTimeout = 2 * lease })
			crowds = append(crowds, w.crowd(2, 2))
		}
		for _, how := range [][]string{nil, {"FORCE"}, {"TAKEOVER"}} {
			leases := make(map[*world][]*holdfast.Lease)
			for i, w := range ws {
				crowds[i].await(10)
				leases[w] = w.hold(w.clients[0], "a", "b")
			}
			c.Failover(c.ReplicasOf(ws[0].master(ws[0].prefix))[0], how...)
			for i, w := range ws {
				if took := crowds[i].await(10); took > lease+soon {
					w.errorf("%v: the crowd went on after %v", how, took)
				}
				for _, l := range leases[w] {
					if how == nil || l.Valid() {
						w.kept([]*holdfast.Lease{l})
					} else if _, why := loss(l, soon); why != holdfast.LossFailover && why != holdfast.LossUnreplicated {
						w.errorf("%v: the holder was told %q", how, why)
					}
				}
			}
		}
		for i, w := range ws {
			crowds[i].end(w.strictly())
		}
	}, patient)
}

// In mode Acked a replica that has come back after a failover is asked again.
func TestAckedAfterFailover(t *testing.T) {
	t.Parallel()
	inFleet(t, []holdfast.Replication{acked}, func(f fleet) {
		w, s := f[0], f.sentinels()
		f.patient()
		c := w.open(long)
		h := w.keep(c, "held")
		for _, r := range s.Replicas() { // one was enough for the grant, and any of them may take over
			w.eventually(10*time.Second, "a replica has it", func() bool { return r.Int(w, "EXISTS", "held") == 1 })
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
