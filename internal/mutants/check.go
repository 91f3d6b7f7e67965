package mutants

func init() { All = append(All, checks...) }

// checks holds the mutants of Check.
var checks = []Mutant{
	{
		"a policy that evicts keys with a TTL passes the check",
		"internal/check/rules.go", `if !ok || policy == "noeviction" {`, `if !ok || policy == "noeviction" || strings.HasPrefix(policy, "volatile") {`,
		"internal/check", "TestSettings",
	},
	{
		"one replica is enough although several are required",
		"internal/check/rules.go", "w.Mode == Strict && f.Replicas < w.Required", "w.Mode == Strict && f.Replicas == 0",
		"internal/check", "TestReplicas",
	},
	{
		"a clock that is behind is not reported",
		"internal/check/rules.go", "off.Abs() > plain", "off > plain",
		"internal/check", "TestClocks",
	},
	{
		"only the first of several servers is asked for rights",
		"internal/check/rights.go", "		i.look()\n		fs = append(fs, i.fs...)", "		i.look()\n		return append(fs, i.fs...)",
		"internal/check", "TestRightsInCluster",
	},
	{
		"the check advises to grant a command that an old server does not have",
		"internal/check/rights.go", "server.Cluster && major >= 7 {", "server.Cluster && major >= 6 {",
		"internal/check", "TestRightsToPublish",
	},
	{
		"the check advises to change several settings by one command, which old servers refuse",
		"internal/check/rules.go", `strings.Join(change, " and ")`, `"CONFIG SET min-replicas-to-write 1 min-replicas-max-lag 10"`,
		"internal/check", "TestReplicas",
	},
	{
		"a refused key is reported as a refused command",
		"internal/script/probe.go", "		return KeyRefused, \"\"", "		return CommandRefused, \"\"",
		"internal/check", "TestRightsWithoutNames",
	},
	{
		"the check does not try to unsubscribe",
		"internal/check/listen.go", "{[]string{another + \"2\"}, channels[:1]}", "{[]string{another + \"2\"}, nil}",
		"internal/check", "TestEachRight",
	},
	{
		"the probe does not delete its key",
		"internal/script/lua/probe.lua", "redis.pcall('del', key)", "",
		"internal/script", "TestProbeLeavesNothing",
	},
	{
		"a script runs a command that the documented rights do not include",
		"internal/script/lua/value_get.lua", "redis.call('get', KEYS[1])", "redis.call('getex', KEYS[1])",
		"internal/script", "TestCommandsOfScripts",
	},
	{
		"a proxy that spreads keys over servers is used",
		"driver/rueidis/identity.go", "if err := f.Proxy(); err != nil ||", "if err := error(nil); err != nil ||",
		"driver/rueidis", "TestProxies",
	},
	{
		"a proxy whose INFO has several parts counts as a server that does not answer",
		"driver/rueidis/identity.go", "err == nil && m.IsArray()", "err != nil && m.IsArray()",
		"driver/rueidis", "TestProxies",
	},
	{
		"a server is refused because it is not known",
		"driver/rueidis/identity.go", `said == "envoy-redis-proxy"`, `said != ""`,
		"driver/rueidis", "TestOtherSystems",
	},
	{
		"servers that all accept writes pass the check",
		"driver/systems.go", `f.Role == "active-replica"`, `f.Role == "active"`,
		"internal/check", "TestUnsupportedSystems",
	},
	{
		"an answer of Codis is not recognized",
		"driver/systems.go", "handle (request|response), ", "handle (response), ",
		"internal/check", "TestUnsupportedSystems",
	},
}
