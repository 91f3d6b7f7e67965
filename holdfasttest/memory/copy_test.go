package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/holdfasttest/memory"
)

// A copy has the data and the clock of its original, and shares nothing with it.
func TestCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		s.SetClock(time.Minute)
		do := func(s *memory.Server, args ...string) any {
			t.Helper()
			reply, err := s.Do(args...)
			if err != nil {
				t.Fatal(err)
			}
			return reply
		}
		do(s, "HSET", "h", "f", "1")
		do(s, "SET", "k", "v", "PX", "1000")
		c := s.Copy()
		do(c, "HSET", "h", "f", "2")
		do(s, "HDEL", "h", "f")
		if got := do(c, "HGET", "h", "f"); got != "2" {
			t.Errorf("the copy has %v", got)
		}
		if got := do(s, "EXISTS", "h"); got != int64(0) {
			t.Errorf("the original has %v", got)
		}
		if got := do(c, "PTTL", "k"); got != int64(1000) {
			t.Errorf("in the copy, the key lives for %v ms", got)
		}
		time.Sleep(time.Second)
		if got := do(c, "EXISTS", "k"); got != int64(0) {
			t.Error("in the copy, the key does not expire")
		}
	})
}
