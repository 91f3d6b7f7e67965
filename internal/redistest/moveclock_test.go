package redistest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMoveClock(t *testing.T) {
	t.Parallel()
	s := redistest.StartWith(t, redistest.WithClock())
	pid := s.PID()
	ahead := func() time.Duration {
		reply := s.Strings(t, "TIME")
		sec, err := time.ParseDuration(reply[0] + "s" + reply[1] + "us")
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(sec.Nanoseconds() - time.Now().UnixNano()).Round(10 * time.Second)
	}
	if d := ahead(); d != 0 {
		t.Errorf("the clock starts %v ahead", d)
	}
	s.Do(t, "SET", "k", "v", "PX", "60000")
	s.MoveClock(-time.Minute)
	if d := ahead(); d != -time.Minute {
		t.Errorf("the clock is %v ahead, want -1m", d)
	}
	if ms := s.Int(t, "PTTL", "k"); ms < 100_000 {
		t.Errorf("a key lives for %d ms, want about 120000", ms)
	}
	s.MoveClock(3 * time.Minute)
	if d := ahead(); d != 2*time.Minute {
		t.Errorf("the clock is %v ahead, want 2m", d)
	}
	if got := s.Do(t, "GET", "k"); got != nil {
		t.Errorf("the key outlived its time: %v", got)
	}
	if s.PID() != pid || s.Do(t, "PING") != "PONG" {
		t.Error("the server has not survived")
	}
	s.Restart()
	if d := ahead(); d != 2*time.Minute {
		t.Errorf("after a restart the clock is %v ahead, want 2m", d)
	}
}

// Each server of a group has a clock of its own.
func TestMoveClockOfReplica(t *testing.T) {
	t.Parallel()
	r := redistest.StartReplicated(t, 1, redistest.WithClock())
	master, replica := r.Master(), r.Replicas()[0]
	replica.MoveClock(time.Hour)
	master.Do(t, "SET", "k", "v")
	master.Do(t, "PEXPIREAT", "k", fmt.Sprint(time.Now().Add(time.Minute).UnixMilli())) // before 7.0, replicas receive other times as durations
	master.Do(t, "WAIT", "1", "5000")
	if got := replica.Do(t, "GET", "k"); got != nil {
		t.Errorf("a replica whose clock is ahead has %v", got)
	}
	if got := master.Do(t, "GET", "k"); got != "v" {
		t.Errorf("the master has %v", got)
	}
}
