package prom_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/measure"
	"github.com/holdfast-go/holdfast/internal/measure/measuretest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/prom"
)

func init() { measuretest.FakeTime() }

func TestMain(m *testing.M) { locktest.Main(m, nil) }

// A subject is an observer in a registry.
type subject struct {
	*prom.Observer
	registry *prometheus.Registry
}

func newSubject(tb testing.TB, o prom.Options) subject {
	tb.Helper()
	s := subject{prom.New(o), prometheus.NewPedanticRegistry()}
	if err := s.registry.Register(s.Observer); err != nil {
		tb.Fatal(err)
	}
	return s
}

// gather returns the metrics.
func (s subject) gather(tb testing.TB) []*dto.MetricFamily {
	tb.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	return families
}

// Lines implements [measuretest.Subject].
func (s subject) Lines(tb testing.TB) (lines []string) {
	tb.Helper()
	for _, f := range s.gather(tb) {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName(), l.GetValue())
			}
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				lines = append(lines, measuretest.Line(f.GetName(), m.GetCounter().GetValue(), labels...))
			case dto.MetricType_GAUGE:
				lines = append(lines, measuretest.Line(f.GetName(), m.GetGauge().GetValue(), labels...))
			case dto.MetricType_HISTOGRAM:
				h := m.GetHistogram()
				if n := len(h.GetBucket()); n != len(measure.Buckets) {
					tb.Errorf("%s has %d classic buckets", f.GetName(), n)
				}
				if h.GetSampleCount() > 0 && len(h.GetPositiveSpan()) == 0 && h.GetZeroCount() == 0 {
					tb.Errorf("%s is no native histogram", f.GetName())
				}
				lines = append(lines, measuretest.HistogramLine(f.GetName(), h.GetSampleCount(), h.GetSampleSum(), labels...))
			default:
				tb.Errorf("%s is a %v", f.GetName(), f.GetType())
			}
		}
	}
	return lines
}

// The metrics say what the clients do.
func TestMetrics(t *testing.T) {
	measuretest.Run(t, func(tb testing.TB, o measure.Options) measuretest.Subject {
		return newSubject(tb, prom.Options{Label: o.Label, MaxLabels: o.MaxLabels})
	})
}

// The metrics of each kind of lock, semaphore and limiter, on a real server. Their names and
// help texts are as Prometheus advises.
func TestKinds(t *testing.T) {
	s := newSubject(t, prom.Options{})
	measuretest.Kinds(t, s)
	problems, err := testutil.GatherAndLint(s.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	families := make(map[string]string)
	for _, f := range s.gather(t) {
		families[f.GetName()] = f.GetHelp()
	}
	for _, f := range measure.Figures {
		if help, ok := families[f.Prometheus()]; !ok || help != f.Help {
			t.Errorf("%s: %q", f.Prometheus(), help)
		}
	}
}

// Histograms have the buckets and the exemplars of the options.
func TestHistograms(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, prom.Options{
			Buckets: []float64{1, 2},
			Exemplar: func(ctx context.Context) prometheus.Labels {
				if id, ok := ctx.Value(key{}).(string); ok {
					return prometheus.Labels{"trace_id": id}
				}
				return nil
			},
		})
		c, err := holdfast.New(fake.New(), &holdfast.Options{Observers: []observe.Observer{s}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		for name, ctx := range map[string]context.Context{"a": t.Context(), "b": context.WithValue(t.Context(), key{}, "17")} {
			l, err := c.Mutex(name).Lock(ctx)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(1500 * time.Millisecond)
			_ = l.Release(ctx)
		}
		_ = c.Close()
		found := false
		for _, f := range s.gather(t) {
			if f.GetName() != "holdfast_lock_hold_duration_seconds" {
				continue
			}
			b := f.GetMetric()[0].GetHistogram().GetBucket()
			if len(b) != 2 || b[0].GetCumulativeCount() != 0 || b[1].GetCumulativeCount() != 2 {
				t.Fatalf("buckets %v", b)
			}
			found = strings.Contains(b[1].GetExemplar().String(), `"17"`) && b[0].GetExemplar() == nil
		}
		if !found {
			t.Error("no exemplar")
		}
	})
}
