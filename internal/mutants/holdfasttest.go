package mutants

func init() { All = append(All, unitTests...) }

// unitTests holds the mutants of the server in memory and of the helpers for tests of users.
var unitTests = []Mutant{
	{
		"the server in memory does not swap two variables of a script",
		"holdfasttest/memory/lua.go", "lua.Compile(correct(chunk), ", "lua.Compile(chunk, ",
		"holdfasttest/memory", "TestLua",
	},
	{
		"keys in memory do not expire",
		"holdfasttest/memory/server.go", "e.until != 0 && e.until <= t.now {", "false {",
		"holdfasttest", "TestExpires",
	},
	{
		"a lease that a test has left is not reported",
		"holdfasttest/holdfasttest.go", "range stats.Leases {", "range stats.Leases[:0] {",
		"holdfasttest", "TestLeft",
	},
	{
		"a server that is cut off answers",
		"holdfasttest/memory/driver.go", "	if d.server.cut != nil {\n		return driver.Reply{}, driver.Unsent(d.server.cut)\n	}\n", "",
		"holdfasttest", "TestRenewed",
	},
	{
		"subscriptions do not survive that a server is cut off",
		"holdfasttest/memory/faults.go", "	for _, l := range s.listeners {\n		l.restore()\n	}\n}\n", "}\n",
		"holdfasttest", "TestMessagesAfterCut",
	},
}
