package matrix_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A journal is all that clients have said.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) add(err error) { fmt.Fprintln(j, err) }

func (j *journal) to(o *holdfast.Options) {
	o.Logger = slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (j *journal) mustNotSay(t *testing.T, secret string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if strings.Contains(j.text.String(), secret) {
		t.Errorf("a log or an error gives the password away:\n%s", j.text.String())
	}
}

// The one node that the client was told of is gone for good, and then the
// others change their parts: the client has learned whom to ask.
func TestRow34ClusterSeedsGone(t *testing.T) {
	inOneCluster(t, func(c *redistest.Cluster, ws []*world) {
		seed := c.ReplicasOf(c.Nodes()[2])[0]
		var crowds []*crowd
		leases := make(map[*world][]*holdfast.Lease)
		for _, w := range ws {
			w.url = "redis-cluster://" + seed.Addr()
			leases[w] = w.hold(w.open(long), "held")
			crowds = append(crowds, w.crowd(2, 2))
		}
		for _, c := range crowds {
			c.await(10)
		}
		seed.Kill()
		c.Failover(c.ReplicasOf(c.Nodes()[0])[0])
		for _, c := range crowds {
			c.await(10)
		}
		for _, w := range ws {
			c.Migrate(redistest.SlotOf(w.prefix), c.Nodes()[1])
		}
		for i, w := range ws {
			crowds[i].await(10)
			crowds[i].end(true)
			w.renewed(leases[w])
			w.kept(leases[w])
		}
		seed.Restart()
	}, patient)
}
