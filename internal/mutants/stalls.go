package mutants

func init() { All = append(All, stalls...) }

// stalls are the mutants of what tells a slow machine from a broken promise.
var stalls = []Mutant{
	{
		"a broken promise is taken for a slow machine",
		"internal/redistest/stalls.go", "case stalled <= tolerance:", "case false && stalled <= tolerance:",
		"internal/redistest", "TestRounds",
	},
	{
		"a stall counts only when it is over",
		"internal/redistest/stalls.go", "if !p.due.IsZero() && now.Sub(p.due) > stallMin {", "if false && !p.due.IsZero() {",
		"internal/redistest", "TestStallsOfServer",
	},
	{
		"a server that stands still is not noticed",
		"internal/redistest/stalls.go", "		for !probe.ping(ctx) {\n", "		for false && !probe.ping(ctx) {\n",
		"internal/redistest", "TestStallsOfServer",
	},
}
