package rueidis_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// named are sentinels, each behind an address that stays when it is replaced,
// as a host name does.
type named struct {
	*redistest.Sentinels
	names []*redistest.Proxy
	d     *rueidis.Driver
}

func newNamed(t *testing.T) *named {
	n := &named{Sentinels: redistest.StartSentinels(t, redistest.WithReplicas(1))}
	var list []string
	for _, w := range n.Sentinels.Sentinels() {
		p := redistest.NewProxy(t, w.Addr())
		n.names, list = append(n.names, p), append(list, p.Addr())
	}
	n.d = connect(t, "redis-sentinel://"+strings.Join(list, ",")+"?scan_interval=100ms&master_name="+n.MasterName())
	return n
}

// redeploy replaces some of the sentinels, whose names then lead to the new
// ones.
func (n *named) redeploy(which ...int) {
	n.Redeploy(which...)
	for _, i := range which {
		n.names[i].Lead(n.Sentinels.Sentinels()[i].Addr())
		n.names[i].Cut()
	}
}

// failsOver sees that the driver follows a failover.
func (n *named) failsOver(t *testing.T) {
	t.Helper()
	master := n.Failover()
	locktest.Eventually(t, patience, "the driver has followed to the new master", func() bool {
		_, err := n.d.Do(t.Context(), addOne("k"))
		return err == nil && n.d.Place("k").Node == master.Addr()
	})
}

// A user that may not ask sentinels for their ids follows failovers.
func TestSentinelsWithoutIDs(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, redistest.WithReplicas(1), redistest.WithSentinelPassword("watcher", "secret"))
	for _, w := range s.Sentinels() {
		w.Do(t, "ACL", "SETUSER", "app", "on", ">apart", "-@all", "+hello", "+client", "+ping",
			"+sentinel|master", "+sentinel|get-master-addr-by-name", "+sentinel|sentinels")
	}
	url := with(t, with(t, s.URL(), "sentinel_username", "app"), "sentinel_password", "apart")
	n := &named{Sentinels: s, d: connect(t, url)}
	n.failsOver(t)
}

// Three sentinels are replaced one by one. The failovers that the new ones see
// to are followed.
func TestSentinelsReplaced(t *testing.T) {
	t.Parallel()
	n := newNamed(t)
	n.failsOver(t)
	for i := range 3 {
		n.redeploy(i)
	}
	n.failsOver(t)
}

// All sentinels are replaced by new ones, which know of no failover. The first
// one that they see to has a lower epoch than the last one of the old
// sentinels, and is followed all the same, also if one name leads nowhere.
func TestSentinelsDeployedAnew(t *testing.T) {
	t.Parallel()
	n := newNamed(t)
	for range 3 {
		n.failsOver(t)
	}
	n.names[2].Refuse(true)
	n.redeploy(0, 1, 2)
	n.failsOver(t)
}
