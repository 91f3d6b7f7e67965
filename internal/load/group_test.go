package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const workerVariable = "LOAD_TEST_WORKER"

func TestMain(m *testing.M) {
	sharing = sharing && os.Getenv(workerVariable) != "mirrored"
	if os.Getenv(workerVariable) == "" {
		os.Exit(m.Run())
	}
	if err := Serve(context.Background(), os.Stdin, os.Stdout, openTest); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

// A testLock excludes within a process, unless it is broken. Its first goroutine is passed all locks.
type testLock struct {
	kind   string
	number int
	held   chan struct{}
}

func openTest(_ context.Context, j Job, t *Traffic) (Crew, error) {
	kind := strings.Trim(string(j.Front), `"`)
	if kind == "unreachable" {
		return Crew{}, errors.New("unreachable")
	}
	c := Crew{Close: func() {}, Notes: func() []string { return []string{"a note"} }}
	held := make(chan struct{}, 1)
	for i := range j.All() {
		t[Scripts].Add(1) // not in the window
		c.Locks = append(c.Locks, &testLock{kind, i, held})
	}
	return c, nil
}

func (l *testLock) Acquire(ctx context.Context, round int) (Grant, error) {
	if l.kind == "fails" && round == 3 {
		return Grant{}, errors.New("the third round")
	}
	if l.kind != "broken" && l.kind != "shared" {
		select {
		case l.held <- struct{}{}:
		case <-ctx.Done():
			return Grant{}, ctx.Err()
		}
	}
	time.Sleep(100 * time.Microsecond)
	return Grant{Shared: l.kind == "shared", Passed: l.number == 0}, nil
}

func (l *testLock) Release(_ context.Context, intruded bool) error {
	if intruded && l.kind != "broken" {
		return errors.New("intruded")
	}
	if l.kind == "mutex" || l.kind == "fails" {
		<-l.held
	}
	return nil
}

func jobsFor(t *testing.T, kind string, processes, clients, goroutines int) []Job {
	t.Helper()
	jobs, err := Divide(kind, processes, clients, goroutines)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

func command(ctx context.Context) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, os.Args[0])
	mode := "shared"
	if !sharing {
		mode = "mirrored"
	}
	cmd.Env = append(os.Environ(), workerVariable+"="+mode)
	return cmd, nil
}

// measured runs a load with a window that has at least ten turns.
func measured(t *testing.T, jobs []Job, command func(context.Context) (*exec.Cmd, error)) (*Group, Total, Report) {
	t.Helper()
	g, err := Start(t.Context(), 1, jobs, openTest, command)
	if err != nil {
		t.Fatal(err)
	}
	g.Go()
	err = errors.Join(g.AwaitAsked(), g.WarmUp(time.Minute))
	g.Begin()
	for err == nil && g.Total(jobs...).Turns < 10 {
		err = g.Sleep(time.Millisecond)
	}
	g.End()
	if err = errors.Join(err, g.Stop()); err != nil {
		t.Fatal(err)
	}
	var sum Report
	for _, r := range g.Reports {
		sum.Merge(r)
	}
	return g, g.Total(jobs...), sum
}

// The counters add up, and those of several processes do, whether they share memory or not.
func TestGroup(t *testing.T) {
	defer func(was bool) { sharing = was }(sharing)
	for _, test := range []struct {
		name               string
		kind               string
		processes, clients int
		shares             bool
	}{
		{"one", "mutex", 1, 1, true},
		{"shared", "shared", 1, 2, true},
		{"processes", "shared", 2, 3, true},
		{"processes that do not share memory", "mutex", 2, 3, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			sharing = Sharing && test.shares
			start := command
			if test.processes == 1 {
				start = nil
			}
			_, total, report := measured(t, jobsFor(t, test.kind, test.processes, test.clients, 2), start)
			if total.Turns != report.Granted.Count+report.Passed.Count || total.Passed != report.Passed.Count || len(total.Shares) != 2*test.clients {
				t.Errorf("%+v, %d granted and %d passed on", total, report.Granted.Count, report.Passed.Count)
			}
			if report.Intrusions != 0 || !slices.Equal(report.Notes, []string{"a note"}) {
				t.Errorf("%d intrusions, notes %q", report.Intrusions, report.Notes)
			}
			if (total.Handoffs > 0) != (test.kind == "mutex") || total.Handoffs > total.Turns || total.Crossings > total.Handoffs {
				t.Errorf("hand-offs: %+v", total)
			}
			if longest := max(report.Granted.Max, report.Passed.Max, report.Cut.Max); total.Longest != longest || longest > total.Took {
				t.Errorf("the longest wait is %v or %v, in %v", total.Longest, longest, total.Took)
			}
		})
	}
}

