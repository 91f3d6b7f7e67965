package rulestest

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/measure"
	"github.com/holdfast-go/holdfast/internal/measure/measuretest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/otel"
	"github.com/holdfast-go/holdfast/prom"
)

func init() { measuretest.FakeTime() }

func TestMain(m *testing.M) { locktest.Main(m, nil) }

// A family is a metric as the module prom exports it.
type family struct {
	kind   dto.MetricType
	labels map[string][]string // the values of each
}

// families returns the metrics in a registry.
func families(t *testing.T, g prometheus.Gatherer) map[string]family {
	t.Helper()
	gathered, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]family)
	for _, f := range gathered {
		fam := family{f.GetType(), make(map[string][]string)}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				fam.labels[l.GetName()] = append(fam.labels[l.GetName()], l.GetValue())
			}
		}
		all[f.GetName()] = fam
	}
	return all
}

// exported returns the metrics that the module prom exports, after calls of every kind on a
// real server.
func exported(t *testing.T) map[string]family {
	t.Helper()
	s := subject{Observer: prom.New(prom.Options{}), reg: prometheus.NewPedanticRegistry()}
	s.reg.MustRegister(s.Observer)
	measuretest.Kinds(t, s)
	return families(t, s.reg)
}

// A subject is an observer in a registry.
type subject struct {
	*prom.Observer
	reg *prometheus.Registry
}

// Lines implements [measuretest.Subject].
func (s subject) Lines(tb testing.TB) (lines []string) {
	tb.Helper()
	gathered, err := s.reg.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range gathered {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName(), l.GetValue())
			}
			lines = append(lines, measuretest.Line(f.GetName(), m.GetCounter().GetValue()+m.GetGauge().GetValue(), labels...))
		}
	}
	return lines
}

// outcomes are those that package observe documents.
var outcomes = []string{"acquired", "busy", "full", "canceled", "unavailable", "refused", "deadlock", "lost", "closed", "invalid", "confirmed", "failed"}

// A checker checks expressions.
type checker struct {
	exported map[string]family
	used     map[string]bool
}

// check returns the labels of the result of an expression, or what is wrong with it.
func (c checker) check(expr string) (result map[string]bool, err error) {
	root, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return nil, err
	}
	all, by := map[string]bool{"job": true, "instance": true}, make(map[string]bool)
	aggregated := false
	var problems []string
	parser.Inspect(root, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			f, problem := c.metric(n.Name)
			if problem != "" {
				problems = append(problems, problem)
				return nil
			}
			for l := range f.labels {
				all[l] = true
			}
			all["le"] = all["le"] || strings.HasSuffix(n.Name, "_bucket")
			for _, m := range n.LabelMatchers {
				if problem := f.matches(m); problem != "" {
					problems = append(problems, n.Name+": "+problem)
				}
			}
		case *parser.AggregateExpr:
			if n.Without {
				break
			}
			aggregated = true
			for _, l := range n.Grouping {
				by[l] = true
			}
		}
		return nil
	})
	for l := range by {
		if !all[l] {
			problems = append(problems, "no metric has the label "+l)
		}
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("%s: %s", expr, strings.Join(problems, "; "))
	}
	if aggregated {
		return by, nil
	}
	return all, nil
}

// metric returns the metric with a name, or what is wrong with the name.
func (c checker) metric(name string) (family, string) {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok {
			if f, ok := c.exported[base]; ok && f.kind == dto.MetricType_HISTOGRAM {
				c.used[base] = true
				return f, ""
			}
		}
	}
	f, ok := c.exported[name]
	switch {
	case !ok:
		return f, name + " is not exported"
	case f.kind == dto.MetricType_HISTOGRAM:
		return f, name + " is a histogram"
	}
	c.used[name] = true
	return f, ""
}

// matches returns what is wrong with a matcher, or "".
func (f family) matches(m *labels.Matcher) string {
	if m.Name == model.MetricNameLabel || m.Name == "job" || m.Name == "instance" || m.Value == "$"+m.Name {
		return ""
	}
	if m.Name == "le" {
		if f.kind == dto.MetricType_HISTOGRAM && slices.ContainsFunc(measure.Buckets, func(b float64) bool { return m.Matches(fmt.Sprint(b)) }) {
			return ""
		}
		return "no bucket has the bound " + m.Value
	}
	known, ok := f.labels[m.Name]
	if !ok {
		return "there is no label " + m.Name
	}
	if m.Name == "outcome" {
		known = outcomes
	}
	for value := range strings.SplitSeq(m.Value, "|") {
		if !slices.Contains(known, value) {
			return fmt.Sprintf("the label %s is never %q", m.Name, value)
		}
	}
	return ""
}

var (
	legend     = regexp.MustCompile(`\{\{(\w+)\}\}`)
	annotation = regexp.MustCompile(`\$labels\.(\w+)`)
	variable   = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
)

// wantLabels returns an error unless all labels that a text uses are there.
func wantLabels(text string, pattern *regexp.Regexp, there map[string]bool) error {
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		if !there[m[1]] {
			return fmt.Errorf("%q uses the label %s, which the expression does not have", text, m[1])
		}
	}
	return nil
}

