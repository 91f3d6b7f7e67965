package otel_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	api "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/measure"
	"github.com/holdfast-go/holdfast/internal/measure/measuretest"
	"github.com/holdfast-go/holdfast/otel"
)

func init() { measuretest.FakeTime() }

func TestMain(m *testing.M) { locktest.Main(m, nil) }

// A subject is an observer whose metrics go to a reader.
type subject struct {
	*otel.Observer
	reader *metric.ManualReader
}

func newSubject(tb testing.TB, o otel.Options) subject {
	tb.Helper()
	s := subject{reader: metric.NewManualReader()}
	o.MeterProvider = metric.NewMeterProvider(metric.WithReader(s.reader))
	var err error
	if s.Observer, err = otel.New(o); err != nil {
		tb.Fatal(err)
	}
	return s
}

// collect returns the metrics.
func (s subject) collect(tb testing.TB) []metricdata.Metrics {
	tb.Helper()
	var all metricdata.ResourceMetrics
	if err := s.reader.Collect(context.Background(), &all); err != nil {
		tb.Fatal(err)
	}
	var metrics []metricdata.Metrics
	for _, scope := range all.ScopeMetrics {
		if scope.Scope.Name != "github.com/holdfast-go/holdfast/otel" {
			tb.Errorf("the scope is %q", scope.Scope.Name)
		}
		metrics = append(metrics, scope.Metrics...)
	}
	return metrics
}

// Lines implements [measuretest.Subject].
func (s subject) Lines(tb testing.TB) (lines []string) {
	tb.Helper()
	for _, m := range s.collect(tb) {
		f := figure(tb, m)
		name := f.Prometheus()
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			if data.IsMonotonic != (f.Type == measure.Counter) || f.Type == measure.Gauge {
				tb.Errorf("%s is monotonic: %v", m.Name, data.IsMonotonic)
			}
			for _, p := range data.DataPoints {
				lines = append(lines, measuretest.Line(name, float64(p.Value), labels(tb, p.Attributes)...))
			}
		case metricdata.Gauge[float64]:
			if f.Type != measure.Gauge {
				tb.Errorf("%s is a gauge", m.Name)
			}
			for _, p := range data.DataPoints {
				lines = append(lines, measuretest.Line(name, p.Value, labels(tb, p.Attributes)...))
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				if len(p.Bounds) != len(measure.Buckets) || p.Bounds[0] != 0.0001 || p.Bounds[len(p.Bounds)-1] != 300 {
					tb.Errorf("%s has the buckets %v", m.Name, p.Bounds)
				}
				lines = append(lines, measuretest.HistogramLine(name, p.Count, p.Sum, labels(tb, p.Attributes)...))
			}
		default:
			tb.Errorf("%s is a %T", m.Name, data)
		}
	}
	return lines
}

// figure returns the description of a metric.
func figure(tb testing.TB, m metricdata.Metrics) measure.Figure {
	tb.Helper()
	for _, f := range measure.Figures {
		if f.Name == m.Name {
			if m.Unit != f.Unit || m.Description != f.Help {
				tb.Errorf("%s has the unit %q and the description %q", m.Name, m.Unit, m.Description)
			}
			return f
		}
	}
	tb.Fatalf("%s is not described", m.Name)
	return measure.Figure{}
}

// labels returns the attributes without their prefix.
func labels(tb testing.TB, set attribute.Set) (pairs []string) {
	for _, a := range set.ToSlice() {
		label, ok := strings.CutPrefix(string(a.Key), "holdfast.")
		if !ok || a.Value.AsString() == "" {
			tb.Errorf("the attribute is %s=%q", a.Key, a.Value.AsString())
		}
		pairs = append(pairs, label, a.Value.AsString())
	}
	return pairs
}

// The metrics say what the clients do.
func TestMetrics(t *testing.T) {
	measuretest.Run(t, func(tb testing.TB, o measure.Options) measuretest.Subject {
		return newSubject(tb, otel.Options{Label: o.Label, MaxLabels: o.MaxLabels})
	})
}

// The metrics of each kind of lock, semaphore and limiter, on a real server.
func TestKinds(t *testing.T) { measuretest.Kinds(t, newSubject(t, otel.Options{})) }

// A meter provider that refuses an instrument fails New.
func TestRefused(t *testing.T) {
	if _, err := otel.New(otel.Options{MeterProvider: refusing{}}); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
	if _, err := otel.New(otel.Options{}); err != nil { // the global providers
		t.Error(err)
	}
}

// refusing is a meter provider that refuses histograms.
type refusing struct{ noop.MeterProvider }

type refusingMeter struct{ noop.Meter }

func (refusing) Meter(string, ...api.MeterOption) api.Meter { return refusingMeter{} }

func (refusingMeter) Float64Histogram(name string, _ ...api.Float64HistogramOption) (api.Float64Histogram, error) {
	return noop.Float64Histogram{}, fmt.Errorf("%s refused", name)
}
