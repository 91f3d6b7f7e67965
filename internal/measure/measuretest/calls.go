package measuretest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/observe"
)

// What calls and their leases change.
var callFigures = []string{"holdfast_lock_wait", "holdfast_lock_hold_", "holdfast_lock_acq", "holdfast_lock_losses"}

// Calls that fail have an outcome.
func outcomes(s *sim) {
	m, ctx := s.client.Mutex("a"), s.Context()
	held := s.lock("a")
	_, _ = m.TryLock(ctx)
	_, _ = m.TryLock(ctx, holdfast.Wait(time.Second))
	canceled, cancel := context.WithCancel(ctx)
	time.AfterFunc(2*time.Second, cancel)
	_, _ = m.Lock(canceled)
	_, _ = m.Lock(held.Context(), holdfast.NonReentrant())
	_ = held.Release(ctx)
	s.server.Fail(func(driver.Call) error { return driver.Unsent(errors.New("no network")) })
	_, _ = m.Lock(canceled)
	_, _ = m.TryLock(ctx, holdfast.Wait(time.Second))
	s.server.Fail(nil)
	s.want(callFigures[2:],
		`holdfast_lock_acquisitions_total{kind="mutex",outcome="acquired",via="server"} 1`,
		`holdfast_lock_acquisitions_total{kind="mutex",outcome="busy"} 2`,
		`holdfast_lock_acquisitions_total{kind="mutex",outcome="canceled"} 2`,
		`holdfast_lock_acquisitions_total{kind="mutex",outcome="invalid"} 1`,
		`holdfast_lock_acquisitions_total{kind="mutex",outcome="unavailable"} 1`)
	s.want([]string{`holdfast_lock_wait_duration_seconds{kind="mutex",outcome="busy"}`, `holdfast_lock_wait_duration_seconds{kind="mutex",outcome="canceled"}`},
		`holdfast_lock_wait_duration_seconds{kind="mutex",outcome="busy"} 2 in 1s`,
		`holdfast_lock_wait_duration_seconds{kind="mutex",outcome="canceled"} 2 in 2s`)
}

// Locks are granted by the server, by a release, by a hand-off and by entering again. Leases
// that enter again have no durations.
func granted(s *sim) {
	m, ctx := s.client.Mutex("a"), s.Context()
	other := s.other("a")
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			l, err := m.Lock(ctx)
			if err != nil {
				s.Error(err)
				return
			}
			time.Sleep(time.Millisecond)
			_ = l.Release(ctx)
		})
	}
	time.Sleep(100 * time.Millisecond)
	_ = other.Close() // releases it
	wg.Wait()
	l := s.lock("b")
	inner, err := s.client.Mutex("b").Lock(l.Context())
	if err != nil {
		s.Fatal(err)
	}
	time.Sleep(time.Second)
	_ = inner.Release(ctx)
	_ = l.Release(ctx)
	s.want(callFigures,
		`holdfast_lock_acquisitions_total{kind="mutex",outcome="acquired",via="server"} 1`,
		`holdfast_lock_acquisitions_total{kind="mutex",outcome="acquired",via="grant"} 1`,
		`holdfast_lock_acquisitions_total{kind="mutex",outcome="acquired",via="handoff"} 1`,
		`holdfast_lock_acquisitions_total{kind="mutex",outcome="acquired",via="reentry"} 1`,
		`holdfast_lock_wait_duration_seconds{kind="mutex",outcome="acquired"} 3 in 201ms`,
		`holdfast_lock_hold_duration_seconds{kind="mutex"} 3 in 1.002s`)
}

// The time of a lost lease counts once, until the loss, whether it is released later or not,
// and also if only the release finds the loss.
func lost(s *sim) {
	ctx := s.Context()
	l := s.lock("a")
	time.Sleep(time.Second)
	s.server.FailOver("a")
	time.Sleep(time.Second)
	_ = l.Release(ctx)
	l = s.lock("b", holdfast.LeaseTime(time.Minute))
	time.Sleep(2 * time.Second)
	s.server.Delete("b")
	_ = l.Release(ctx)
	l = s.lock("c")
	time.Sleep(3 * time.Second)
	_ = s.client.Close()
	_ = l.Release(ctx)
	s.want(callFigures[1:],
		`holdfast_lock_acquisitions_total{kind="mutex",outcome="acquired",via="server"} 3`,
		`holdfast_lock_losses_total{kind="mutex",reason="failover"} 1`,
		`holdfast_lock_losses_total{kind="mutex",reason="not owner"} 1`,
		`holdfast_lock_losses_total{kind="mutex",reason="closed"} 1`,
		`holdfast_lock_hold_duration_seconds{kind="mutex"} 3 in 6s`)
}

