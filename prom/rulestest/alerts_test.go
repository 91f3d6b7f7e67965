package rulestest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/prom"
)

// A program uses locks on a fake server, in faked time, and is scraped.
type program struct {
	*testing.T
	server   *fake.Driver
	client   *holdfast.Client
	observer observe.Observer
	reg      *prometheus.Registry
	scraped  *database
}

// database keeps the scraped samples.
type database struct {
	series map[string]*series
	times  []time.Time // of the scrapes
}

type series struct {
	labels  labels.Labels
	samples []chunks.Sample
}

// A sample is a value at a time.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// scrape adds the present values.
func (d *database) scrape(t *testing.T, g prometheus.Gatherer, at time.Time) {
	t.Helper()
	gathered, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	d.times = append(d.times, at)
	add := func(name string, value float64, pairs []*dto.LabelPair, more ...string) {
		b := labels.NewScratchBuilder(8)
		b.Add(model.MetricNameLabel, name)
		b.Add("job", "shop")
		b.Add("instance", "a:1")
		for _, p := range pairs {
			b.Add(p.GetName(), p.GetValue())
		}
		for i := 0; i < len(more); i += 2 {
			b.Add(more[i], more[i+1])
		}
		b.Sort()
		l := b.Labels()
		s := d.series[l.String()]
		if s == nil {
			s = &series{labels: l}
			d.series[l.String()] = s
		}
		s.samples = append(s.samples, sample{at.UnixMilli(), value})
	}
	for _, f := range gathered {
		for _, m := range f.GetMetric() {
			switch name := f.GetName(); f.GetType() {
			case dto.MetricType_COUNTER:
				add(name, m.GetCounter().GetValue(), m.GetLabel())
			case dto.MetricType_GAUGE:
				add(name, m.GetGauge().GetValue(), m.GetLabel())
			case dto.MetricType_HISTOGRAM:
				h := m.GetHistogram()
				for _, bucket := range h.GetBucket() {
					add(name+"_bucket", float64(bucket.GetCumulativeCount()), m.GetLabel(), "le", fmt.Sprint(bucket.GetUpperBound()))
				}
				add(name+"_bucket", float64(h.GetSampleCount()), m.GetLabel(), "le", fmt.Sprint(math.Inf(1)))
				add(name+"_sum", h.GetSampleSum(), m.GetLabel())
				add(name+"_count", float64(h.GetSampleCount()), m.GetLabel())
			default:
				t.Errorf("%s is a %v", name, f.GetType())
			}
		}
	}
}

// Querier implements [storage.Queryable].
func (d *database) Querier(from, to int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		set := &seriesSet{at: -1}
		for _, s := range d.series {
			if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.labels.Get(m.Name)) }) {
				continue
			}
			var samples []chunks.Sample
			for _, v := range s.samples {
				if v.T() >= from && v.T() <= to {
					samples = append(samples, v)
				}
			}
			set.series = append(set.series, storage.NewListSeries(s.labels, samples))
		}
		return set
	}}, nil
}

// A seriesSet is a list of series.
type seriesSet struct {
	series []storage.Series
	at     int
}

func (s *seriesSet) Next() bool                        { s.at++; return s.at < len(s.series) }
func (s *seriesSet) At() storage.Series                { return s.series[s.at] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// alerts returns the alerts that fire at any of the scrapes, and at the last one.
func (d *database) alerts(t *testing.T) (ever, last []string) {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: parser.NewParser(parser.Options{}),
	})
	for _, r := range rules(t) {
		var since, fires time.Time
		for _, at := range d.times {
			q, err := engine.NewInstantQuery(t.Context(), d, nil, r.Expr, at)
			if err != nil {
				t.Fatal(err)
			}
			result := q.Exec(t.Context())
			v, err := result.Vector()
			if err != nil {
				t.Fatalf("%s: %v", r.Alert, err)
			}
			switch {
			case len(v) == 0:
				since = time.Time{}
			case since.IsZero():
				since = at
				fallthrough
			default:
				if at.Sub(since) >= time.Duration(r.For) {
					fires = at
				}
			}
			q.Close()
		}
		name := strings.TrimPrefix(r.Alert, "Holdfast")
		if !fires.IsZero() {
			ever = append(ever, name)
			if fires.Equal(d.times[len(d.times)-1]) {
				last = append(last, name)
			}
		}
	}
	return ever, last
}

// every calls f about each second for that long. Scrapes happen meanwhile.
func (p *program) every(long time.Duration, f func()) {
	for end := time.Now().Add(long); time.Now().Before(end); {
		time.Sleep(time.Second)
		f()
	}
}

