package matrix_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// The server stands still for less than the lease: nobody notices. (Less than
// its Sentinels bear, where it has some; row 20 is about more.)
func TestRow14ShortPause(t *testing.T) {
	t.Parallel()
	test := func(f fleet) {
		f.patient()
		s := f.master()
		crowds := f.crowds()
		var holders []*holder
		for _, w := range f {
			holders = append(holders, w.keep(w.open(long), w.key("held")))
		}
		for range 3 {
			crowds.await()
			s.Pause()
			time.Sleep(1500 * time.Millisecond)
			s.Resume()
		}
		crowds.await()
		crowds.end(false)
		for _, h := range holders {
			h.kept()
		}
		empty(f[0], s)
	}
	alone(t, test)
	inFleet(t, modes, test)
}

// The server stands still for longer than the lease: the holder gives up first,
// and the lock is free when the server is back.
func TestRow15LongPause(t *testing.T) {
	t.Parallel()
	alone(t, func(f fleet) {
		w := f[0]
		h := w.keep(w.open(), "held")
		r := w.rival(w.open(), "held")
		crowd := w.crowd(2, 2)
		crowd.await(10)
		w.single.Pause()
		h.lost(lease+slack, holdfast.LossExpired)
		h.inTime()
		if r.in() {
			w.errorf("a lock of a server that stands still")
		}
		time.Sleep(time.Second)
		resumed := time.Now()
		w.single.Resume()
		r.await(resumed.Add(time.Second))
		r.after(h)
		r.release()
		crowd.await(10)
		crowd.end(true)
		empty(w, w.single)
	})
}
