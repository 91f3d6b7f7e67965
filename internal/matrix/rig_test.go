package matrix_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A world is a deployment in which something goes wrong.
type world struct {
	*testing.T
	name string
	url  string
	mode holdfast.Replication

	prefix  string // of the names of the crowd
	clients []*holdfast.Client
	stalls  *redistest.StallMeter // of the master; see holder.lost

	single    *redistest.Server    // nil in other worlds
	sentinels *redistest.Sentinels // nil in other worlds
	cluster   *redistest.Cluster   // nil in other worlds
}

var (
	async = holdfast.Replication{Mode: holdfast.Async}
	acked = holdfast.Replication{Mode: holdfast.Acked}
)

func strict(replicas int) holdfast.Replication {
	return holdfast.Replication{Mode: holdfast.Strict, Replicas: replicas, Timeout: 500 * time.Millisecond}
}

// inSingle runs a test with one server.
func inSingle(t *testing.T, test func(*world), opts ...redistest.Option) {
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		s := redistest.StartWith(t, opts...)
		test(&world{T: t, name: "single", url: s.URL(), mode: async, single: s})
	})
}

// inSentinel runs a test under sentinels that replace nobody, in each of the
// modes.
func inSentinel(t *testing.T, modes []holdfast.Replication, test func(*world), opts ...redistest.Option) {
	for _, mode := range modes {
		t.Run("sentinel/"+mode.Mode.String(), func(t *testing.T) {
			t.Parallel()
			s := redistest.StartSentinels(t, opts...)
			w := &world{T: t, name: "sentinel", url: s.URL(), mode: mode, sentinels: s}
			fleet{w}.patient()
			test(w)
		})
	}
}

// inCluster runs a test in a cluster, in each of the modes.
func inCluster(t *testing.T, modes []holdfast.Replication, test func(*world), opts ...redistest.Option) {
	for _, mode := range modes {
		t.Run("cluster/"+mode.Mode.String(), func(t *testing.T) {
			t.Parallel()
			c := redistest.StartCluster(t, opts...)
			test(&world{T: t, name: "cluster", url: c.URL(), mode: mode, cluster: c})
		})
	}
}

// lease is the lease time of renewed leases.
const lease = 4 * time.Second

// open returns a client of the world.
func (w *world) open(change ...func(*holdfast.Options)) *holdfast.Client {
	w.Helper()
	return w.openAt(w.url, change...)
}

// enduring returns a URL for clients that wait for the answer of a server that may
// stand still for longer than the two seconds that are the default.
func enduring(url string) string {
	sep := "?"
	if strings.Contains(url, sep) {
		sep = "&"
	}
	return url + sep + "timeout=10s&dial_timeout=10s"
}

// openAt returns a client with another URL.
func (w *world) openAt(url string, change ...func(*holdfast.Options)) *holdfast.Client {
	w.Helper()
	o := holdfast.Options{
		WatchdogTimeout: lease, RenewEvery: 500 * time.Millisecond,
		PollInterval: time.Second, RetryTimeout: 60 * time.Second, Replication: w.mode,
	}
	for _, f := range change {
		f(&o)
	}
	c, err := holdfast.Open(w.Context(), url, o)
	for end := time.Now().Add(30 * time.Second); errors.Is(err, holdfast.ErrUnavailable) && time.Now().Before(end); {
		c, err = holdfast.Open(w.Context(), url, o) // a server stood still
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = c.Close() })
	w.clients = append(w.clients, c)
	return c
}

// master returns the server that keeps a name.
func (w *world) master(name string) *redistest.Server {
	w.Helper()
	switch {
	case w.sentinels != nil:
		return w.sentinels.Master()
	case w.cluster != nil:
		return w.cluster.MasterOf(name)
	}
	return w.single
}

// A crowd contends for a few names for as long as something goes wrong, and
// writes down who held what from when to when.
type crowd struct {
	w      *world
	names  []string
	stop   context.CancelFunc
	wg     sync.WaitGroup
	record bytes.Buffer
	rec    *redistest.Recorder

	mu     sync.Mutex
	grants []grant
	errs   []error
}

// A grant is a token, and when the lease was asked for and granted.
type grant struct {
	name         string
	token        int64
	asked, given int64
}