// Every metric and every label that the dashboard uses is exported. It shows all metrics.
func TestDashboard(t *testing.T) {
	type target struct{ Expr, LegendFormat, TextFormat, TitleFormat string }
	var dashboard struct {
		Title  string
		Panels []struct {
			ID          int
			Type, Title string
			GridPos     struct{ X, Y, W, H int }
			Targets     []target
		}
		Annotations struct{ List []target }
		Templating  struct {
			List []struct{ Name, Type, Definition string }
		}
	}
	if err := json.Unmarshal([]byte(prom.Dashboard()), &dashboard); err != nil {
		t.Fatal(err)
	}
	c := checker{exported(t), make(map[string]bool)}
	replace := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h")
	targets := dashboard.Annotations.List
	ids := make(map[int]bool)
	type cell struct{ x, y int }
	taken := make(map[cell]string)
	for _, p := range dashboard.Panels {
		targets = append(targets, p.Targets...)
		if ids[p.ID] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d, %q", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := cell{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] != "" {
					t.Fatalf("the panels %q and %q overlap", p.Title, taken[at])
				}
				taken[at] = p.Title
			}
		}
	}
	for _, q := range targets {
		there, err := c.check(replace.Replace(q.Expr))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, text := range []string{q.LegendFormat, q.TextFormat, q.TitleFormat} {
			if err := wantLabels(text, legend, there); err != nil {
				t.Error(err)
			}
		}
	}
	for _, v := range dashboard.Templating.List {
		if v.Type != "query" {
			continue
		}
		m := variable.FindStringSubmatch(v.Definition)
		if m == nil {
			t.Errorf("%s is %q", v.Name, v.Definition)
			continue
		}
		if there, err := c.check(m[1]); err != nil || !there[m[2]] {
			t.Errorf("%s is %q: %v", v.Name, v.Definition, err)
		}
	}
	for name := range c.exported {
		if !c.used[name] {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}

// rules returns the alert rules.
func rules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.Parse([]byte(prom.Rules()), false, model.LegacyValidation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var rules []rulefmt.Rule
	for _, g := range groups.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules
}

// Every metric and every label that the alert rules use is exported.
func TestRules(t *testing.T) {
	c := checker{exported(t), make(map[string]bool)}
	for _, r := range rules(t) {
		there, err := c.check(r.Expr)
		if err != nil {
			t.Errorf("%s: %v", r.Alert, err)
			continue
		}
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
			t.Errorf("%s has no severity or no summary", r.Alert)
		}
		for _, text := range r.Annotations {
			if err := wantLabels(text, annotation, there); err != nil {
				t.Errorf("%s: %v", r.Alert, err)
			}
		}
	}
}

// The checks above find what is wrong.
func TestChecks(t *testing.T) {
	c := checker{exported(t), make(map[string]bool)}
	for expr, want := range map[string]string{
		`sum by (kind) (holdfast_lock_held)`:                 "",
		`holdfast_lock_helt`:                                 "not exported",
		`holdfast_lock_wait_duration_seconds`:                "is a histogram",
		`rate(holdfast_lock_held_bucket[5m])`:                "not exported",
		`holdfast_lock_held{outcome="busy"}`:                 "no label outcome",
		`holdfast_lock_acquisitions_total{outcome="bussy"}`:  `never "bussy"`,
		`holdfast_lock_losses_total{reason!~"closed|force"}`: `never "force"`,
		`sum by (via) (holdfast_lock_held)`:                  "no metric has the label via",
		`holdfast_renewal_lateness_seconds_bucket{le="6"}`:   "no bucket",
		`sum(`: "unclosed",
		`histogram_quantile(0.5, sum by (le) (holdfast_lock_acquisitions_total))`: "no metric has the label le",
	} {
		_, err := c.check(expr)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", expr, err, want)
		}
	}
}

// The module otel and an exporter of OpenTelemetry for Prometheus give the same names as the
// module prom. Labels have the prefix holdfast_.
func TestExporter(t *testing.T) {
	native, foreign := prometheus.NewPedanticRegistry(), prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(foreign), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		t.Fatal(err)
	}
	label := func(_, name string) string { return name }
	one := prom.New(prom.Options{Label: label})
	native.MustRegister(one)
	two, err := otel.New(otel.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader)), Label: label})
	if err != nil {
		t.Fatal(err)
	}
	c, err := holdfast.New(fake.New(), &holdfast.Options{Observers: []observe.Observer{one, two}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Mutex("a").Lock(t.Context()); err != nil { // for the gauges
		t.Fatal(err)
	}
	for _, o := range []observe.Observer{one, two} {
		for _, e := range []observe.Event{
			{Type: observe.Acquired, Kind: "mutex", Name: "a", ID: 1, Via: observe.ViaServer},
			{Type: observe.Released, Kind: "mutex", Name: "a", ID: 1, Via: observe.ViaServer},
			{Type: observe.Acquired, Kind: "semaphore", Name: "a", ID: 2, Permits: 1},
			{Type: observe.Acquired, Kind: "rate limiter", Name: "a", ID: 3, Permits: 1},
			{Type: observe.Renewed, Count: 1},
			{Type: observe.OutageStarted},
			{Type: observe.OutageEnded},
		} {
			o.Observe(e)
		}
	}
	got, want := families(t, foreign), families(t, native)
	for name, w := range want {
		g, ok := got[name]
		if !ok || g.kind != w.kind {
			t.Errorf("%s is a %v, want a %v", name, g.kind, w.kind)
		}
		for label := range w.labels {
			if len(g.labels["holdfast_"+label]) == 0 {
				t.Errorf("%s lacks the label holdfast_%s", name, label)
			}
		}
	}
	if len(got) != len(want) || len(want) != len(measure.Figures) {
		t.Errorf("%d metrics %q, want %d: %q", len(got), slices.Sorted(maps.Keys(got)), len(want), slices.Sorted(maps.Keys(want)))
	}
}
