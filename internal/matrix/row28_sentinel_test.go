package matrix_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// What an operator does to a server that works: nobody is cut off, and nothing
// fails over.
func TestRow28OperatorsHand(t *testing.T) {
	t.Parallel()
	test := func(f fleet) {
		f.patient()
		f.run("scripts flushed", scriptsFlushed)
		f.run("row 29: keys deleted", keysDeleted)
		f.run("row 30: keys evicted", keysEvicted)
		f.run("row 31: out of memory", outOfMemory)
		f.run("row 13: message lost", messageLost)
		empty(f[0], f.master())
	}
	alone(t, test)
	inFleet(t, modes, test)
}

// Row 28: the server forgets all scripts, at any moment. Nobody notices.
func scriptsFlushed(f fleet) {
	crowds := f.crowds()
	var holders []*holder
	for _, w := range f {
		holders = append(holders, w.keep(w.open(), w.key("held")))
	}
	for range 3 {
		crowds.await()
		f.master().Do(f[0], "SCRIPT", "FLUSH")
	}
	crowds.await()
	crowds.end(false)
	for _, h := range holders {
		h.kept()
	}
}

// Row 29: the holder learns of it with the next renewal, and tokens go on
// rising.
func keysDeleted(f fleet) {
	faults := []struct {
		name string
		do   func(w *world, name string)
	}{
		{"DEL", func(w *world, name string) { w.master(name).Do(w, "DEL", name) }},
		{"ForceUnlock", func(w *world, name string) {
			if ok, err := w.open().Mutex(name).ForceUnlock(w.Context()); err != nil || !ok {
				w.errorf("ForceUnlock: %v, %v", ok, err)
			}
		}},
		{"FLUSHALL", func(w *world, name string) { w.master(name).Do(w, "FLUSHALL") }},
	}
	for _, fault := range faults {
		for _, w := range f {
			name := w.key(fault.name)
			h := w.keep(w.open(long), name)
			r := w.rival(w.open(), name)
			time.Sleep(50 * time.Millisecond) // so that the rival waits
			start := time.Now()
			fault.do(w, name)
			told := h.lost(10*time.Second, holdfast.LossNotOwner)
			if took := told.Sub(start); took > 500*time.Millisecond+slack {
				w.errorf("%s: told after %v", fault.name, took)
			}
			r.await(start.Add(time.Second))
			r.rises(h)
			r.release()
		}
	}
}

// Row 30: the same when the server evicts a lock to have room.
func keysEvicted(f fleet) {
	s := f.master()
	for _, w := range f {
		h := w.keep(w.open(long), w.key("evicted"))
		s.Do(w, "CONFIG", "SET", "maxmemory-policy", "volatile-ttl", "maxmemory", "1")
		start := time.Now()
		_, _ = s.Try("SET", "more", "x") // has the server evict; it is refused all the same
		told := h.lost(10*time.Second, holdfast.LossNotOwner)
		if took := told.Sub(start); took > 500*time.Millisecond+slack {
			w.errorf("told after %v", took)
		}
		s.Do(w, "CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "0")
		s.Do(w, "DEL", "more")
	}
}

// Row 31: a full server refuses to grant, at once and with a clear word, but
// lets leases be renewed and released.
func outOfMemory(f fleet) {
	s := f.master()
	for _, w := range f {
		c := w.open()
		h := w.keep(c, w.key("before"))
		again, err := c.Mutex(w.key("before")).Lock(h.Context())
		if err != nil {
			w.Fatal(err)
		}
		s.Do(w, "CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "1")
		start := time.Now()
		if _, err := c.Mutex(w.key("more")).Lock(w.Context()); !errors.Is(err, holdfast.ErrRefused) {
			w.errorf("granted by a full server: %v", err)
		} else if time.Since(start) > time.Second+slack {
			w.errorf("refused after %v", time.Since(start))
		}
		_, before := h.last()
		w.eventually(slack, "a renewal on a full server", func() bool {
			_, now := h.last()
			return now.After(before.Add(100 * time.Millisecond))
		})
		if err := again.Release(context.Background()); err != nil {
			w.errorf("the inner release on a full server: %v", err)
		}
		h.kept()
		if n := s.Int(w, "EXISTS", w.key("before")); n != 0 {
			w.errorf("released, and still there")
		}
		s.Do(w, "CONFIG", "SET", "maxmemory", "0")
	}
}

// Row 13: the lock is free and nobody has heard of it. And the connection on
// which messages come is cut just before there is one.
func messageLost(f fleet) {
	s := f.master()
	for _, w := range f {
		name := w.key("silent")
		s.Do(w, "HSET", name, "somebody:1", "1")
		s.Do(w, "PEXPIRE", name, "60000")
		r := w.rival(w.open(), name)
		time.Sleep(200 * time.Millisecond) // so that the rival waits
		s.Do(w, "DEL", name)
		r.await(time.Now().Add(time.Second))
		h, again := w.watch(r.lease), w.rival(w.open(), name)
		time.Sleep(200 * time.Millisecond)
		s.Do(w, "CLIENT", "KILL", "TYPE", "pubsub")
		h.kept()
		again.await(time.Now().Add(time.Second))
		again.after(h)
		again.release()
	}
}
