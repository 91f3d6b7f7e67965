// Package measuretest is the suite for the modules that report figures: the same calls must
// give the same figures in each of them.
package measuretest

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/measure"
	"github.com/holdfast-go/holdfast/observe"
)

// FakeTime prepares the program for tests in faked time. Call it from an init function.
func FakeTime() {
	clock.Fake()
	clock.Seed(1)
}

// A Subject is an observer under test.
type Subject interface {
	observe.Observer
	observe.Watcher
	// Lines returns the figures as Prometheus writes them. A histogram is one line with
	// its count and its sum, such as
	//	holdfast_lock_hold_duration_seconds{kind="mutex"} 2 in 1.5s
	// [Line] and [HistogramLine] make such lines.
	Lines(testing.TB) []string
}

// Line returns the line of a counter or a gauge. The labels are pairs of a name and a value;
// those without a value are left out.
func Line(name string, value float64, labels ...string) string {
	return fmt.Sprint(series(name, labels), " ", value)
}

// HistogramLine returns the line of a histogram.
func HistogramLine(name string, count uint64, seconds float64, labels ...string) string {
	return fmt.Sprint(series(name, labels), " ", count, " in ", time.Duration(seconds*float64(time.Second)).Round(time.Millisecond))
}

func series(name string, labels []string) string {
	var pairs []string
	for i := 0; i < len(labels); i += 2 {
		if labels[i+1] != "" {
			pairs = append(pairs, fmt.Sprintf("%s=%q", labels[i], labels[i+1]))
		}
	}
	slices.Sort(pairs)
	if len(pairs) == 0 {
		return name
	}
	return name + "{" + strings.Join(pairs, ",") + "}"
}

// A sim is a test in faked time on a fake server.
type sim struct {
	*testing.T
	server  *fake.Driver
	subject Subject
	client  *holdfast.Client
}

// Run runs the suite in faked time. The function returns a new observer.
func Run(t *testing.T, subject func(testing.TB, measure.Options) Subject) {
	for _, test := range []struct {
		name    string
		options measure.Options
		run     func(*sim)
	}{
		{"outcomes", measure.Options{}, outcomes},
		{"granted", measure.Options{}, granted},
		{"lost", measure.Options{}, lost},
		{"outage", measure.Options{}, outage},
		{"held", measure.Options{}, held},
		{"first", measure.Options{}, first},
		{"deadlock", measure.Options{}, deadlock},
		{"warning", measure.Options{}, warning},
		{"labels", measure.Options{Label: label, MaxLabels: 3}, labels},
		{"dropped", measure.Options{Label: block}, dropped},
		{"two clients", measure.Options{}, twoClients},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &sim{T: t, server: fake.New(), subject: subject(t, test.options)}
				s.client = s.open(0)
				test.run(s)
				_ = s.client.Close()
			})
		})
	}
}

// open returns a client with that watchdog timeout, or the default one if it is zero.
func (s *sim) open(timeout time.Duration) *holdfast.Client {
	c, err := holdfast.New(s.server, &holdfast.Options{Observers: []observe.Observer{s.subject}, Logger: slog.New(slog.DiscardHandler), WatchdogTimeout: timeout})
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// lock locks a mutex.
func (s *sim) lock(name string, opts ...holdfast.LockOption) *holdfast.Lease {
	s.Helper()
	l, err := s.client.Mutex(name).Lock(s.Context(), opts...)
	if err != nil {
		s.Fatal(err)
	}
	return l
}

// other returns a client that is not observed and that holds a mutex.
func (s *sim) other(name string) *holdfast.Client {
	s.Helper()
	c, err := holdfast.New(s.server, &holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		s.Fatal(err)
	}
	if _, err := c.Mutex(name).Lock(s.Context()); err != nil {
		s.Fatal(err)
	}
	return c
}

// settle waits until the observer has received all events.
func (s *sim) settle() {
	time.Sleep(5 * time.Millisecond)
	synctest.Wait()
}

// want fails the test unless these are all lines whose series begins with one of the
// prefixes. Lines of counters with the value zero do not count.
func (s *sim) want(prefixes []string, lines ...string) {
	s.Helper()
	s.settle()
	Want(s, s.subject.Lines(s), prefixes, lines...)
}

// Want fails the test unless these are all lines with one of the prefixes, apart from those
// with the value zero, which are wanted only if they are named.
func Want(tb testing.TB, all, prefixes []string, lines ...string) {
	tb.Helper()
	var got []string
	for _, line := range all {
		if !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(line, p) }) {
			continue
		}
		if !strings.HasSuffix(line, " 0") || slices.Contains(lines, line) {
			got = append(got, line)
		}
	}
	slices.Sort(got)
	slices.Sort(lines)
	if !slices.Equal(got, lines) {
		tb.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(lines, "\n\t"))
	}
}

// figures returns the figures by series.
func (s *sim) figures() map[string]string {
	figures := make(map[string]string)
	for _, line := range s.subject.Lines(s) {
		i := strings.LastIndex(line, "}") + 1
		j := i + strings.Index(line[i:], " ")
		figures[line[:j]] = line[j+1:]
	}
	return figures
}

// value returns the value of a gauge, or -1 if there is none.
func (s *sim) value(series string) float64 {
	value := -1.0
	_, _ = fmt.Sscan(s.figures()[series], &value)
	return value
}
