package soak_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// roundTime is the length of a round.
const roundTime = 5 * time.Minute

// A round is a part of a soak, with its own names and worker processes.
type round struct {
	rig    *rig
	number int
	seed   uint64
	length time.Duration
	users  int    // goroutines of each client
	dir    string // for records
}

// run runs a round, and judges it.
func (r round) run(tb testing.TB) (found []finding, f figures, records []record) {
	t := &scene{TB: tb, dir: r.dir}
	defer t.end()
	g := r.rig
	g.round = fmt.Sprintf("s%d:", r.number)
	rec := newRecorder(r.dir, "")
	j := job{Dir: r.dir, Round: g.round, Replicas: g.replicas, Users: r.users}
	last := open(t, g, j)
	for _, n := range permits {
		if _, err := last.LeasedSemaphore(semaphoreName(g.round, n)).TrySet(t.Context(), n, 0); err != nil {
			t.Fatal(err)
		}
	}
	stop := make(chan struct{})
	var watchers, harm sync.WaitGroup
	watchers.Go(func() { heartbeat(rec, stop) })
	for _, s := range g.nodes {
		watchers.Go(func() { probe(rec, s, g.replicas, stop) })
	}
	var once sync.Once
	unwatch := func() { once.Do(func() { close(stop); watchers.Wait() }) }
	defer unwatch()

	ctx, cancel := context.WithTimeout(t.Context(), r.length)
	defer cancel()
	c := newCrew(t, rec, j, g, r.seed)
	harm.Go(func() { c.harm(ctx, rand.New(rand.NewPCG(r.seed, 1))) })
	g.harm(ctx, t, rec, rand.New(rand.NewPCG(r.seed, 2)), &c.calm)
	harm.Wait()
	g.steady()
	c.end()
	unwatch()

	records, err := readRecords(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	h := newHistory(records)
	found, f = judge(h)
	for _, text := range judgeLeft(t, g, last, len(h.killed) > 0) {
		found = append(found, finding{"P7", g.round, h.end, text})
	}
	for _, s := range g.masters() {
		s.Do(t, "FLUSHALL")
	}
	f.Memory = memory(t, g.masters())
	return found, f, records
}

// open opens a client of the conductor.
func open(t testing.TB, g *rig, j job) *holdfast.Client {
	o := j.options()[0]
	c, err := holdfast.Open(t.Context(), g.url(0), &o)
	if err != nil {
		redistest.Poll(30*time.Second, func() bool {
			c, err = holdfast.Open(t.Context(), g.url(0), &o)
			return err == nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// harm lets one fault follow the other until ctx is done, in storms with pauses between. In every
// other pause, the workers are not harmed either. All random numbers of a fault come from its own
// seed, so the sequence depends on r only.
func (g *rig) harm(ctx context.Context, tb testing.TB, rec *recorder, r *rand.Rand, calm *atomic.Bool) {
	var weighted []fault
	for _, f := range g.faults {
		for range f.weight {
			weighted = append(weighted, f)
		}
	}
	for storm := 1; ; storm++ {
		rest(ctx.Done(), between(r, 0, time.Second))
		for range 4 + r.IntN(5) {
			f, worker, seed := weighted[r.IntN(len(weighted))], r.IntN(workers), r.Uint64()
			rest(ctx.Done(), between(r, 200*time.Millisecond, 3*time.Second))
			if ctx.Err() != nil {
				return
			}
			from := redistest.Now()
			f.do(tb, rand.New(rand.NewPCG(seed, 0)), worker)
			fault := record{At: from, Event: evFault, To: redistest.Now(), Text: f.name}
			if f.worker {
				fault.Process = strconv.Itoa(worker)
			} else {
				g.steady()
				fault.To = redistest.Now()
			}
			rec.add(fault)
		}
		pause := between(r, 12*time.Second, 25*time.Second)
		if calm.Store(storm%2 == 0); calm.Load() {
			pause += recent // so that messages alone must wake waiters
		}
		rest(ctx.Done(), pause)
		calm.Store(false)
	}
}

// TestSoak runs for HOLDFAST_SOAK hours, in the topology HOLDFAST_SOAK_TOPOLOGY, with the seed
// HOLDFAST_SOAK_SEED, and writes the file HOLDFAST_SOAK_REPORT.
func TestSoak(t *testing.T) {
	if os.Getenv("HOLDFAST_SOAK") == "" {
		t.Skip("runs by make soak")
	}
	hours, err := strconv.ParseFloat(os.Getenv("HOLDFAST_SOAK"), 64)
	if err != nil || hours <= 0 {
		t.Fatalf("HOLDFAST_SOAK is %q: set it to the number of hours, such as 0.5", os.Getenv("HOLDFAST_SOAK"))
	}
	rep := newReport(t, hours)
	defer rep.write(t)
	g := topologies[rep.Topology](t)
	const least = 20 * time.Second
	for left := rep.Length; rep.Rounds == 0 || left > least; left = rep.Length - time.Since(rep.Start) {
		rep.round(t, g, min(left, roundTime))
		rep.write(t)
	}
}

// roundSeed returns the seed of a round.
func roundSeed(seed uint64, number int) uint64 {
	return rand.New(rand.NewPCG(seed, uint64(number))).Uint64()
}

// A few seconds with one server show that processes, faults and judges work.
func TestShort(t *testing.T) {
	t.Parallel()
	r := round{rig: oneServer(t), seed: 76501, length: 3 * time.Second, users: 2, dir: t.TempDir()}
	found, f, records := r.run(t)
	for _, x := range found {
		t.Errorf("%v\n%s", x, timeline(records, x.Name, x.At))
	}
	if f.Grants < 20 || len(f.Kinds) < 5 || f.Faults["worker killed"]+f.Faults["worker stopped"] == 0 {
		t.Errorf("too little happened: %+v", f)
	}
}

// TestRecords judges the records in the directory HOLDFAST_SOAK_RECORDS once more.
func TestRecords(t *testing.T) {
	dir := os.Getenv("HOLDFAST_SOAK_RECORDS")
	if dir == "" {
		t.Skip("judges the records in HOLDFAST_SOAK_RECORDS")
	}
	records, err := readRecords(dir)
	if err != nil {
		t.Fatal(err)
	}
	found, f := judge(newHistory(records))
	for _, x := range found {
		t.Errorf("%v\n%s", x, timeline(records, x.Name, x.At))
	}
	t.Logf("%+v", f)
}