// A lock that does not exclude is noticed, in one process and in several.
func TestIntrusions(t *testing.T) {
	for _, processes := range []int{1, 2} {
		if processes > 1 && !Sharing {
			t.Skip("processes cannot share memory on this system")
		}
		start := command
		if processes == 1 {
			start = nil
		}
		jobs := jobsFor(t, "broken", processes, 2, 1)
		for i := range jobs {
			jobs[i].Hold = time.Millisecond
		}
		g, total, report := measured(t, jobs, start)
		if report.Intrusions == 0 || processes > 1 && total.Crossings == 0 {
			t.Errorf("%d processes: %d intrusions, %d crossings", processes, report.Intrusions, total.Crossings)
		}
		if g.Traffic(Scripts) != 0 {
			t.Error("what the clients sent before the window counts")
		}
	}
}

// Errors end a load, wherever they happen.
func TestErrors(t *testing.T) {
	for _, kind := range []string{"unreachable", "fails"} {
		for processes, start := range map[int]func(context.Context) (*exec.Cmd, error){1: nil, 2: command} {
			g, err := Start(t.Context(), 1, jobsFor(t, kind, processes, 2, 1), openTest, start)
			if err == nil {
				g.Go()
				err = errors.Join(g.WarmUp(0), g.Sleep(time.Minute), g.Stop())
			}
			want := map[string]string{"unreachable": "unreachable", "fails": "the third round"}[kind]
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", kind, err)
			}
			if f := new(Failure); processes > 1 && (!errors.As(err, &f) || f.Code != 3) {
				t.Errorf("%s: status of %#v", kind, err)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	g, err := Start(ctx, 1, jobsFor(t, "mutex", 2, 2, 1), openTest, command)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := g.Stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
	if err := Serve(t.Context(), strings.NewReader(""), os.Stdout, openTest); !errors.Is(err, ErrNoJob) {
		t.Errorf("without a job: %v", err)
	}
}

// A wait counts from the begin of the window to its end.
func TestWaits(t *testing.T) {
	w := worker{memory: newMemory(size{1, 1, 1})}
	wait := func(from, to int64, begin, end int64) (over bool) {
		w.slot(0)[asked].Store(from)
		w.setWindow(order{begin, end})
		return w.waited(0, to, (*Report).granted)
	}
	for _, test := range []struct {
		from, to, begin, end int64
		over                 bool
	}{
		{10, 20, 0, 0, false},   // before the window
		{10, 30, 20, 0, true},   // 10
		{25, 28, 20, 0, true},   // 3
		{35, 60, 20, 50, false}, // 15, cut off
		{5, 90, 20, 50, false},  // 30, cut off
		{50, 60, 20, 50, false}, // after it
	} {
		if over := wait(test.from, test.to, test.begin, test.end); over != test.over {
			t.Errorf("%+v", test)
		}
	}
	want := Report{
		Granted: Histogram{Classes: []int64{3: 1, 10: 1}, Count: 2, Max: 10},
		Cut:     Histogram{Classes: []int64{15: 1, 30: 1}, Count: 2, Max: 30},
	}
	if got := w.shards[0].Report; !reflect.DeepEqual(got, want) || w.slot(0)[longest].Load() != 30 {
		t.Errorf("%+v", got)
	}
}

func TestDivide(t *testing.T) {
	var got [][3]int
	for _, j := range jobsFor(t, "", 4, 6, 2) {
		got = append(got, [3]int{j.First, j.Clients, j.All()})
	}
	if want := [][3]int{{0, 2, 4}, {4, 2, 4}, {8, 1, 2}, {10, 1, 2}}; !slices.Equal(got, want) {
		t.Error(got)
	}
	if n := len(jobsFor(t, "", 4, 2, 1)); n != 2 {
		t.Errorf("%d jobs for two clients", n)
	}
}

func TestEach(t *testing.T) {
	var mu sync.Mutex
	done, now, most := 0, 0, 0
	do := func(i int) error {
		mu.Lock()
		defer mu.Unlock()
		if done++; i == 70 {
			return errors.New("70")
		}
		return nil
	}
	if err := Each(50, 8, do); err != nil || done != 50 {
		t.Errorf("%d calls, %v", done, err)
	}
	if err := Each(1000, 8, do); err == nil || done > 50+80 {
		t.Errorf("%d calls, %v", done, err)
	}
	_ = Each(20, 3, func(int) error {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		time.Sleep(time.Millisecond)
		mu.Lock()
		now--
		mu.Unlock()
		return nil
	})
	if most > 3 {
		t.Errorf("%d at once", most)
	}
}
