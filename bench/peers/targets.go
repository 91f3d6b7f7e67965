package main

import (
	"fmt"
	"io"
	"time"

	"github.com/holdfast-go/holdfast/internal/load"
)

// A target is a figure that must hold in every run, on any machine.
type target struct {
	Name  string  `json:"name"`
	Least bool    `json:"least"` // Bound is the least value, not the largest
	Bound float64 `json:"bound"`
	Value float64 `json:"value"`
	Holds bool    `json:"holds"`
}

// targets returns the targets whose figures were measured.
func (rs results) targets() (list []target) {
	type at struct {
		scenario, lock string
		point          point
		figure         string
	}
	add := func(name string, least bool, bound float64, of at, over ...at) {
		v, ok := rs.figure(of.scenario, of.lock, of.point, of.figure)
		for _, o := range over {
			v, ok = ratio(rs.row(of.scenario, of.lock, of.point), of.figure, rs.row(o.scenario, o.lock, o.point), o.figure)
		}
		if ok {
			list = append(list, target{name, least, bound, v, least && v >= bound || !least && v <= bound})
		}
	}
	crowd := func(scenario, lock string, n int, figure string) at {
		return at{scenario, lock, point{n: n}, figure}
	}
	one := func(figure string) at { return at{"one", mutex, point{}, figure} }
	const least, most = true, false
	rate := func(n int) at { return crowd("crowd", mutex, n, handoffRate) }
	add("crowd: hand-offs/s, 200 clients / 10 clients", least, 0.7, rate(200), rate(10))
	add("crowd: hand-offs/s, 500 clients / 10 clients", least, 0.75, rate(500), rate(10))
	add("crowd of 200: hand-offs/s / sketch", least, 0.5, rate(200), crowd("crowd", sketched, 200, handoffRate))
	add("crowd of 200: hand-offs/s / sketch with leases", least, 0.65, rate(200), crowd("crowd", leased, 200, handoffRate))
	add("crowd of 200: server CPU per hand-off / sketch with leases", most, 1.3, crowd("crowd", mutex, 200, cpuEach), crowd("crowd", leased, 200, cpuEach))
	add("crowd of 200: hand-offs/s / rueidislock", least, 25, rate(200), crowd("crowd", rueidisl, 200, handoffRate))
	add("crowd of 200: requests per hand-off", most, 2.5, crowd("crowd", mutex, 200, requestsEach))
	add("crowd of 200: Jain's index", least, 0.97, crowd("crowd", mutex, 200, jainIndex))
	add("crowd of 200: longest wait, in turns of all clients", most, 3, crowd("crowd", mutex, 200, longestTurns))
	processes := func(lock, figure string) at {
		return at{"processes", lock, point{n: maxProcesses}, figure}
	}
	add("8 processes of 4, Handoffs -1: hand-offs/s / rueidislock", least, 2, processes(noHandoffs, handoffRate), processes(rueidisl, handoffRate))
	add("8 processes of 4, Handoffs -1: Jain's index", least, 0.97, processes(noHandoffs, jainIndex))
	add("wake-up p50 / publish, receive, EVALSHA", most, 1.15, at{"wakeup", mutex, point{}, wakeRatio})
	add("one goroutine: pair p50 / two bare EVALSHA", most, 1.1, one(pairRatio))
	add("one goroutine: allocations per pair", most, 3, one(allocations))
	many := func(scenario, lock string, n int) at { return at{scenario, lock, point{n: n}, pairRate} }
	add("512 names: pairs/s / redsync on a rueidis pool", least, 1.2, many("names", mutex, 512), many("names", redsyncs, 512))
	add("512 names: pairs/s / two bare EVALSHA", least, 1.1, many("names", mutex, 512), many("names", bareHash, 512))
	add("64 readers: pairs/s / two bare EVALSHA", least, 5, many("readers", readLock, 64), many("readers", bareHash, 64))
	add("one reader: pair p50 / two bare EVALSHA", most, 1.35, at{"reader", readLock, point{}, pairRatio})
	add("MultiLocker of 8: pair p50 / two bare EVALSHA", most, 2.5, at{"multi", multiOf8, point{}, pairRatio})
	add("MultiLocker of 8: allocations per pair", most, 46, at{"multi", multiOf8, point{}, allocations})
	permits := func(figure string) at { return at{"limiter", rateLimiter, point{n: 64}, figure} }
	add("rate limiter: Allow p50 / one bare EVALSHA", most, 1.3, permits(allowRatio))
	add("rate limiter, 64 goroutines: refusals/s / bare EVALSHA/s", least, 10, permits(refusalRatio))
	add("1,000 waiting clients: requests/s, PING counted", most, 125, at{"idle", mutex, point{n: 1000}, requestRate})
	add("with a replica: hand-offs/s, 200 clients / 10 clients", least, 0.6,
		crowd("crowd-replica", mutex, 200, handoffRate), crowd("crowd-replica", mutex, 10, handoffRate))
	add("FairMutex, crowd of 200: requests per hand-off", most, 3, crowd("crowd", fairMutex, 200, requestsEach))
	return list
}

// writeTargets writes what must hold.
func writeTargets(w io.Writer, list []target) {
	if len(list) == 0 {
		return
	}
	lines := [][]string{{"figure", "value", "target", "holds"}}
	for _, t := range list {
		sign, holds := "≤", "no"
		if t.Least {
			sign = "≥"
		}
		if t.Holds {
			holds = "yes"
		}
		lines = append(lines, []string{t.Name, load.Number(t.Value, 2), fmt.Sprint(sign, " ", t.Bound), holds})
	}
	fmt.Fprint(w, "\n## What must hold\n\n")
	load.Table(w, lines)
}

// A document is the form of a run in JSON.
type document struct {
	Time    time.Time `json:"time"`
	Server  string    `json:"server"`
	Go      string    `json:"go"`
	CPUs    int       `json:"cpus"`
	Rows    results   `json:"rows"`
	Targets []target  `json:"targets"`
}
