package load

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	var h Histogram
	if h.Percentile(50) != 0 {
		t.Error("an empty histogram has a median")
	}
	for d := time.Duration(1); d < time.Hour; d += 1 + d/50 {
		c := class(d)
		if from, to := least(c), least(c+1); d < from || d >= to || float64(to-from) > max(1, float64(from)/100) {
			t.Fatalf("%d is in the class from %d to %d", d, from, to)
		}
	}
	for i := range 1000 {
		h.Add(time.Duration(i+1) * time.Millisecond)
	}
	var all Histogram
	all.Merge(h)
	all.Merge(Histogram{})
	all.Merge(h)
	for p, want := range map[float64]time.Duration{50: 500 * time.Millisecond, 99: 990 * time.Millisecond, 100: time.Second} {
		if got := all.Percentile(p); math.Abs(float64(got-want)) > float64(want)/100 {
			t.Errorf("p%v is %v", p, got)
		}
	}
	if all.Count != 2000 || all.Max != time.Second || all.Below(100*time.Millisecond) < 196 || all.Below(100*time.Millisecond) > 204 || all.Below(time.Minute) != 2000 {
		t.Errorf("%d, %v, %d", all.Count, all.Max, all.Below(100*time.Millisecond))
	}
}

func TestFigures(t *testing.T) {
	for want, got := range map[string]string{
		"0": Number(0, 0), "999": Number(999, 0), "1,000": Number(1000, 0), "-1,000": Number(-1000, 0), "1,234,567.9": Number(1234567.89, 1), "0.50": Number(0.5, 2),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if a, b, c := Jain([]int{2, 2, 2}), Jain([]int64{0, 7, 0, 0}), Jain([]int{0}); a != 1 || b != 0.25 || c != 0 {
		t.Error(a, b, c)
	}
	even, _ := Median([]float64{4, 1, 3, 2})
	odd, _ := Median([]float64{3, 1, 2})
	if _, ok := Median(nil); ok || even != 2.5 || odd != 2 {
		t.Error(even, odd, ok)
	}
	if list := []int64{5, 1, 3}; Percentile(list, 50) != 3 || Percentile(list, 100) != 5 {
		t.Error(list)
	}
	var b strings.Builder
	Table(&b, [][]string{{"µs", "n"}, {"1", "10"}})
	if b.String() != "| µs | n  |\n|----|----|\n| 1  | 10 |\n" {
		t.Errorf("\n%s", b.String())
	}
}

func TestUsage(t *testing.T) {
	u, err := UsageOf(func(section string) (any, error) {
		return map[string]string{
			"commandstats": "# Commandstats\r\ncmdstat_evalsha:calls=5,usec=1\r\ncmdstat_set:calls=7,usec=1\r\ncmdstat_get:calls=20,usec=1\r\n" +
				"cmdstat_script|load:calls=1,usec=1\r\ncmdstat_ping:calls=2\r\ncmdstat_client|id:calls=9,usec=1\r\ncmdstat_info:calls=8,usec=1\r\n",
			"cpu": "# CPU\r\nused_cpu_sys:1.5\r\nused_cpu_user:2.25\r\nused_cpu_user_children:4\r\n",
		}[section], nil
	}, "set")
	if want := (Usage{Requests: 15, Pings: 2, Commands: 35, CPU: 3.75}); err != nil || u.Minus(Usage{}) != want {
		t.Error(u, err)
	}
}