// Renewals are counted, and how late they are; outages, and how long they last.
func outage(s *sim) {
	l := s.lock("a")
	other := s.other("b")
	_, _ = s.client.Mutex("b").TryLock(s.Context(), holdfast.Wait(time.Second)) // subscribes
	s.server.Reconnect(errors.New("connection reset"))
	_ = other.Close()
	time.Sleep(11 * time.Second)
	lines := s.figures()
	if lines["holdfast_renewals_total{outcome=\"confirmed\"}"] != "1" || !strings.HasPrefix(lines["holdfast_renewal_lateness_seconds"], "1 in ") {
		s.Error(lines)
	}
	if overdue := s.value("holdfast_renewal_overdue_ratio"); overdue != 0 {
		s.Errorf("a renewal is overdue by %v", overdue)
	}
	s.server.FailOver()
	s.settle()
	lines = s.figures()
	if lines["holdfast_subscription_losses_total"] != "1" || lines["holdfast_verifications_total"] != "1" {
		s.Error(lines)
	}
	s.server.Fail(func(driver.Call) error { return driver.Unsent(errors.New("no network")) })
	time.Sleep(15 * time.Second)
	s.settle()
	lines = s.figures()
	if lines["holdfast_outages_total"] != "1" || lines["holdfast_outage_active"] != "1" || lines["holdfast_outage_duration_seconds"] != "0 in 0s" && lines["holdfast_outage_duration_seconds"] != "" {
		s.Error(lines)
	}
	if n := lines[`holdfast_renewals_total{outcome="failed"}`]; n == "0" || n == "" {
		s.Errorf("%s renewals have failed", n)
	}
	if overdue := s.value("holdfast_renewal_overdue_ratio"); overdue < 0.2 || overdue > 0.5 { // 5 of 18 s
		s.Errorf("a renewal is overdue by %v", overdue)
	}
	s.server.Fail(nil)
	time.Sleep(2 * time.Second)
	s.settle()
	lines = s.figures()
	if lines["holdfast_outages_total"] != "1" || lines["holdfast_outage_active"] != "0" || !strings.HasPrefix(lines["holdfast_outage_duration_seconds"], "1 in ") {
		s.Error(lines)
	}
	_ = l.Release(s.Context())
}

var gauges = []string{"holdfast_lock_held", "holdfast_lock_waiting", "holdfast_release_pending"}

// What is held and what waits is read from the client, and is zero afterwards.
func held(s *sim) {
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	a, b := s.lock("a"), s.lock("b")
	for range 3 {
		go func() { _, _ = s.client.Mutex("a").Lock(ctx) }()
	}
	s.want(gauges, `holdfast_lock_held{kind="mutex"} 2`, `holdfast_lock_waiting 3`)
	cancel()
	_, _ = a.Release(s.Context()), b.Release(s.Context())
	s.want(gauges, `holdfast_lock_held{kind="mutex"} 0`, `holdfast_lock_waiting 0`)
}

// Counters exist with the value zero before the first event that they count. Otherwise
// Prometheus would not see the first one as an increase.
func first(s *sim) {
	l := s.lock("a")
	defer l.Release(s.Context())
	s.want([]string{"holdfast_lock_losses", "holdfast_deadlocks", "holdfast_outages", "holdfast_events_dropped", "holdfast_renewals", "holdfast_subscription_losses"},
		`holdfast_lock_losses_total{kind="mutex",reason="expired"} 0`,
		`holdfast_lock_losses_total{kind="mutex",reason="not owner"} 0`,
		`holdfast_lock_losses_total{kind="mutex",reason="forced"} 0`,
		`holdfast_lock_losses_total{kind="mutex",reason="closed"} 0`,
		`holdfast_lock_losses_total{kind="mutex",reason="failover"} 0`,
		`holdfast_lock_losses_total{kind="mutex",reason="not replicated"} 0`,
		`holdfast_deadlocks_total 0`,
		`holdfast_outages_total 0`,
		`holdfast_events_dropped_total 0`,
		`holdfast_renewals_total{outcome="confirmed"} 0`,
		`holdfast_renewals_total{outcome="failed"} 0`,
		`holdfast_subscription_losses_total 0`)
}

// A deadlock counts once, however many calls are in it.
func deadlock(s *sim) {
	s.subject.Observe(observe.Event{Type: observe.Deadlock, Kind: "mutex", Name: "a", Count: 3})
	s.want([]string{"holdfast_deadlocks"}, `holdfast_deadlocks_total 1`)
}

// A warning counts by its reason.
func warning(s *sim) {
	s.subject.Observe(observe.Event{Type: observe.Warned, Reason: observe.WarnLate})
	s.subject.Observe(observe.Event{Type: observe.Warned, Reason: "unknown"})
	s.want([]string{"holdfast_warnings"},
		`holdfast_warnings_total{reason="blocked"} 0`,
		`holdfast_warnings_total{reason="late renewal"} 1`,
		`holdfast_warnings_total{reason="leaked"} 0`,
		`holdfast_warnings_total{reason="long hold"} 0`,
		`holdfast_warnings_total{reason="own client"} 0`)
}

