package topology_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// One Sentinel is cut off, together with the master, from all that see to a
// failover. When it is the only one that answers, a client that knows of the new
// master does not follow it back to the old one.
func TestStaleSentinel(t *testing.T) {
	t.Parallel()
	inSentinels(t, []holdfast.Replication{async, acked}, func(f fleet) {
		f.patient()
		s, old := f.sentinels(), f.master()
		past, rest := s.Sentinels()[0], s.Sentinels()[1:]
		const scan = 100 * time.Millisecond
		for _, w := range f {
			w.url = with(w.url, "scan_interval="+scan.String())
		}
		var clients []*holdfast.Client
		for _, w := range f {
			clients = append(clients, w.open(lasting))
		}
		f.watchful()
		s.Partition(side{past, old}, s.Others(past, old))
		master, _ := s.AwaitMaster(old)
		f.patient() // one failover is enough
		var holders holders
		for i, w := range f {
			w.follows(clients[i], master)
			holders = append(holders, w.keep(clients[i], "held"))
		}
		// A new client does not wait long for the other Sentinels when one has answered.
		stalls := redistest.MeterStalls(f[0], s.Sentinels()...)
		for range 24 { // the stale one answers first in a third of the cases
			stalls.Rounds(f[0], 50*time.Millisecond, func() error {
				if at := f[0].open().Driver().Place("").Node; at != master.Addr() {
					return fmt.Errorf("a new client has come to %s, which was replaced by %s", at, master.Addr())
				}
				return nil
			})
		}
		<-redistest.Outage(10*scan, func() { s.Partition(side{redistest.Clients}, rest) }, nil) // clients ask it several times
		for i, w := range f {
			if at := clients[i].Driver().Place("").Node; at != master.Addr() {
				w.errorf("the client has gone back to %s, which was replaced by %s", at, master.Addr())
			}
		}
		holders.kept()
		s.Heal()
	}, redistest.WithPartitions())
}

// The Sentinels have agreed on a new master, and the one that leads the failover
// is not through with it, since a replica cannot reach that one. Clients do not
// wait for the end of it, nor waver between the two.
func TestUnfinishedFailover(t *testing.T) {
	t.Parallel()
	inSentinels(t, sentinelModes, func(f fleet) {
		f.patient()
		s, old := f.sentinels(), f.master()
		chosen, other := s.Replicas()[0], s.Replicas()[1]
		f.never(other)
		for _, sentinel := range s.Sentinels() { // longer than is looked at, and not too long to vote again when each voted for itself
			sentinel.Do(f[0], "SENTINEL", "SET", s.MasterName(), "failover-timeout", "10000")
		}
		var clients []*holdfast.Client
		var holders []*holder
		for i, w := range f {
			clients = append(clients, w.openAt(s.URL()+"&scan_interval=50ms", lasting))
			holders = append(holders, w.keep(clients[i], "held"))
			w.eventually(10*time.Second, "the replica has it", func() bool { return chosen.Int(w, "EXISTS", w.key("held")) == 1 })
		}
		f.watchful()
		s.Partition(side{chosen}, side{other})
		s.Partition(side{old}, s.Others(old))
		master, _ := s.AwaitMaster(old)
		f.patient() // one failover is enough
		for i, w := range f {
			w.follows(clients[i], master)
		}
		end := time.Now().Add(2 * time.Second)
		locktest.Repeat(20*time.Millisecond, 20*time.Millisecond, func() bool { return time.Now().Before(end) }, func(int) {
			for i, w := range f {
				if at := clients[i].Driver().Place("").Node; at != master.Addr() {
					w.Fatalf("the client has gone back to %s, which was replaced by %s", at, master.Addr())
				}
			}
		})
		for i, w := range f {
			if h := holders[i]; !h.Valid() {
				w.errorf("the hold was lost: %v", context.Cause(h.Context()))
			}
		}
		s.Heal()
	}, redistest.WithPartitions())
}

