package topology_test

import (
	"testing"

	"github.com/holdfast-go/holdfast"
)

// Connections are reset: holds survive, and nobody notices.
func TestConnectionsReset(t *testing.T) {
	test := func(w *world) {
		c := w.open(long)
		l, err := c.Mutex("held").Lock(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		crowd := w.crowd(3, 2)
		for range 3 {
			crowd.await(20)
			w.master("held").Do(w, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			w.master("held").Do(w, "CLIENT", "KILL", "TYPE", "pubsub")
		}
		crowd.await(20)
		crowd.end(true)
		w.renewed([]*holdfast.Lease{l})
		if !l.Valid() {
			w.Error("the hold was lost")
		}
		if err := l.Release(w.Context()); err != nil {
			w.Error(err)
		}
	}
	inSingle(t, test)
	inSentinel(t, []holdfast.Replication{acked, strict(2)}, test)
	inCluster(t, []holdfast.Replication{acked, strict(1)}, test, patient)
}
