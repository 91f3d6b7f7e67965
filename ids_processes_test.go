package holdfast_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func init() {
	workers["ids"] = func() { drawWorker(drawIDs) }
	workers["time ids"] = func() { drawWorker(drawTimeIDs) }
}

const (
	drawers   = 8 // processes
	perDrawer = 2 // goroutines of each
)

// drawWorker draws ids in some goroutines, and has each write its own file.
func drawWorker(draw func(c *holdfast.Client, n int) func(w io.Writer)) {
	c, err := holdfast.Open(context.Background(), os.Getenv("TEST_URL"))
	if err != nil {
		panic(err)
	}
	n, err := strconv.Atoi(os.Getenv("TEST_COUNT"))
	if err != nil {
		panic(err)
	}
	run := draw(c, n)
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		panic(err)
	}
	var wg sync.WaitGroup
	for i := range perDrawer {
		wg.Go(func() {
			f, err := os.Create(os.Getenv("TEST_FILE") + strconv.Itoa(i))
			if err != nil {
				panic(err)
			}
			w := bufio.NewWriterSize(f, 1<<16)
			run(w)
			if err := cmp.Or(w.Flush(), f.Close()); err != nil {
				panic(err)
			}
		})
	}
	wg.Wait()
	fmt.Println("done")
}

func put(w io.Writer, numbers ...int64) {
	for _, n := range numbers {
		if _, err := w.Write(binary.LittleEndian.AppendUint64(nil, uint64(n))); err != nil {
			panic(err)
		}
	}
}

// draw has processes draw that many ids each goroutine, all at the same time,
// and returns what each has written.
func draw(t *testing.T, worker string, count int) (files [][]int64) {
	t.Helper()
	s := redistest.Start(t)
	dir := t.TempDir()
	ws := make([]*redistest.Process, drawers)
	for i := range ws {
		ws[i] = redistest.Worker(t, worker, "TEST_URL="+s.URL(), fmt.Sprint("TEST_COUNT=", count), "TEST_FILE="+filepath.Join(dir, fmt.Sprint(i, "-")))
	}
	expect := func(w *redistest.Process, want string) {
		t.Helper()
		if line := <-w.Lines(); line != want {
			t.Fatalf("a worker says %q, want %q", line, want)
		}
	}
	for _, w := range ws {
		expect(w, "ready")
	}
	for _, w := range ws {
		w.Send("go")
	}
	for i, w := range ws {
		expect(w, "done")
		for j := range perDrawer {
			data, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(i, "-", j)))
			if err != nil {
				t.Fatal(err)
			}
			numbers := make([]int64, len(data)/8)
			for k := range numbers {
				numbers[k] = int64(binary.LittleEndian.Uint64(data[8*k:]))
			}
			files = append(files, numbers)
		}
	}
	return files
}

func drawIDs(c *holdfast.Client, n int) func(io.Writer) {
	g := c.IDGenerator("g")
	return func(w io.Writer) {
		for range n {
			id, err := g.Next(context.Background())
			if err != nil {
				panic(err)
			}
			put(w, id)
		}
	}
}

// Ten million ids in eight processes: each is looked at, and none was given out
// twice.
func TestIDsAcrossProcesses(t *testing.T) {
	t.Parallel()
	const each, block = 625_000, 5000
	const most = drawers*perDrawer*each + drawers*block // each process leaves less than a block
	given := make([]uint64, most/64+1)
	owner := make([]int, most/block+1) // of a block, plus one
	total := 0
	for i, ids := range draw(t, "ids", each) {
		last, process := int64(0), i/perDrawer+1
		for _, id := range ids {
			switch {
			case id <= last:
				t.Fatalf("%d after %d", id, last)
			case id > most:
				t.Fatalf("id %d: more were reserved than can have been used", id)
			case given[id/64]&(1<<(id%64)) != 0:
				t.Fatalf("id %d was given out twice", id)
			case owner[(id-1)/block] != 0 && owner[(id-1)/block] != process:
				t.Fatalf("id %d is of another process's block", id)
			}
			given[id/64] |= 1 << (id % 64)
			owner[(id-1)/block] = process
			last = id
			total++
		}
	}
	if total != 10_000_000 {
		t.Errorf("%d ids", total)
	}
	changes := 0
	for i := 1; i < len(owner); i++ {
		if owner[i] != owner[i-1] {
			changes++
		}
	}
	if changes < 10*drawers {
		t.Errorf("the processes drew one after the other: %d changes", changes)
	}
}