// label maps order:42 to order:*. It panics for one name.
func label(_, name string) string {
	if name == "panic" {
		panic(name)
	}
	prefix, _, ok := strings.Cut(name, ":")
	switch {
	case ok:
		return prefix + ":*"
	case name == "nothing":
		return ""
	case name == "invalid":
		return "\xff"
	}
	return name
}

// Names become labels by the user's function, whatever it returns. There are at most as many
// as wanted, and then "other".
func labels(s *sim) {
	var leases []*holdfast.Lease
	for _, name := range []string{"order:1", "order:2", "order:3", "nothing", "invalid", "b", "c", "d", "panic", "order:4"} {
		leases = append(leases, s.lock(name))
	}
	time.Sleep(time.Second)
	s.want([]string{"holdfast_lock_held", "holdfast_lock_acq"},
		`holdfast_lock_acquisitions_total{kind="mutex",name="b",outcome="acquired",via="server"} 1`,
		`holdfast_lock_acquisitions_total{kind="mutex",name="order:*",outcome="acquired",via="server"} 4`,
		`holdfast_lock_acquisitions_total{kind="mutex",name="other",outcome="acquired",via="server"} 3`,
		`holdfast_lock_acquisitions_total{kind="mutex",name="�",outcome="acquired",via="server"} 1`,
		`holdfast_lock_acquisitions_total{kind="mutex",outcome="acquired",via="server"} 1`,
		`holdfast_lock_held{kind="mutex",name="b"} 1`,
		`holdfast_lock_held{kind="mutex",name="order:*"} 4`,
		`holdfast_lock_held{kind="mutex",name="other"} 3`,
		`holdfast_lock_held{kind="mutex",name="�"} 1`,
		`holdfast_lock_held{kind="mutex"} 1`)
	for _, l := range leases {
		_ = l.Release(s.Context())
	}
	s.lock("order:5")
	time.Sleep(time.Second)
	s.server.FailOver("order:5")
	s.want([]string{"holdfast_lock_hold_", "holdfast_lock_losses"},
		`holdfast_lock_hold_duration_seconds{kind="mutex",name="b"} 1 in 1.005s`,
		`holdfast_lock_hold_duration_seconds{kind="mutex",name="order:*"} 5 in 5.02s`,
		`holdfast_lock_hold_duration_seconds{kind="mutex",name="other"} 3 in 3.015s`,
		`holdfast_lock_hold_duration_seconds{kind="mutex",name="�"} 1 in 1.005s`,
		`holdfast_lock_hold_duration_seconds{kind="mutex"} 1 in 1.005s`,
		`holdfast_lock_losses_total{kind="mutex",name="order:*",reason="failover"} 1`)
}

// block keeps the observer busy for an hour at the first event of a lock.
func block(_, name string) string {
	if name == "slow" {
		time.Sleep(time.Hour)
	}
	return ""
}

// Events that did not reach the observer are counted. Gauges are right all the same.
func dropped(s *sim) {
	_ = s.lock("slow").Release(s.Context())
	s.settle()
	const n = 4000
	for range n {
		_ = s.lock("a").Release(s.Context())
	}
	l := s.lock("a")
	var figures map[string]string
	if figures = s.figures(); figures[`holdfast_lock_held{kind="mutex"}`] != "1" {
		s.Error(figures)
	}
	time.Sleep(3 * time.Hour)
	s.settle()
	_ = l.Release(s.Context())
	s.settle()
	figures = s.figures()
	var got, gone int
	_, _ = fmt.Sscan(figures[`holdfast_lock_acquisitions_total{kind="mutex",outcome="acquired",via="server"}`], &got)
	_, _ = fmt.Sscan(figures["holdfast_events_dropped_total"], &gone)
	if got >= n || gone == 0 || got+gone < n {
		s.Errorf("%d acquisitions and %d dropped events", got, gone)
	}
	if uint64(gone) != s.client.Stats().DroppedEvents {
		s.Errorf("%d dropped events, but the client counts %d", gone, s.client.Stats().DroppedEvents)
	}
}

// The figures of two clients are added. A client that is closed has no gauges, and one that
// is watched twice counts once.
func twoClients(s *sim) {
	other := s.open(20 * time.Second)
	stop := s.subject.Watch(other)
	l := s.lock("a")
	if _, err := other.Mutex("b").Lock(s.Context()); err != nil {
		s.Fatal(err)
	}
	s.want([]string{"holdfast_lock_held", "holdfast_lock_acq"},
		`holdfast_lock_held{kind="mutex"} 2`,
		`holdfast_lock_acquisitions_total{kind="mutex",outcome="acquired",via="server"} 2`)
	stop()
	stop()
	s.want(gauges, `holdfast_lock_held{kind="mutex"} 2`)
	_ = other.Close()
	s.want(gauges, `holdfast_lock_held{kind="mutex"} 1`)
	_ = l.Release(s.Context())
	_ = s.client.Close()
	for _, line := range s.subject.Lines(s) {
		if strings.HasPrefix(line, "holdfast_lock_held") && !strings.HasSuffix(line, " 0") {
			s.Error(line)
		}
	}
}