// work acquires and releases locks for that long.
func (p *program) work(long time.Duration) {
	p.every(long, func() {
		l, err := p.client.Mutex("a").TryLock(p.Context())
		if err == nil {
			time.Sleep(100 * time.Millisecond)
			_ = l.Release(p.Context())
		}
	})
}

// hold acquires a lock that is renewed.
func (p *program) hold(name string, options ...holdfast.LockOption) *holdfast.Lease {
	p.Helper()
	l, err := p.client.Mutex(name).Lock(p.Context(), options...)
	if err != nil {
		p.Fatal(err)
	}
	return l
}

// down makes the server unavailable for that long, while the program works.
func (p *program) down(long time.Duration) {
	p.server.Fail(func(driver.Call) error { return driver.Unsent(errors.New("no network")) })
	p.work(long)
	p.server.Fail(nil)
}

// late makes a renewal late.
func late(p *program) {
	defer p.hold("held").Release(p.Context())
	p.work(10 * time.Minute)
	p.down(20 * time.Second)
	p.work(10 * time.Minute)
}

// lateShort makes the renewal of a lease of 5 s late: it is planned after 1.7 s, and the lease
// would be lost after 4.7 s.
func lateShort(p *program) {
	defer p.hold("held", holdfast.WatchdogTimeout(5*time.Second)).Release(p.Context())
	p.work(10 * time.Minute)
	for p.client.Stats().RenewalAge > 50*time.Millisecond {
		time.Sleep(10 * time.Millisecond)
	}
	p.server.Fail(func(driver.Call) error { return driver.Unsent(errors.New("no network")) })
	time.Sleep(3400 * time.Millisecond)
	p.server.Fail(nil)
	p.work(10 * time.Minute)
}

// Alerts fire when they should, and end. No alert fires while all is well.
func TestAlerts(t *testing.T) {
	const often = 10 * time.Second
	wantAlerts(t, "all is well", often, func(p *program) {
		defer p.hold("held").Release(p.Context())
		defer p.hold("short", holdfast.WatchdogTimeout(5*time.Second)).Release(p.Context())
		defer p.hold("long", holdfast.WatchdogTimeout(5*time.Minute)).Release(p.Context())
		p.work(40 * time.Minute)
	}, nil, nil)
	wantAlerts(t, "busy locks and canceled calls", often, func(p *program) {
		other, err := holdfast.New(p.server, &holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			p.Fatal(err)
		}
		defer other.Close()
		if _, err := other.Mutex("a").Lock(p.Context()); err != nil {
			p.Fatal(err)
		}
		p.every(20*time.Minute, func() {
			_, _ = p.client.Mutex("a").TryLock(p.Context())
			ctx, cancel := context.WithCancel(p.Context())
			time.AfterFunc(time.Second, cancel)
			_, _ = p.client.Mutex("a").Lock(ctx)
		})
	}, nil, nil)
	wantAlerts(t, "a lost lease", often, func(p *program) {
		l := p.hold("lost")
		p.work(10 * time.Minute)
		p.server.FailOver("lost")
		p.work(time.Minute)
		_ = l.Release(p.Context())
	}, []string{"LeaseLost"}, []string{"LeaseLost"})
	wantAlerts(t, "a lost lease, ten minutes later", often, func(p *program) {
		l := p.hold("lost")
		p.server.FailOver("lost") // before the first scrape
		p.work(10 * time.Minute)
		_ = l.Release(p.Context())
	}, []string{"LeaseLost"}, nil)
	wantAlerts(t, "a lease lost by force", often, func(p *program) {
		l := p.hold("lost")
		p.work(5 * time.Minute)
		_, _ = p.client.Mutex("lost").ForceUnlock(p.Context())
		p.work(5 * time.Minute)
		_ = l.Release(p.Context())
	}, nil, nil)
	wantAlerts(t, "a short outage", often, func(p *program) {
		defer p.hold("held").Release(p.Context())
		p.work(10 * time.Minute)
		p.down(3 * time.Second)
		p.work(10 * time.Minute)
	}, nil, nil)
	wantAlerts(t, "a deadlock", often, func(p *program) {
		p.work(5 * time.Minute)
		p.observer.Observe(observe.Event{Type: observe.Deadlock, Kind: "mutex", Name: "a", Count: 2})
		p.work(5 * time.Minute)
	}, []string{"Deadlock"}, []string{"Deadlock"})
	wantAlerts(t, "a deadlock before the first scrape", often, func(p *program) {
		p.observer.Observe(observe.Event{Type: observe.Deadlock, Kind: "mutex", Name: "a", Count: 2})
		p.work(5 * time.Minute)
	}, []string{"Deadlock"}, []string{"Deadlock"})
	wantAlerts(t, "a deadlock that is over", often, func(p *program) {
		p.observer.Observe(observe.Event{Type: observe.Deadlock, Kind: "mutex", Name: "a", Count: 2})
		p.work(30 * time.Minute)
	}, []string{"Deadlock"}, nil)
	wantAlerts(t, "late renewals", often, late, []string{"RenewalLate"}, nil)
	wantAlerts(t, "late renewals between two scrapes", time.Minute, late, []string{"RenewalLate"}, nil)
	wantAlerts(t, "late renewals of a short lease", often, lateShort, []string{"RenewalLate"}, nil)
	wantAlerts(t, "late renewals of a short lease between two scrapes", time.Minute, lateShort, []string{"RenewalLate"}, nil)
	wantAlerts(t, "an outage", often, func(p *program) {
		defer p.hold("held").Release(p.Context())
		p.work(10 * time.Minute)
		p.down(10 * time.Minute)
	}, []string{"LeaseLost", "RenewalLate", "Failures", "Outage"}, []string{"Failures", "Outage"})
	wantAlerts(t, "an outage that is over", often, func(p *program) {
		p.work(10 * time.Minute)
		p.down(10 * time.Minute)
		p.work(20 * time.Minute)
	}, []string{"Failures", "Outage"}, nil)
	wantAlerts(t, "outages again and again", often, func(p *program) {
		for range 5 {
			p.work(3 * time.Minute)
			p.down(2 * time.Second)
		}
		p.work(time.Minute)
	}, []string{"Unstable"}, []string{"Unstable"})
	wantAlerts(t, "long waits", often, func(p *program) {
		for range 3 {
			go p.every(30*time.Minute, func() {
				l, err := p.client.Mutex("a").Lock(p.Context())
				if err == nil {
					time.Sleep(8 * time.Second)
					_ = l.Release(p.Context())
				}
			})
		}
		time.Sleep(31 * time.Minute)
	}, []string{"LongWaits"}, []string{"LongWaits"})
	wantAlerts(t, "dropped events", often, func(p *program) {
		p.work(5 * time.Minute)
		_ = p.hold("slow").Release(p.Context())
		time.Sleep(time.Second)
		for range 5000 {
			_ = p.hold("a").Release(p.Context())
		}
		p.work(5 * time.Minute)
	}, []string{"EventsDropped"}, []string{"EventsDropped"})
}

