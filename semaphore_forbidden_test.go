package holdfast_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A script that is stopped in the middle loses no permit.
func TestForbiddenCommandsLoseNoPermit(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, forbidden := range []string{"set", "decrby", "incrby", "get", "pexpire"} {
		s.Do(t, "ACL", "SETUSER", "no-"+forbidden, "on", ">secret", "~*", "&*", "+@all", "-"+forbidden)
		c := open(t, "redis://no-"+forbidden+":secret@"+s.Addr())
		s.Do(t, "SET", "sem", "5")
		if err := c.Semaphore("sem").TryAcquire(t.Context(), 1); err != nil {
			time.Sleep(2 * time.Second) // undone, unless the machine stood still
			free := s.Do(t, "GET", "sem")
			for end := time.Now().Add(5 * time.Second); free != "5" && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				free = s.Do(t, "GET", "sem")
			}
			if free != "5" {
				t.Errorf("without %s: %v; and %v of 5 permits are free", forbidden, err, free)
			}
		}
	}
}
