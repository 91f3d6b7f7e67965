package behaviour_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/object"
)

func TestIDGenerator(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	ctx, c := t.Context(), locktest.Open(t, s.URL())
	draw := func(g *object.IDGenerator, want int64) {
		t.Helper()
		if id := locktest.Must[int64](t)(g.Next(ctx)); id != want {
			t.Fatalf("id %d, want %d", id, want)
		}
	}
	a, b := object.NewIDGenerator(c, "a"), object.NewIDGenerator(c, "a")
	draw(a, 1)
	draw(b, 5001)
	draw(a, 2)
	want(t, false)(a.TryInit(ctx, 1, 1))
	if got := fmt.Sprint(s.Do(t, "GET", "a"), "+", s.Do(t, "GET", "{a}:allocation")); got != "10001+5000" {
		t.Errorf("the server has %s", got)
	}
	g := object.NewIDGenerator(c, "g")
	want(t, true)(g.TryInit(ctx, -1, 2))
	want(t, false)(object.NewIDGenerator(c, "g").TryInit(ctx, 100, 2))
	for i := range int64(10) {
		draw(g, i-1)
	}
	top := object.NewIDGenerator(c, "top")
	want(t, true)(top.TryInit(ctx, math.MaxInt64-3, 2))
	draw(top, math.MaxInt64-3)
	draw(top, math.MaxInt64-2)
	for range 3 {
		if _, err := top.Next(ctx); !errors.Is(err, holdfast.ErrRefused) {
			t.Fatalf("no number is left: %v", err)
		}
	}
	s.Do(t, "HSET", "hash", "a", "1")
	if _, err := object.NewIDGenerator(c, "hash").Next(ctx); !errors.Is(err, holdfast.ErrRefused) {
		t.Errorf("another type: %v", err)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	draw(a, 3)
	if id, err := a.Next(done); id != 4 || err != nil {
		t.Errorf("an id at hand, for a context that is done: %d, %v", id, err)
	}
	if _, err := object.NewIDGenerator(c, "new").Next(done); !errors.Is(err, context.Canceled) {
		t.Errorf("no id at hand, for a context that is done: %v", err)
	}
	_ = c.Close()
	if _, err := a.Next(ctx); !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// One of the callers fetches a block. The others wait with their own contexts, and
// the context of the fetching caller does not end their wait.
func TestIDFetchIsShared(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := locktest.Open(t, p.URL()+"?timeout=30s")
	locktest.Must[int64](t)(object.NewIDGenerator(c, "warm-up").Next(t.Context()))
	g := object.NewIDGenerator(c, "g")
	p.ResetCounts()
	arrived, letGo := p.HoldReply(redistest.Command("EVALSHA"))
	type result struct {
		id  int64
		err error
	}
	start := func(ctx context.Context) <-chan result {
		ch := make(chan result, 1)
		go func() {
			id, err := g.Next(ctx)
			ch <- result{id, err}
		}()
		return ch
	}
	fetching, giveUp := context.WithCancel(t.Context())
	first := start(fetching)
	<-arrived
	var others []<-chan result
	for range 20 {
		others = append(others, start(t.Context()))
	}
	leaving, leave := context.WithCancel(t.Context())
	second := start(leaving)
	leave()
	if r := <-second; !errors.Is(r.err, context.Canceled) {
		t.Errorf("a caller that has waited: %v", r.err)
	}
	if n := p.Count("EVALSHA"); n != 1 {
		t.Errorf("%d requests for one block", n)
	}
	brief, end := context.WithTimeout(t.Context(), 1200*time.Millisecond) // longer than a server is tried
	defer end()
	if r := <-start(brief); !errors.Is(r.err, context.DeadlineExceeded) {
		t.Errorf("a caller that has waited until its deadline: %v", r.err)
	}
	giveUp()
	if r := <-first; !errors.Is(r.err, context.Canceled) {
		t.Errorf("the caller that has fetched: %v", r.err)
	}
	letGo()
	seen := make(map[int64]bool)
	for _, ch := range others {
		r := <-ch
		if r.err != nil || seen[r.id] {
			t.Fatalf("a caller that has waited: %d, %v", r.id, r.err)
		}
		seen[r.id] = true
	}
	if n := p.Count("EVALSHA"); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

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
	c, err := holdfast.Open(context.Background(), os.Getenv("TEST_URL"), nil)
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
	g := object.NewIDGenerator(c, "g")
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
