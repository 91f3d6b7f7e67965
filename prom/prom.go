// Package prom reports what the clients of a program do to Prometheus.
//
//	observer := prom.New(prom.Options{})
//	prometheus.MustRegister(observer)
//	...
//	client, err := holdfast.Open(ctx, url, &holdfast.Options{Observers: []observe.Observer{observer}})
//
// One observer can serve several clients. The figures are those of all of them.
//
// docs/observability.md in the repository lists the metrics. Counters and histograms are
// made from events. Gauges, such as holdfast_lock_held, are read from holdfast.Client.Stats
// at each scrape, so they are exact even if events were dropped. The directories grafana and
// alerts of this module have a dashboard and alert rules.
package prom

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast/internal/measure"
	"github.com/holdfast-go/holdfast/observe"
)

// Options configure an [Observer]. The zero value is a good choice.
type Options struct {
	// Label returns the label "name" for the name of a lock: it may map "order:42" to
	// "order:*". For "", the label is empty. It is called once or twice per lock, on a
	// goroutine of its own, and at each scrape for each lock that is held. By default,
	// metrics do not contain names, because each different name costs memory in the
	// program and in Prometheus.
	Label func(kind, name string) string

	// MaxLabels is how many different values the label "name" can have. Further ones
	// become "other". The default is 100.
	MaxLabels int

	// Buckets are the upper bounds of the buckets of all histograms, in seconds. The
	// default is 19 bounds from 0.1 ms to 5 minutes. Each histogram is also a native
	// histogram, which Prometheus prefers if it is configured to.
	Buckets []float64

	// Exemplar returns the labels of an exemplar for a call with that context, such as
	// the id of its trace, or nil. By default, there are no exemplars.
	Exemplar func(context.Context) prometheus.Labels
}

// An Observer reports to Prometheus what its clients do. Make it with [New], register it, and
// pass it in holdfast.Options to each client.
type Observer struct {
	figures *measure.Meter
	backend *backend
	gauges  [len(measure.Figures)]*prometheus.Desc
}

var (
	_ observe.Observer     = (*Observer)(nil)
	_ observe.Watcher      = (*Observer)(nil)
	_ prometheus.Collector = (*Observer)(nil)
)

// New returns an observer.
func New(o Options) *Observer {
	if o.Buckets == nil {
		o.Buckets = measure.Buckets
	}
	b := &backend{named: o.Label != nil, exemplar: o.Exemplar}
	p := &Observer{backend: b}
	for i, f := range measure.Figures {
		switch m := measure.Metric(i); f.Type {
		case measure.Counter:
			b.counters[m] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.Prometheus(), Help: f.Help}, b.labels(m))
		case measure.Histogram:
			b.histograms[m] = prometheus.NewHistogramVec(prometheus.HistogramOpts{
				Name: f.Prometheus(), Help: f.Help, Buckets: o.Buckets,
				NativeHistogramBucketFactor:     1.1,
				NativeHistogramMaxBucketNumber:  160,
				NativeHistogramMinResetDuration: time.Hour,
			}, b.labels(m))
		default:
			p.gauges[m] = prometheus.NewDesc(f.Prometheus(), f.Help, b.labels(m), nil)
		}
	}
	p.figures = measure.New(b, measure.Options{Label: o.Label, MaxLabels: o.MaxLabels})
	return p
}

// Observe implements [observe.Observer].
func (o *Observer) Observe(e observe.Event) { o.figures.Observe(e) }

// Watch reads the gauges of the client until stop is called. holdfast.New and
// holdfast.Client.Close do both for the observers in holdfast.Options.
func (o *Observer) Watch(c observe.Client) (stop func()) { return o.figures.Watch(c) }

// Describe implements [prometheus.Collector].
func (o *Observer) Describe(to chan<- *prometheus.Desc) {
	for i := range measure.Figures {
		switch c := o.backend.collector(i); {
		case c != nil:
			c.Describe(to)
		default:
			to <- o.gauges[i]
		}
	}
}

// Collect implements [prometheus.Collector].
func (o *Observer) Collect(to chan<- prometheus.Metric) {
	for i := range measure.Figures {
		if c := o.backend.collector(i); c != nil {
			c.Collect(to)
		}
	}
	o.figures.Gauges(func(m measure.Metric, v measure.Values, value float64) {
		to <- prometheus.MustNewConstMetric(o.gauges[m], prometheus.GaugeValue, value, o.backend.values(m, v)...)
	})
}

// A backend keeps counters and histograms.
type backend struct {
	named      bool // there are labels for names
	exemplar   func(context.Context) prometheus.Labels
	counters   [len(measure.Figures)]*prometheus.CounterVec
	histograms [len(measure.Figures)]*prometheus.HistogramVec
}

// collector returns the counters or the histograms of a figure, or nil if it is a gauge.
func (b *backend) collector(i int) prometheus.Collector {
	switch {
	case b.counters[i] != nil:
		return b.counters[i]
	case b.histograms[i] != nil:
		return b.histograms[i]
	}
	return nil
}

// labels returns the names of the labels of a figure.
func (b *backend) labels(m measure.Metric) []string {
	var labels []string
	for _, l := range measure.Figures[m].Labels {
		if l != "name" || b.named {
			labels = append(labels, l)
		}
	}
	return labels
}

// values returns the values of the labels of a figure.
func (b *backend) values(m measure.Metric, v measure.Values) []string {
	values := b.labels(m)
	for i, l := range values {
		values[i] = v.Value(l)
	}
	return values
}

// Counter implements [measure.Backend].
func (b *backend) Counter(m measure.Metric, v measure.Values) func(context.Context, int) {
	c := b.counters[m].WithLabelValues(b.values(m, v)...)
	return func(_ context.Context, n int) { c.Add(float64(n)) }
}

// Histogram implements [measure.Backend].
func (b *backend) Histogram(m measure.Metric, v measure.Values) func(context.Context, time.Duration) {
	h := b.histograms[m].WithLabelValues(b.values(m, v)...)
	if b.exemplar == nil {
		return func(_ context.Context, d time.Duration) { h.Observe(d.Seconds()) }
	}
	e := h.(prometheus.ExemplarObserver)
	return func(ctx context.Context, d time.Duration) { e.ObserveWithExemplar(d.Seconds(), b.exemplar(ctx)) }
}
