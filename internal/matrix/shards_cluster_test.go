package matrix_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A client is closed while one master is silent: what it holds at the others is
// free at once, and closing takes no longer than it says.
func TestRow14ClusterClosed(t *testing.T) {
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

// After a failover the new master has no replica, and acked locks count without
// one; as soon as there is one, they wait for it again.
func TestRow21ClusterAckedAgain(t *testing.T) {
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
