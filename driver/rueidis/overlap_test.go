package rueidis

import (
	"testing"
	"testing/synctest"
	"time"
)

// A call waits for another one to end, so that the connection keeps its fast path.
func TestOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &commandConn{single: make(chan struct{}, 1)}
		if !c.enter() {
			t.Fatal("the only call was not let in")
		}
		go func() {
			time.Sleep(maxOverlap / 2)
			c.leave()
		}()
		if !c.enter() {
			t.Error("a call did not wait for another one")
		}
		began := time.Now()
		if c.enter() {
			t.Error("two calls at the same time")
		}
		if took := time.Since(began); took != maxOverlap {
			t.Errorf("a call waited for %v", took)
		}
		c.piped.Store(true)
		c.leave()
		if c.enter() {
			t.Error("a call is alone in the pipeline")
		}
	})
}

// If calls overlap often, they do not wait.
func TestFrequentOverlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &commandConn{single: make(chan struct{}, 1)}
		waits := func() (n int) {
			c.enter()
			defer c.leave()
			for range 2 * overlaps {
				began := time.Now()
				c.enter()
				if time.Since(began) > 0 {
					n++
				}
			}
			c.waited.Store(overlaps)
			return n
		}
		if n := waits(); n != overlaps {
			t.Errorf("%d calls waited, want %d", n, overlaps)
		}
		for range 3 * overlapFor {
			c.enter()
			c.leave()
		}
		if n := waits(); n != 3 {
			t.Errorf("%d calls waited after %d without an overlap, want 3", n, 3*overlapFor)
		}
		for range 100 * overlapFor {
			c.enter()
			c.leave()
		}
		if n := waits(); n != overlaps {
			t.Errorf("%d calls waited after a long time without an overlap, want %d", n, overlaps)
		}
	})
}
