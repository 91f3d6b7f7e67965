package mutants

func init() { All = append(All, figures...) }

// figures holds the mutants of the figures and of the spans that are made from events.
var figures = []Mutant{
	{
		"the time of a lost lease is counted at its release, too",
		"internal/measure/meter.go", "(e.Err == nil || !errors.Is(e.Err, holdfast.ErrLost))", "(e.Err == nil || errors.Is(e.Err, holdfast.ErrLost))",
		"prom", "TestMetrics/lost",
	},
	{
		"a lease that enters again is counted as one more hold",
		"internal/measure/meter.go", "Ends(e) && e.Via != observe.ViaReentry {", "Ends(e) {",
		"otel", "TestMetrics/granted",
	},
	{
		"the counter of losses begins with the first loss",
		"internal/measure/meter.go", "		m.newLeases(Values{Kind: v.Kind, Name: v.Name})\n", "",
		"prom", "TestMetrics/first",
	},
	{
		"of many dropped events, one is counted",
		"internal/measure/meter.go", "m.dropped(ctx, e.Count)", "m.dropped(ctx, 1)",
		"prom", "TestMetrics/dropped",
	},
	{
		"there are as many labels as names",
		"internal/measure/labels.go", "!known && len(l.known) >= l.max", "!known && l.max < 0",
		"otel", "TestMetrics/labels",
	},
	{
		"a renewal is overdue by the timeout of the client",
		"internal/watchdog/watchdog.go", "due := c.state.confirmed + w.period(min(c.state.granted, c.state.renewal))", "due := c.state.confirmed + w.every",
		"prom/rulestest", "TestAlerts/late_renewals_of_a_short_lease",
	},
	{
		"the renewal of a short lease is repeated at the pace of the client",
		"internal/watchdog/renew.go", "		return min(clock.RetryPause(period), max(left, 5*time.Millisecond))\n", "		_ = left\n		return clock.RetryPause(w.every)\n",
		"observe", "TestWarnLateOfEachTimeout",
	},
	{
		"a closed client still has gauges",
		"internal/measure/watch.go", "			delete(w.clients, c)\n", "",
		"prom", "TestMetrics/two_clients",
	},
	{
		"a watcher is not told that its client is closed",
		"client.go", "			stop()\n", "			_ = stop\n",
		"observe", "TestWatcher",
	},
	{
		"a call without a span is the root of a trace",
		"otel/spans.go", "s.roots && !parent.IsValid()", "!parent.IsValid()",
		"otel", "TestRootSpans",
	},
	{
		"the span of a lease begins later by the time that its release takes",
		"otel/spans.go", "start = before.end", "_ = before.end",
		"otel", "TestSpans",
	},
}
