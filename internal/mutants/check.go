package mutants

func init() { All = append(All, checks...) }

// checks are the mutants of what Check finds.
var checks = []Mutant{
	{
		"locks are thought safe from eviction because they have a TTL",
		"internal/check/rules.go", `if !ok || policy == "noeviction" {`, `if !ok || policy == "noeviction" || strings.HasPrefix(policy, "volatile") {`,
		"internal/check", "TestSettings",
	},
	{
		"any replica is enough where several are required",
		"internal/check/rules.go", "w.Mode == Strict && f.Replicas < w.Required", "w.Mode == Strict && f.Replicas == 0",
		"internal/check", "TestReplicas",
	},
	{
		"a clock that is behind goes unnoticed",
		"internal/check/rules.go", "off.Abs() > plain", "off > plain",
		"internal/check", "TestClocks",
	},
	{
		"of several servers only the first is asked for rights",
		"internal/check/rights.go", "		i.look()\n		fs = append(fs, i.fs...)", "		i.look()\n		return append(fs, i.fs...)",
		"internal/check", "TestRightsInCluster",
	},
	{
		"a key that is refused is taken for a command that is",
		"internal/script/probe.go", "		return KeyRefused, \"\"", "		return CommandRefused, \"\"",
		"internal/check", "TestRightsWithoutNames",
	},
	{
		"nobody tries to unsubscribe",
		"internal/check/listen.go", "{[]string{another + \"2\"}, channels[:1]}", "{[]string{another + \"2\"}, nil}",
		"internal/check", "TestEachRight",
	},
	{
		"the probe leaves its key behind",
		"internal/script/lua/probe.lua", "redis.pcall('del', key)", "",
		"internal/script", "TestProbeLeavesNothing",
	},
	{
		"a script runs a command that the documented rights do not have",
		"internal/script/lua/value_get.lua", "redis.call('get', KEYS[1])", "redis.call('getex', KEYS[1])",
		"internal/script", "TestCommandsOfScripts",
	},
}
