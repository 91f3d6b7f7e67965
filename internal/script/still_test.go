package script_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A still is a driver to a server whose time stands still, at that many ms.
type still struct {
	*testing.T
	driver.Driver
	name string // of what is tested
	at   int64
}

// begin is the time at which stills begin: an interval before it there must be
// time, too.
const begin = 1_000_000_000_000

// Do runs a script with the time of the still instead of the server's.
func (s *still) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	source := strings.Replace(c.Script.Source, "redis.call('time')", fmt.Sprintf("{ %d, %d }", (begin+s.at)/1000, (begin+s.at)%1000*1000), 1)
	if source == c.Script.Source {
		s.Fatalf("%s does not ask for the time", c.Script.Name)
	}
	c.Script = driver.NewScript(c.Script.Name, source)
	return s.Driver.Do(ctx, c)
}

func (s *still) wants(want, got int64) {
	s.Helper()
	if got != want {
		s.Errorf("at %d ms: %d, want %d", s.at, got, want)
	}
}

// A lease of permits lasts to its end, to the millisecond, and no longer.
func TestPermitsInStillTime(t *testing.T) {
	server := redistest.Start(t)
	s := &still{T: t, Driver: connect(t, server.URL()), name: "N"}
	p := script.NewLeased(s.name, 1)
	take := func(owner string) int64 {
		t.Helper()
		v, err := script.Acquire(t.Context(), s, p, script.Claim{Owner: owner, Lease: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if v.Granted() {
			return 0
		}
		return v.TTL.Milliseconds()
	}
	renew := func(owner string) bool {
		t.Helper()
		held, err := script.Prolong(t.Context(), s, p.Ref(owner), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return held
	}
	release := func(owner string) bool {
		t.Helper()
		f, err := p.Release(t.Context(), s, owner, 0)
		if err != nil {
			t.Fatal(err)
		}
		return f.Held
	}
	server.Do(t, "SET", "N", "1")
	s.wants(0, take("a:1"))
	s.at = 999
	s.wants(1, take("b:1"))
	if !renew("a:1") {
		t.Error("not held in its last millisecond")
	}
	s.at = 1998
	s.wants(1, take("b:1"))
	s.at = 1999
	if renew("a:1") {
		t.Error("renewed when it was over")
	}
	s.wants(0, take("b:1"))
	if release("a:1") {
		t.Error("another's was given back")
	}
	s.at = 2998
	s.wants(1, take("c:1"))
	s.at = 2999
	if release("b:1") {
		t.Error("held when it was over")
	}
	s.wants(0, take("c:1"))
	s.wants(0, server.Int(t, "GET", "N"))
}
