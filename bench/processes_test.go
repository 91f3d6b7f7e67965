package bench_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/redis/rueidis"
)

func init() { workers["hot"] = hotWorker }

const hotTime = 3 * time.Second

// A hotReport is what one process did to a hot name.
type hotReport struct {
	Counts  []int // acquisitions of each goroutine
	Longest time.Duration
}

// hotWorker contends for a name with four goroutines, as soon as it has read a line.
func hotWorker() {
	c, err := holdfast.Open(context.Background(), os.Getenv("TEST_URL"), nil)
	if err != nil {
		panic(err)
	}
	m := c.Mutex("hot")
	var line string
	_, _ = fmt.Scanln(&line)
	r := hotReport{Counts: make([]int, 4)}
	longest := make([]time.Duration, 4)
	start := time.Now()
	var wg sync.WaitGroup
	for i := range r.Counts {
		wg.Go(func() {
			for time.Since(start) < hotTime {
				asked := time.Now()
				l, err := m.Lock(context.Background())
				if err != nil {
					panic(err)
				}
				longest[i] = max(longest[i], time.Since(asked))
				r.Counts[i]++
				_ = l.Release(context.Background())
			}
		})
	}
	wg.Wait()
	for _, d := range longest {
		r.Longest = max(r.Longest, d)
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		panic(err)
	}
}

// BenchmarkHotProcesses has eight processes of four goroutines each contend for one
// name.
func BenchmarkHotProcesses(b *testing.B) {
	s := redistest.Start(b)
	for b.Loop() {
		var ws []*redistest.Process
		for range 8 {
			ws = append(ws, redistest.Worker(b, "hot", "TEST_URL="+s.URL()))
		}
		time.Sleep(time.Second) // until all are connected
		s.Do(b, "CONFIG", "RESETSTAT")
		for _, w := range ws {
			w.Send("go")
		}
		var all, perProcess []int
		var longest time.Duration
		total := 0
		for _, w := range ws {
			var r hotReport
			if err := json.Unmarshal([]byte(<-w.Lines()), &r); err != nil {
				b.Fatal(err)
			}
			sum := 0
			for _, n := range r.Counts {
				sum += n
			}
			total += sum
			all = append(all, r.Counts...)
			perProcess = append(perProcess, sum)
			longest = max(longest, r.Longest)
		}
		commands := locktest.Calls(b, s, "evalsha")
		b.ReportMetric(float64(total)/hotTime.Seconds(), "handoffs/s")
		b.ReportMetric(fairness(all), "Jain-goroutines")
		b.ReportMetric(fairness(perProcess), "Jain-processes")
		b.ReportMetric(float64(commands)/float64(total), "commands/handoff")
		b.ReportMetric(float64(longest.Milliseconds()), "ms-longest")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkWakeUp measures how long it takes from a release in one client to
// the grant in another, and, turn by turn, the least that can take: publish,
// receive, EVALSHA.
func BenchmarkWakeUp(b *testing.B) {
	s := redistest.Start(b)
	ctx := context.Background()
	f := newFloor(b, s)
	received := make(chan struct{}, 1)
	conn, done := f.client.Dedicate()
	defer done()
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) { received <- struct{}{} }})
	if err := conn.Do(ctx, conn.B().Subscribe().Channel("floor").Build()).Error(); err != nil {
		b.Fatal(err)
	}
	holder, waiter := locktest.Open(b, s.URL()).Mutex("wake"), locktest.Open(b, s.URL()).Mutex("wake")
	granted := make(chan *holdfast.Lease)
	asked := make(chan struct{})
	go func() {
		for range asked {
			l, err := waiter.Lock(ctx)
			if err != nil {
				panic(err)
			}
			granted <- l
		}
	}()
	bare := make(chan struct{})
	go func() {
		for range received {
			f.client.Do(ctx, f.client.B().Evalsha().Sha1(f.lock).Numkeys(1).Key("floor").Arg("30000", "me:1").Build())
			bare <- struct{}{}
		}
	}()
	var ours, floors []time.Duration
	for b.Loop() {
		l, err := holder.Lock(ctx)
		if err != nil {
			b.Fatal(err)
		}
		// A client that has just released a lock yields for a moment. This measures
		// one that has not.
		time.Sleep(5 * time.Millisecond)
		asked <- struct{}{}
		time.Sleep(2 * time.Millisecond) // until it waits
		start := time.Now()
		_ = l.Release(ctx)
		got := <-granted
		ours = append(ours, time.Since(start))
		_ = got.Release(ctx)

		start = time.Now()
		f.client.Do(ctx, f.client.B().Publish().Channel("floor").Message("0").Build())
		<-bare
		floors = append(floors, time.Since(start))
	}
	close(asked)
	close(received) // nothing is published any more
	o, fl := locktest.Median(ours), locktest.Median(floors)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(o.Microseconds()), "µs-p50")
	b.ReportMetric(float64(ours[len(ours)*99/100].Microseconds()), "µs-p99")
	b.ReportMetric(float64(fl.Microseconds()), "µs-floor-p50")
	b.ReportMetric(float64(floors[len(floors)*99/100].Microseconds()), "µs-floor-p99")
}