// A drawing is a call of NextN: when it began and returned, the first id, and
// how many.
type drawing struct{ began, returned, first, n int64 }

func drawTimeIDs(c *holdfast.Client, n int) func(io.Writer) {
	t := c.TimeID("t")
	return func(w io.Writer) {
		for left := n; left > 0; {
			d := drawing{began: redistest.Now(), n: 1}
			var err error
			if rand.IntN(10) > 0 {
				d.first, err = t.Next(context.Background())
			} else {
				d.n = int64(min(left, 1+rand.IntN(500)))
				var ids []int64
				ids, err = t.NextN(context.Background(), int(d.n))
				for i, id := range ids {
					d.first = ids[0]
					if id != ids[0]+int64(i) {
						panic("the ids of a call are not in a row")
					}
				}
			}
			if err != nil {
				panic(err)
			}
			d.returned = redistest.Now()
			put(w, d.began, d.returned, d.first, d.n)
			left -= int(d.n)
		}
	}
}

// Ids rise strictly over all processes: which of two calls came first shows in
// what they got.
func TestTimeIDsAcrossProcesses(t *testing.T) {
	t.Parallel()
	const each = 25_000
	before := time.Now().Truncate(time.Second)
	var all []drawing
	total := int64(0)
	for _, numbers := range draw(t, "time ids", each) {
		last := int64(0)
		for row := range slices.Chunk(numbers, 4) {
			d := drawing{row[0], row[1], row[2], row[3]}
			if d.first <= last {
				t.Fatalf("%d after %d", d.first, last)
			}
			last = d.first + d.n - 1
			total += d.n
			all = append(all, d)
		}
	}
	if total != drawers*perDrawer*each {
		t.Errorf("%d ids", total)
	}
	slices.SortFunc(all, func(a, b drawing) int { return cmp.Compare(a.first, b.first) })
	for i, d := range all {
		if at, _ := holdfast.ParseTimeID(d.first); at.Before(before) || at.After(time.Now().Add(time.Second)) {
			t.Fatalf("an id of %v", at)
		}
		if i > 0 && d.first < all[i-1].first+all[i-1].n {
			t.Fatalf("%+v and %+v overlap", all[i-1], d)
		}
	}
	// In the order of ids, none may have returned before an earlier one began.
	began := int64(0)
	for _, d := range all {
		if d.returned < began {
			t.Fatalf("%+v had returned when a call that got less began, at %d", d, began)
		}
		began = max(began, d.began)
	}
	t.Logf("%d ids in %d calls", total, len(all))
}

func newIDs(tb testing.TB) *holdfast.IDGenerator {
	g := open(tb, redistest.Start(tb).URL()).IDGenerator("g")
	if _, err := g.TryInit(context.Background(), 1, 1<<31-1); err != nil {
		tb.Fatal(err)
	}
	must[int64](tb)(g.Next(context.Background()))
	return g
}

func TestIDsAllocateNothing(t *testing.T) {
	g, ctx := newIDs(t), t.Context()
	if n := testing.AllocsPerRun(1000, func() { _, _ = g.Next(ctx) }); n != 0 {
		t.Errorf("%v allocations per id", n)
	}
}

// BenchmarkIDs draws ids from memory.
func BenchmarkIDs(b *testing.B) {
	g, ctx := newIDs(b), context.Background()
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = g.Next(ctx)
		}
	})
	b.Run("many", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_, _ = g.Next(ctx)
			}
		})
	})
}
