package browser

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/dashboard"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// many is the number of locks of a large server.
const many = 10_000

// fill makes many locks that are held.
func (r *rig) fill(tb testing.TB) {
	tb.Helper()
	s := driver.NewScript("fill", "redis.call('hset', KEYS[1], ARGV[1], 1) redis.call('pexpire', KEYS[1], 3600000)")
	var calls []driver.Call
	for i := range many {
		calls = append(calls, driver.Call{Script: s, Keys: []string{fmt.Sprintf("order:%05d", i)}, Args: []string{someOwner}})
	}
	for some := range slices.Chunk(calls, 500) {
		for _, result := range r.client.Driver().DoMany(tb.Context(), some) {
			if result.Err != nil {
				tb.Fatal(result.Err)
			}
		}
	}
}

// The list of 10,000 locks is painted within a second, once the scanner runs.
func TestManyLocks(t *testing.T) {
	r := newRig(t, dashboard.Options{})
	r.fill(t)
	stalls := redistest.MeterStalls(t, r.redis)
	tab := newTab(t)
	tab.open(r.url)
	tab.await("document.getElementById('fact-total').textContent === '10,000 locks'")
	stalls.Rounds(t, 200*time.Millisecond, func() error {
		start := time.Now()
		tab.open(r.url)
		tab.await("document.querySelectorAll('#locks tbody tr').length === 100 && performance.getEntriesByName('first-contentful-paint').length === 1")
		paint := time.Duration(eval[float64](tab, "performance.getEntriesByName('first-contentful-paint')[0].startTime") * float64(time.Millisecond))
		t.Logf("first contentful paint after %v; the machine stood still for %v", paint, stalls.Since(start))
		if paint-stalls.Since(start) > time.Second {
			return fmt.Errorf("first contentful paint after %v", paint)
		}
		return nil
	})
	t.Log(eval[string](tab, "document.getElementById('fact-scan').textContent"))
	tab.await("document.getElementById('fact-range').textContent === '1–100 of 10,000'")
	tab.click("#fact-next a")
	tab.await("document.querySelector('#locks tbody tr').dataset.id === 'order%3A00100'")
	tab.click("#q")
	tab.key("09999")
	tab.await("document.querySelectorAll('#locks tbody tr').length === 1")
}

// usage returns the time in µs that a server has spent with scripts, so far.
func (r *rig) usage(tb testing.TB) (us int64) {
	tb.Helper()
	for line := range strings.Lines(r.redis.Do(tb, "INFO", "commandstats").(string)) {
		if !strings.HasPrefix(line, "cmdstat_eval") {
			continue
		}
		_, rest, _ := strings.Cut(line, "usec=")
		text, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			tb.Fatalf("%q: %v", line, err)
		}
		us += n
	}
	return us
}

// pings measures the latency of requests for a while.
func (r *rig) pings(tb testing.TB, d time.Duration) (list []time.Duration) {
	tb.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
		start := time.Now()
		r.redis.Do(tb, "PING")
		list = append(list, time.Since(start))
	}
	slices.Sort(list)
	return list
}

// view receives updates like a page, without a browser, which would need as much of the
// machine as the server.
func (r *rig) view(tb testing.TB) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", r.url+"events?page=", nil)
	if err != nil {
		tb.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, resp.Body)
	}()
	return func() {
		cancel()
		<-done
		_ = resp.Body.Close()
	}
}

// A slice is a part of a measurement.
type slice struct {
	took  time.Duration
	used  time.Duration // of the server, by the scanner
	pings []time.Duration
}

// cycle measures from the beginning of a round of the scanner to the beginning of the
// next one. The times with and without requests of the scanner alternate, so that other
// programs on the machine disturb both.
func (r *rig) cycle(tb testing.TB) (slices []slice, err error) {
	tb.Helper()
	quiet, begun := 0, false
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); {
		start, before := time.Now(), r.usage(tb)
		s := slice{pings: r.pings(tb, 250*time.Millisecond)}
		s.used = time.Duration(r.usage(tb)-before) * time.Microsecond
		s.took = time.Since(start)
		begins := s.used > 0 && quiet >= 4 // a round was over for a second
		if quiet++; s.used > 0 {
			quiet = 0
		}
		if begins && begun {
			return slices, nil
		}
		if begun = begun || begins; begun {
			slices = append(slices, s)
		}
	}
	return nil, errors.New("the scanner has not begun two rounds in three minutes")
}

// The scanner of a server with 10,000 locks uses at most a twentieth of the time of the
// server, and other requests hardly wait for it.
func TestScanLoad(t *testing.T) {
	r := newRig(t, dashboard.Options{Every: time.Second})
	r.fill(t)
	at := func(list []time.Duration, q float64) time.Duration { return list[int(q*float64(len(list)-1))] }
	stalls := redistest.MeterStalls(t, r.redis)
	stop := r.view(t)
	defer stop()
	time.Sleep(8 * time.Second) // the first rounds have other steps and pauses
	stalls.Rounds(t, 100*time.Millisecond, func() error {
		all, err := r.cycle(t)
		if err != nil {
			return err
		}
		var took, used time.Duration
		var idle, busy []time.Duration
		for _, s := range all {
			took, used = took+s.took, used+s.used
			if s.used > 0 {
				busy = append(busy, s.pings...)
			} else {
				idle = append(idle, s.pings...)
			}
		}
		slices.Sort(idle)
		slices.Sort(busy)
		part := float64(used) / float64(took)
		t.Logf("a round every %v; the scanner used %.2f %% of the time of the server", took.Round(time.Second), part*100)
		for _, q := range []float64{0.5, 0.9, 0.99, 0.999} {
			t.Logf("ping, quantile %g: %v between rounds (%d), %v in a round (%d)", q, at(idle, q), len(idle), at(busy, q), len(busy))
		}
		switch {
		case part > 0.06: // the average over some rounds is less
			return fmt.Errorf("the scanner used %.1f %% of the time of the server", part*100)
		case at(busy, 0.9) > at(idle, 0.9)+5*time.Millisecond:
			return fmt.Errorf("the 90th percentile of a ping is %v between rounds, and %v in a round", at(idle, 0.9), at(busy, 0.9))
		}
		return nil
	})
}
