package rueidis_test

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A server that has too many clients turns new ones away in a way that answers
// no request. That is an error like any other, and goes away.
func TestCrowdedServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := connect(t, s.URL())
	var wg sync.WaitGroup
	end := time.Now().Add(3 * time.Second)
	for range 8 {
		wg.Go(func() {
			for time.Now().Before(end) {
				if _, err := d.Do(t.Context(), addOne("k")); driver.ClassOf(err) == driver.Fatal && err != nil {
					t.Errorf("crowded: %v", err)
				}
				for _, r := range d.DoAcked(t.Context(), []driver.Call{addOne("k")}, 1, time.Millisecond) {
					if r.Err != nil && driver.ClassOf(r.Err) == driver.Fatal {
						t.Errorf("crowded: %v", r.Err)
					}
				}
			}
		})
	}
	for time.Now().Before(end) {
		s.Do(t, "CONFIG", "SET", "maxclients", "1")
		s.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		time.Sleep(20 * time.Millisecond)
		s.Do(t, "CONFIG", "SET", "maxclients", "10000")
		time.Sleep(20 * time.Millisecond)
	}
	wg.Wait()
	eventually(t, patience, "the server has room again", func() bool { // what it has hung up on may not be noticed yet
		_, err := d.Do(t.Context(), addOne("k"))
		return err == nil
	})
}
