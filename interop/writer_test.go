package interop_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A writerLoad is a writer beside readers of Holdfast, which read in a loop in several
// processes. The writer holds the lock for a moment and pauses.
type writerLoad struct {
	name               string
	writer             contender
	processes, readers int           // readers in each process
	hold               time.Duration // how long each reader holds the lock
}

// A writerResult is what a writer got of a lock while all readers were active.
type writerResult struct {
	reads  float64 // per second
	writes int
	waits  []int64 // the last one may have lasted longer
}

// run returns an error if a reader held the lock beside the writer.
func (l writerLoad) run(tb testing.TB, s *redistest.Server, d time.Duration) (r writerResult, err error) {
	tb.Helper()
	lock := []string{name(tb)}
	startReaders := holdfasts{}.Prepare(tb, s, l.processes, l.readers, task{Kind: "read", Names: lock, Hold: l.hold, Time: d})
	startWriter := l.writer.Prepare(tb, s, 1, 1, task{
		Kind: "write", Names: lock, Hold: time.Millisecond, Pause: 20 * time.Millisecond, Time: d,
	})
	resultOfReaders := startReaders()
	resultOfWriter := startWriter()
	readers := resultOfReaders()
	stop := wakeWriters(tb, s, lock[0])
	written := resultOfWriter()[0]
	stop()

	from, to := int64(0), int64(1<<62)
	for _, turns := range readers {
		if len(turns) == 0 {
			return r, fmt.Errorf("a reader did not get the lock in %v", d)
		}
		from, to = max(from, turns[0].Entered), min(to, turns[len(turns)-1].Done)
	}
	for _, v := range written {
		if v.Asked >= to || v.Entered < from {
			continue
		}
		r.waits = append(r.waits, min(v.Entered, to)-max(v.Asked, from))
		if v.Entered < to {
			r.writes++
		}
	}
	reads := 0
	for _, turns := range readers {
		for _, v := range turns {
			if from <= v.Entered && v.Entered < to {
				reads++
			}
			// The first write that ends after this reader has entered.
			i, _ := slices.BinarySearchFunc(written, v.Entered, func(w turn, at int64) int { return cmp.Compare(w.Left, at) })
			if i < len(written) && written[i].Entered < v.Left {
				return r, fmt.Errorf("a reader held the lock from %d to %d, and the writer from %d to %d",
					v.Entered, v.Left, written[i].Entered, written[i].Left)
			}
		}
	}
	r.reads = float64(reads) / time.Duration(to-from).Seconds()
	return r, nil
}

// BenchmarkWriter prints how long a writer waits beside 64 readers of Holdfast. A wait
// ends at the latest with the measurement.
func BenchmarkWriter(b *testing.B) {
	const d = 6 * time.Second
	s := redistest.Start(b)
	warmUp(b, s)
	for b.Loop() {
		rows := [][]string{{"writer", "readers hold for", "reads/s", "writes", "wait p50, ms", "p99, ms", "longest, ms"}}
		for _, hold := range []time.Duration{0, time.Millisecond} {
			for _, l := range []writerLoad{
				{"Redisson", &javaFleet, 4, 16, hold},
				{"Holdfast", holdfasts{}, 4, 16, hold},
			} {
				r, err := l.run(b, s, d)
				if err != nil {
					b.Error(l.name, ": ", err)
				}
				rows = append(rows, []string{
					l.name, hold.String(), figure(r.reads), fmt.Sprint(r.writes),
					figure(micros(r.waits, 50) / 1000), figure(micros(r.waits, 99) / 1000), figure(micros(r.waits, 100) / 1000),
				})
			}
		}
		printTable(os.Stdout, rows)
	}
	b.ReportMetric(0, "ns/op")
}
