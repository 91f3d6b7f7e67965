// Package otel reports what the clients of a program do to OpenTelemetry, as metrics and as
// spans.
//
//	observer, err := otel.New(otel.Options{})
//	...
//	client, err := holdfast.Open(ctx, url, &holdfast.Options{Observers: []observe.Observer{observer}})
//
// One observer can serve several clients. The figures are those of all of them.
//
// # Metrics
//
// docs/observability.md in the repository lists the metrics. Counters and histograms are
// made from events. Gauges, such as holdfast.lock.held, are read from holdfast.Client.Stats,
// so they are exact even if events were dropped.
//
// # Spans
//
// Each call that acquires a lock or permits within a sampled span gets a child span for the
// time that it took, and one for the time that the lease was held, with a link to the first.
// A lease that enters a lock again has no spans: those of the outer lease cover it.
package otel

import (
	"context"
	"errors"
	"sync"
	"time"

	api "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast/internal/measure"
	"github.com/holdfast-go/holdfast/observe"
)

// scope is the name of the instrumentation scope of all metrics and spans.
const scope = "github.com/holdfast-go/holdfast/otel"

// Options configure an [Observer]. The zero value is a good choice.
type Options struct {
	// MeterProvider receives the metrics. The default is otel.GetMeterProvider(). For no
	// metrics, use a provider of package go.opentelemetry.io/otel/metric/noop.
	MeterProvider metric.MeterProvider

	// TracerProvider receives the spans. The default is otel.GetTracerProvider(). For no
	// spans, use a provider of package go.opentelemetry.io/otel/trace/noop.
	TracerProvider trace.TracerProvider

	// Label returns the attribute holdfast.name of metrics for the name of a lock: it
	// may map "order:42" to "order:*". For "", there is no attribute. It is called once
	// or twice per lock, on a goroutine of its own. By default, metrics do not contain
	// names, because each different name costs memory in the program and in the
	// database. Spans have the name itself.
	Label func(kind, name string) string

	// MaxLabels is how many different values the attribute holdfast.name can have.
	// Further ones become "other". The default is 100.
	MaxLabels int

	// RootSpans also makes spans for calls whose context contains no span. Each of them
	// is the root of a trace. By default, only calls within a sampled span have spans.
	RootSpans bool
}

// An Observer reports to OpenTelemetry what its clients do. Make it with [New], and pass it
// in holdfast.Options to each client.
type Observer struct {
	figures *measure.Meter
	spans   *spans
	meter   metric.Meter
	gauges  map[measure.Metric]metric.Observable

	mu           sync.Mutex
	clients      int // how many are watched
	registration metric.Registration
}

var (
	_ observe.Observer = (*Observer)(nil)
	_ observe.Watcher  = (*Observer)(nil)
)

// New returns an observer. The error is that of a meter provider that refuses an instrument.
func New(o Options) (*Observer, error) {
	if o.MeterProvider == nil {
		o.MeterProvider = api.GetMeterProvider()
	}
	if o.TracerProvider == nil {
		o.TracerProvider = api.GetTracerProvider()
	}
	b := &backend{
		meter:      o.MeterProvider.Meter(scope),
		counters:   make(map[measure.Metric]metric.Int64Counter),
		histograms: make(map[measure.Metric]metric.Float64Histogram),
		gauges:     make(map[measure.Metric]metric.Observable),
	}
	if err := b.create(); err != nil {
		return nil, err
	}
	return &Observer{
		figures: measure.New(b, measure.Options{Label: o.Label, MaxLabels: o.MaxLabels}),
		spans:   newSpans(o.TracerProvider.Tracer(scope), o.RootSpans),
		meter:   b.meter,
		gauges:  b.gauges,
	}, nil
}

// Observe implements [observe.Observer].
func (o *Observer) Observe(e observe.Event) {
	if ctx := o.spans.make(e); ctx != nil {
		e.Context = ctx // the exemplar of the metrics is the new span
	}
	o.figures.Observe(e)
}

// Watch reads the gauges of the client until stop is called. holdfast.New and
// holdfast.Client.Close do both for the observers in holdfast.Options.
func (o *Observer) Watch(c observe.Client) (stop func()) {
	stopFigures, id := o.figures.Watch(c), c.ID()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.clients++; o.clients == 1 {
		instruments := make([]metric.Observable, 0, len(o.gauges))
		for _, g := range o.gauges {
			instruments = append(instruments, g)
		}
		r, err := o.meter.RegisterCallback(o.read, instruments...)
		if err != nil {
			api.Handle(err)
		}
		o.registration = r
	}
	return sync.OnceFunc(func() {
		stopFigures()
		o.spans.forget(id)
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.clients--; o.clients == 0 && o.registration != nil {
			if err := o.registration.Unregister(); err != nil {
				api.Handle(err)
			}
			o.registration = nil
		}
	})
}

// read observes the gauges.
func (o *Observer) read(_ context.Context, to metric.Observer) error {
	o.figures.Gauges(func(m measure.Metric, v measure.Values, value float64) {
		attributes := metric.WithAttributeSet(set(m, v))
		switch g := o.gauges[m].(type) {
		case metric.Int64Observable:
			to.ObserveInt64(g, int64(value), attributes)
		case metric.Float64Observable:
			to.ObserveFloat64(g, value, attributes)
		}
	})
	return nil
}

// A backend keeps the figures in instruments of OpenTelemetry.
type backend struct {
	meter      metric.Meter
	counters   map[measure.Metric]metric.Int64Counter
	histograms map[measure.Metric]metric.Float64Histogram
	gauges     map[measure.Metric]metric.Observable
}

// create makes the instruments.
func (b *backend) create() error {
	var errs []error
	for i, f := range measure.Figures {
		var err error
		help, unit := metric.WithDescription(f.Help), metric.WithUnit(f.Unit)
		switch m := measure.Metric(i); f.Type {
		case measure.Counter:
			b.counters[m], err = b.meter.Int64Counter(f.Name, help, unit)
		case measure.Histogram:
			b.histograms[m], err = b.meter.Float64Histogram(f.Name, help, unit, metric.WithExplicitBucketBoundaries(measure.Buckets...))
		case measure.Sum:
			b.gauges[m], err = b.meter.Int64ObservableUpDownCounter(f.Name, help, unit)
		case measure.Gauge:
			b.gauges[m], err = b.meter.Float64ObservableGauge(f.Name, help, unit)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// set returns the attributes of a figure.
func set(m measure.Metric, v measure.Values) attribute.Set {
	var attributes []attribute.KeyValue
	for _, label := range measure.Figures[m].Labels {
		if value := v.Value(label); value != "" {
			attributes = append(attributes, attribute.String("holdfast."+label, value))
		}
	}
	return attribute.NewSet(attributes...)
}

// Counter implements [measure.Backend].
func (b *backend) Counter(m measure.Metric, v measure.Values) func(context.Context, int) {
	c, options := b.counters[m], []metric.AddOption{metric.WithAttributeSet(set(m, v))}
	c.Add(context.Background(), 0, options...)
	return func(ctx context.Context, n int) { c.Add(ctx, int64(n), options...) }
}

// Histogram implements [measure.Backend].
func (b *backend) Histogram(m measure.Metric, v measure.Values) func(context.Context, time.Duration) {
	h, options := b.histograms[m], []metric.RecordOption{metric.WithAttributeSet(set(m, v))}
	return func(ctx context.Context, d time.Duration) { h.Record(ctx, d.Seconds(), options...) }
}
