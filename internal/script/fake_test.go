package script_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

var fakeSeed = flag.Uint64("fake.seed", 0, "seed of the calls in TestFakeServer; 0: a new one")

// The server in memory that other tests use replies and publishes what a real one does, for
// random sequences of calls.
func TestFakeServer(t *testing.T) {
	seed := *fakeSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("run with -args -fake.seed=%d to repeat this", seed)
	s := redistest.Shared(t)
	d := connect(t, s.URL())
	random := rand.New(rand.NewPCG(seed, 0))
	compared := 0
	for i := 0; compared < 100; i++ {
		calls, heard := sequence(random, fmt.Sprint("fake:", i))
		start := time.Now()
		real := run(t, d, calls, heard, func() { s.Do(t, "PUBLISH", end, "") })
		if time.Since(start) > time.Second {
			continue // a lease may be over, on a busy machine
		}
		compared++
		faked := run(t, fake.New(), calls, heard, nil)
		for j := range calls {
			if real[j] != faked[j] {
				t.Fatalf("sequence %d:\n%s\nthe server says\n%s\nand the fake\n%s", i, strings.Join(describe(calls[:j+1]), "\n"), real[j], faked[j])
			}
		}
	}
}

// end is a channel by which a client knows that it has heard all messages.
const end = "fake:end"

// sequence returns random calls for a mutex, and the channels on which each of some clients
// listens.
func sequence(r *rand.Rand, name string) (calls []driver.Call, channels [][]string) {
	m := script.NewMutex(name)
	q := m.Queued()
	var owners []string
	for _, id := range []string{"a", "b", "c"} {
		owners = append(owners, id+":1", id+":2")
		if r.IntN(4) > 0 {
			channels = append(channels, append(q.GrantChannels(id), m.Channels("")...))
		}
	}
	if r.IntN(3) == 0 {
		channels = append(channels, m.Channels("")) // a client that does not queue
	}
	for range 30 {
		c := script.Claim{Owner: owners[r.IntN(len(owners))], Count: 1, Lease: time.Minute}
		if c.Owner == "b:2" || c.Owner == "c:1" {
			c.Lease = 1900 * time.Millisecond
		}
		switch n := r.IntN(20); {
		case n < 2:
			calls = append(calls, m.Claim(c))
		case n < 3:
			c.Count = 2
			calls = append(calls, m.Claim(c))
		case n < 11:
			c.Queue = true
			c.Check = r.IntN(2) == 0
			c.Most = max(r.IntN(8)-3, 0)
			calls = append(calls, q.Claim(c))
		case n < 12:
			calls = append(calls, m.Free(c.Owner))
		default:
			calls = append(calls, q.Free(c.Owner))
		}
	}
	return calls, channels
}

func describe(calls []driver.Call) (list []string) {
	for _, c := range calls {
		list = append(list, fmt.Sprint(c.Script.Name, " ", c.Args))
	}
	return list
}

// run sends calls, and returns for each of them the reply and what the clients have heard.
func run(t *testing.T, d driver.Driver, calls []driver.Call, channels [][]string, settle func()) (seen []string) {
	t.Helper()
	var ears []*fakeListener
	for _, cs := range channels {
		l := &fakeListener{confirmed: make(chan struct{}, 10), ended: make(chan struct{}, 1)}
		listening := d.Listen(l)
		defer func() { _ = listening.Close() }()
		listening.Subscribe(append(cs, end)...)
		for range len(cs) + 1 {
			<-l.confirmed
		}
		ears = append(ears, l)
	}
	for _, c := range calls {
		r, err := d.Do(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		line := c.Script.Name + ": " + text(c, r)
		if settle != nil {
			settle()
		}
		for i, l := range ears {
			if settle != nil {
				<-l.ended
			}
			line += fmt.Sprintf("\n  client %d hears %q", i, l.take())
		}
		seen = append(seen, line)
	}
	return seen
}

// text describes a reply without times.
func text(c driver.Call, r driver.Reply) string {
	switch {
	case r.Type == driver.List:
		return fmt.Sprintf("held, place %d", r.List[1].Int)
	case !fake.Acquire(c):
		return fmt.Sprint(r.Int)
	case r.Int > 0:
		return "granted"
	}
	return fmt.Sprintf("held for %v", (time.Duration(-r.Int) * time.Millisecond).Round(10*time.Second))
}

// A fakeListener keeps what it hears.
type fakeListener struct {
	mu               sync.Mutex
	heard            []string
	confirmed, ended chan struct{}
}

var inGrant = regexp.MustCompile(` \d{16}( |$)`)

func (l *fakeListener) Message(channel, payload string) {
	if channel == end {
		l.ended <- struct{}{}
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, inGrant.ReplaceAllString(payload, " token ")+" on "+channel)
}

func (l *fakeListener) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	heard := slices.Clone(l.heard)
	l.heard = nil
	return heard
}

func (l *fakeListener) Subscribed(string, uint64) { l.confirmed <- struct{}{} }
func (*fakeListener) Lost([]string, error)        {}
