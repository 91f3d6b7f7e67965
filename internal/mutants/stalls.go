package mutants

func init() { All = append(All, stalls...) }

// stalls holds the mutants of the StallMeter.
var stalls = []Mutant{
	{
		"a defect is reported as a slow machine",
		"internal/redistest/stalls.go", "case stalled <= tolerance:", "case false && stalled <= tolerance:",
		"internal/redistest", "TestRounds",
	},
	{
		"a stall counts only after its end",
		"internal/redistest/stalls.go", "if !p.due.IsZero() && now.Sub(p.due) > stallMin {", "if false && !p.due.IsZero() {",
		"internal/redistest", "TestStallsOfServer",
	},
	{
		"a stalled server is not detected",
		"internal/redistest/stalls.go", "		for !probe.ping(ctx) {\n", "		for false && !probe.ping(ctx) {\n",
		"internal/redistest", "TestStallsOfServer",
	},
}