// The only Sentinel that answers has missed a failover, and names a server that
// is a replica now. A client that has never heard of another does not use it.
func TestRoleIsChecked(t *testing.T) {
	t.Parallel()
	inSentinels(t, []holdfast.Replication{acked}, func(f fleet) {
		w, s, old := f[0], f.sentinels(), f.master()
		past, rest := s.Sentinels()[0], s.Sentinels()[1:]
		s.Partition(side{past}, s.Others(past))
		w.eventually(20*time.Second, "a failover begins", func() bool {
			_, err := rest[0].Try("SENTINEL", "FAILOVER", s.MasterName())
			return err == nil
		})
		s.AwaitMaster(old)
		w.eventually(30*time.Second, "the old master follows", func() bool {
			reply, _ := old.Try("ROLE") // it closes its connections when its part changes
			role, _ := reply.([]any)
			return len(role) > 0 && role[0] == "slave"
		})
		s.Partition(side{redistest.Clients}, rest)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		c, err := holdfast.Open(ctx, s.URL(), nil)
		if !errors.Is(err, holdfast.ErrUnavailable) {
			w.errorf("a replica is taken for the master: %v", err)
		}
		if err == nil {
			_ = c.Close()
		}
		s.Heal()
	}, redistest.WithPartitions())
}

// The one node that the client was told of is gone for good, and then the
// others change their parts: the client has learned whom to ask.
func TestClusterSeedsGone(t *testing.T) {
	inCluster(t, func(c *redistest.Cluster, f fleet) {
		seed := c.ReplicasOf(c.Nodes()[2])[0]
		for _, w := range f {
			w.url = "redis-cluster://" + seed.Addr()
		}
		holders := f.keep(lasting, "held")
		crowds := f.crowds(2)
		crowds.await(10)
		seed.Kill()
		c.Failover(c.ReplicasOf(c.Nodes()[0])[0])
		crowds.await(10)
		for _, w := range f {
			c.Migrate(redistest.SlotOf(w.prefix), c.Nodes()[1])
		}
		crowds.await(10)
		crowds.end()
		holders.renewed()
		holders.kept()
		seed.Restart()
	}, patient)
}

// A master without sentinels is paused, its replica is promoted, and the
// master resumes: two servers call themselves master. One client uses the one,
// another client the other, and both hold one lock. As soon as a client sees both
// servers it is granted nothing. When one server is a replica again, the lease at
// the other is kept, and the holder of the other lease is told.
func TestTwoMasters(t *testing.T) {
	t.Parallel()
	r := redistest.StartReplicated(t, 1)
	a, b := r.Nodes()[0], r.Nodes()[1]
	w := &world{T: t, mode: async}
	toA, toB := redistest.NewProxy(t, a.Addr()), redistest.NewProxy(t, b.Addr())
	toA.Refuse(true)                // y need not wait for a
	toB.Refuse(true)                // x does not learn what becomes of b
	const patience = "?timeout=10s" // a server that is slow must not count as gone
	x := w.openAt("redis://"+a.Addr()+","+toB.Addr()+patience, lasting)

	a.Pause()
	b.Do(t, "REPLICAOF", "NO", "ONE")
	y := w.openAt("redis://"+toA.Addr()+","+b.Addr()+patience, lasting)
	atB := w.keep(y, "held")
	a.Resume()
	toA.Refuse(false)
	atA := w.keep(x, "held")

	try := func(c *holdfast.Client) error {
		l, err := c.Mutex("other").TryLock(t.Context())
		if err == nil {
			_ = l.Release(t.Context())
		}
		return err
	}
	refused := func(c *holdfast.Client) func() bool {
		return func() bool {
			err := try(c)
			return errors.Is(err, holdfast.ErrUnavailable) && strings.Contains(err.Error(), "both")
		}
	}
	w.eventually(3*slack, "a client that sees two masters is granted nothing", refused(y))
	toB.Refuse(false)
	// It stays so. A client that has heard from one server does not wait long for the other.
	redistest.MeterStalls(t, a, b).Rounds(t, 500*time.Millisecond, func() error {
		w.eventually(3*slack, "another one, too", refused(x))
		w.eventually(3*slack, "and still the first", refused(y))
		for range 3 {
			for _, c := range []*holdfast.Client{x, y} {
				if err := try(c); !errors.Is(err, holdfast.ErrUnavailable) { // a busy server may not answer
					return fmt.Errorf("a client tried to lock while two servers called themselves master: %w", err)
				}
			}
		}
		return nil
	})

	host, port, _ := strings.Cut(b.Addr(), ":")
	a.Do(t, "REPLICAOF", host, port)
	atA.lost(3*slack, holdfast.LossFailover)
	for _, c := range []*holdfast.Client{x, y} {
		w.eventually(3*slack, "locks are granted again", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			l, err := c.Mutex("other").Lock(ctx)
			return err == nil && l.Release(t.Context()) == nil
		})
	}
	atB.kept()
	empty(t, b)
}
