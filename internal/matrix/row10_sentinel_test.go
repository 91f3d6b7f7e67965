package matrix_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The client does not reach the server for longer than the lease: it gives up
// before anybody else can have the lock.
func TestRow10Partition(t *testing.T) {
	t.Parallel()
	// The whole world of clients is cut off, so that the servers are looked at
	// past the network: the key is what keeps others out.
	test := func(f fleet, cut, heal func()) {
		s := f.master()
		crowds := f.crowds()
		var holders []*holder
		var rivals []*rival
		for _, w := range f {
			holders = append(holders, w.keep(w.open(), w.key("held")))
			rivals = append(rivals, w.rival(w.open(), w.key("held")))
		}
		crowds.await()
		cut()
		for i, h := range holders {
			h.w.eventually(lease+slack, "the key has expired", func() bool { return s.Int(h.w, "EXISTS", h.Name()) == 0 })
			free := time.Now()
			h.lost(slack, holdfast.LossExpired)
			h.inTime()
			if until, _ := h.last(); until.After(free) {
				h.w.errorf("the lock was free %v before its holder gave up", until.Sub(free))
			}
			if rivals[i].in() {
				h.w.errorf("granted through a cut network")
			}
		}
		heal()
		healed := time.Now()
		for i, r := range rivals {
			r.await(healed.Add(2 * time.Second))
			r.after(holders[i])
			r.release()
		}
		crowds.await()
		crowds.end(false)
		empty(f[0], s)
	}
	inSingle(t, func(w *world) {
		p := redistest.NewProxy(w, w.single.Addr())
		w.url = p.URL()
		test(fleet{w}, p.Freeze, p.Thaw)
	})
	inFleet(t, modes, func(f fleet) {
		s := f.sentinels()
		f.patient()
		test(f, func() { s.Partition(side{redistest.Clients}, s.Others()) }, s.Heal)
	}, redistest.WithPartitions())
}