// wantAlerts runs a program and scrapes it. It checks which alerts fire at some time, and which of them
// fire at the end. The pause between two scrapes is interval.
func wantAlerts(t *testing.T, name string, interval time.Duration, run func(*program), ever, last []string) {
	t.Run(name, func(t *testing.T) {
		scraped := &database{series: make(map[string]*series)}
		synctest.Test(t, func(t *testing.T) { simulate(t, scraped, interval, run) })
		gotEver, gotLast := scraped.alerts(t)
		if !slices.Equal(gotEver, ever) || !slices.Equal(gotLast, last) {
			t.Errorf("%q fire, in the end %q; want %q, in the end %q", gotEver, gotLast, ever, last)
		}
	})
}

// simulate runs a program and scrapes it.
func simulate(t *testing.T, scraped *database, interval time.Duration, run func(*program)) {
	observer := prom.New(prom.Options{Label: func(_, name string) string {
		if name == "slow" {
			time.Sleep(30 * time.Second)
		}
		return ""
	}})
	p := &program{T: t, server: fake.New(), observer: observer, reg: prometheus.NewRegistry(), scraped: scraped}
	p.reg.MustRegister(observer)
	var err error
	p.client, err = holdfast.New(p.server, &holdfast.Options{Observers: []observe.Observer{observer}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-time.After(interval):
				scraped.scrape(t, p.reg, time.Now())
			case <-done:
				return
			}
		}
	}()
	run(p)
	close(done)
	<-stopped
	_ = p.client.Close()
}

// A channel without messages is an alert after five minutes.
func TestPolling(t *testing.T) {
	scraped := &database{series: make(map[string]*series)}
	silent := prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_subscription_silent", Help: "As the module prom exports it."})
	reg := prometheus.NewRegistry()
	reg.MustRegister(silent)
	silent.Set(1)
	start := time.Unix(1e9, 0)
	for minute := range 5 {
		scraped.scrape(t, reg, start.Add(time.Duration(minute)*time.Minute))
	}
	if ever, _ := scraped.alerts(t); len(ever) > 0 {
		t.Errorf("%q fire", ever)
	}
	scraped.scrape(t, reg, start.Add(5*time.Minute))
	if _, last := scraped.alerts(t); !slices.Equal(last, []string{"Polling"}) {
		t.Errorf("%q fire", last)
	}
}
