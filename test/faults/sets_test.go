package faults_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func init() { workers["sets"] = setsWorker }

const (
	setProcesses = 6
	maxOvertaken = 500              // times, of a call for a set
	maxSetWait   = 12 * time.Second // of such a call
)

// A setCall is a call that was granted: who made it, for which locks, and when it asked,
// entered and left, by redistest.Now.
type setCall struct {
	Process, Names      string
	Asked, Enter, Leave int64
}

// setsWorker locks pairs of three names on two goroutines, and the single names on another.
func setsWorker() {
	c := openAtLast()
	names := strings.Split(os.Getenv("TEST_NAMES"), ",")
	out := json.NewEncoder(os.Stdout)
	var mu sync.Mutex
	one := func(which ...string) {
		var locks []holdfast.Locker
		for _, n := range which {
			locks = append(locks, c.Mutex(n))
		}
		call := setCall{Process: os.Getenv("TEST_PROCESS"), Names: strings.Join(which, ","), Asked: redistest.Now()}
		m := holdfast.MultiLocker(locks...)
		if len(locks) == 1 {
			m = locks[0]
		}
		l, err := m.Lock(context.Background())
		if err == nil {
			iv := locktest.Stay(l, time.Millisecond+rand.N(4*time.Millisecond))
			if call.Enter, call.Leave = iv.Enter, iv.Leave; iv.Enter != 0 {
				mu.Lock()
				_ = out.Encode(call)
				mu.Unlock()
			}
			err = l.Release(context.Background())
		}
		if err != nil && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrUnavailable) {
			panic(err)
		}
	}
	locktest.Parallel(3, func(i int) {
		for n := rand.IntN(3); ; n++ {
			if i == 2 {
				one(names[n%3])
			} else {
				one(names[n%3], names[(n+1)%3])
			}
		}
	})
}

// setsTime returns for how long processes contend for sets.
func setsTime() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("HOLDFAST_SETS_TIME")); err == nil {
		return d
	}
	return 7 * time.Second
}

// Processes contend for overlapping sets, and for their locks alone, while processes are
// killed and halted. Each gets its share, and no call is overtaken again and again.
func TestSetsGetTheirShare(t *testing.T) {
	cases := map[string]struct {
		names func(n string) []string
		start func(t *testing.T) string
	}{
		"three masters": {
			func(n string) []string { return []string{"{a}" + n, "{b}" + n, "{c}" + n} },
			func(t *testing.T) string { return redistest.StartCluster(t, redistest.WithReplicas(0)).URL() },
		},
		"one server": {
			func(n string) []string { return []string{n + "a", n + "b", n + "c"} },
			func(t *testing.T) string { return redistest.Start(t).URL() },
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			url, names := c.start(t), strings.Join(c.names(locktest.Name(t)), ",")
			var (
				mu    sync.Mutex
				calls []setCall
				lines sync.WaitGroup
			)
			start := func(i int) *redistest.Process {
				w := redistest.Worker(t, "sets", "TEST_URL="+url, "TEST_NAMES="+names, fmt.Sprint("TEST_PROCESS=", i))
				lines.Go(func() {
					for line := range w.Lines() {
						var call setCall
						if json.Unmarshal([]byte(line), &call) == nil { // else torn by a kill
							mu.Lock()
							calls = append(calls, call)
							mu.Unlock()
						}
					}
				})
				return w
			}
			var ws []*redistest.Process
			for i := range setProcesses {
				ws = append(ws, start(i))
			}
			began := time.Now()
			var next []int // each has the same number of faults
			going := func() bool { return len(next) > 0 || time.Since(began) < setsTime() }
			locktest.Repeat(100*time.Millisecond, 200*time.Millisecond, going, func(int) {
				if len(next) == 0 {
					next = rand.Perm(setProcesses)
				}
				i := next[0]
				next = next[1:]
				if rand.IntN(4) == 0 {
					ws[i].Kill()
					ws[i] = start(i)
				} else {
					<-redistest.Outage(50*time.Millisecond+rand.N(100*time.Millisecond), ws[i].Pause, ws[i].Resume)
				}
			})
			for _, w := range ws {
				w.Kill()
			}
			lines.Wait()
			judgeSets(t, calls)
		})
	}
}

// judgeSets checks that no two calls held a name at once, that each process got its share of
// sets, how often later calls for one of its names overtook a call for a set, and how long it
// waited.
func judgeSets(t *testing.T, calls []setCall) {
	t.Helper()
	var ivs []redistest.Interval
	byName := make(map[string][]setCall)
	served := make(map[string]int)
	slices.SortFunc(calls, func(a, b setCall) int { return cmp.Compare(a.Enter, b.Enter) })
	var longest time.Duration
	worst, sets := 0, 0
	for _, c := range calls {
		names := strings.Split(c.Names, ",")
		overtaken := 0
		for _, n := range names {
			ivs = append(ivs, redistest.Interval{Name: n, Owner: c.Process, Enter: c.Enter, Leave: c.Leave})
			for _, before := range slices.Backward(byName[n]) {
				if before.Enter < c.Asked {
					break
				}
				if before.Asked > c.Asked {
					overtaken++
				}
			}
			byName[n] = append(byName[n], c)
		}
		if len(names) > 1 {
			served[c.Process]++
			sets++
			worst, longest = max(worst, overtaken), max(longest, time.Duration(c.Enter-c.Asked))
		}
	}
	if err := redistest.CheckExclusive(ivs); err != nil {
		t.Error(err)
	}
	counts := slices.Sorted(maps.Values(served))
	share := float64(counts[0]) / float64(counts[len(counts)-1])
	t.Logf("%d grants, %d of sets; per process %v, %.2f; overtaken at most %d times, longest wait %v", len(calls), sets, counts, share, worst, longest.Round(time.Millisecond))
	if len(counts) < setProcesses || counts[0] < 10 {
		t.Errorf("too few sets were granted: %v", counts)
	}
	if share < 0.5 {
		t.Errorf("the process that got the fewest sets got %.2f of the best: %v", share, counts)
	}
	if worst > maxOvertaken {
		t.Errorf("a call was overtaken %d times", worst)
	}
	if longest > maxSetWait {
		t.Errorf("a call waited for %v", longest)
	}
}