// crowd sets some clients on some names, each with two goroutines.
func (w *world) crowd(clients, names int) *crowd {
	ctx, stop := context.WithCancel(context.Background())
	c := &crowd{w: w, stop: stop}
	c.rec = redistest.NewRecorder(&c.record)
	for i := range names {
		c.names = append(c.names, fmt.Sprint(w.prefix, "crowd-", i))
	}
	w.Cleanup(stop)
	for range clients {
		client := w.open(func(o *holdfast.Options) { o.RetryTimeout = 300 * time.Millisecond })
		for range 2 {
			c.wg.Go(func() {
				for ctx.Err() == nil {
					c.once(ctx, client)
				}
			})
		}
	}
	return c
}

func (c *crowd) once(ctx context.Context, client *holdfast.Client) {
	name := c.names[rand.IntN(len(c.names))]
	asked := redistest.Now()
	l, err := client.Mutex(name).Lock(ctx)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, holdfast.ErrUnavailable) {
			c.mu.Lock()
			c.errs = append(c.errs, err)
			c.mu.Unlock()
		}
		return
	}
	g := grant{name, l.Token(), asked, redistest.Now()}
	iv := redistest.Interval{Name: name, Owner: fmt.Sprint(l.Owner(), "#", l.Token())}
	work := rand.N(20 * time.Millisecond)
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		now := redistest.Now() // before the lease is asked: it was valid at that moment
		if !l.Valid() {
			break
		}
		if iv.Enter == 0 {
			iv.Enter = now
		}
		iv.Leave = now
		if time.Since(start) >= work {
			break
		}
	}
	if iv.Enter != 0 {
		c.rec.Record(iv)
		c.mu.Lock()
		c.grants = append(c.grants, g)
		c.mu.Unlock()
	}
	_ = l.Release(ctx) // a loss is no error here
}

// granted is how many leases there were so far.
func (c *crowd) granted() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.grants)
}

// grantedAfter is how many leases were granted after a moment.
func (c *crowd) grantedAfter(moment int64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, g := range c.grants {
		if g.given > moment {
			n++
		}
	}
	return n
}

// await waits until so many more leases were granted.
func (c *crowd) await(more int) time.Duration {
	const within = 40 * time.Second
	c.w.Helper()
	start, want := time.Now(), c.granted()+more
	for c.granted() < want {
		if time.Since(start) > within {
			c.w.Fatalf("only %d of %d leases were granted within %v", c.granted()-want+more, more, within)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(start)
}

// end stops the crowd and checks the promises: nobody failed with anything but
// ErrUnavailable; if exclusive, no two held a name at once (P1); tokens rise in the
// order of the grants (P3).
func (c *crowd) end(exclusive bool) {
	c.w.Helper()
	c.stop()
	c.wg.Wait()
	for i, err := range c.errs {
		if i < 5 {
			c.w.Errorf("a lock failed: %v", err)
		}
	}
	if exclusive {
		if err := c.overlap(); err != nil {
			c.w.Error(err)
		}
	}
	if err := c.disorder(); err != nil {
		c.w.Error(err)
	}
}

// overlap returns an error if two held a name at once.
func (c *crowd) overlap() error {
	ivs, err := redistest.ReadIntervals(bytes.NewReader(c.record.Bytes()))
	if err != nil {
		return err
	}
	return redistest.CheckExclusive(ivs)
}

// clockError is how far the wall clocks that two servers read may be apart, and
// set back, on one machine. Tokens that come from them can be no better.
const clockError = 20 * time.Millisecond

// disorder returns an error if a lease that was asked for after another had been
// granted has a lower token.
func (c *crowd) disorder() error {
	byName := make(map[string][]grant)
	for _, g := range c.grants {
		byName[g.name] = append(byName[g.name], g)
	}
	for _, gs := range byName {
		slices.SortFunc(gs, func(a, b grant) int { return cmp.Compare(a.token, b.token) })
		for i := 1; i < len(gs); i++ {
			if gs[i].token == gs[i-1].token || gs[i].given+clockError.Nanoseconds() < gs[i-1].asked {
				return fmt.Errorf("tokens of %q out of order: %+v and %+v", gs[i].name, gs[i-1], gs[i])
			}
		}
	}
	return nil
}

// loss waits for the end of a lease and returns when it came, and why.
func loss(l *holdfast.Lease, within time.Duration) (time.Time, holdfast.LossReason) {
	select {
	case <-l.Context().Done():
		at := time.Now()
		var lost *holdfast.LostError
		if errors.As(context.Cause(l.Context()), &lost) {
			return at, lost.Reason
		}
		return at, ""
	case <-time.After(within):
		return time.Time{}, "not lost"
	}
}
