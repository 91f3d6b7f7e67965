package mutants

func init() { All = append(All, unitTests...) }

// unitTests holds the mutants of the server in memory and of the helpers for tests of users.
var unitTests = []Mutant{
	{
		"the server in memory does not swap two variables of a script",
		"holdfasttest/memory/lua_compat.go", "stmts[i] = inOrder(s)", "_ = inOrder(s)",
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
	{
		"a web page can send commands to the server in memory",
		"holdfasttest/memory/serve.go", `if name == "post" || name == "host:" {`, "if false {",
		"holdfasttest/memory", "TestHTTP",
	},
	{
		"a script that is nested deeply is compiled",
		"holdfasttest/memory/lua_compat.go", "if level > maxLevels {", "if false {",
		"holdfasttest/memory", "TestAttacks/unary_minuses",
	},
	{
		"the memory that a script takes has no limit",
		"holdfasttest/memory/limits.go", "case m.left < 0:", "case m.left < -1<<40:",
		"holdfasttest/memory", "TestAttacks/a_large_index$",
	},
	{
		"the instructions of a script have no limit",
		"holdfasttest/memory/limits.go", "m.use(1)", "m.use(0)",
		"holdfasttest/memory", "TestMeter",
	},
	{
		"the time of a script has no limit",
		"holdfasttest/memory/limits.go", "time.Since(m.began) > m.limit", "time.Since(m.began) > 100*m.limit",
		"holdfasttest/memory", "TestMeter",
	},
	{
		"a script changes the globals of others",
		"holdfasttest/memory/lua_sandbox.go", "if in.fixed[t] {", "if false {",
		"holdfasttest/memory", "TestAttacks/a_global_by_rawset",
	},
	{
		"a payload of RESTORE may announce more than it has",
		"holdfasttest/memory/dump.go", "uint64(n) > uint64(len(text))", "false",
		"holdfasttest/memory", "TestAttacks/a_payload_with_a_large_length",
	},
	{
		"a pattern of keys takes as long as it likes",
		"holdfasttest/memory/glob.go", "free < 0 && !m.use(cost)", "free < -1<<40 && !m.use(cost)",
		"holdfasttest/memory", "TestGlob",
	},
	{
		"a client gets the memory that it announces",
		"holdfasttest/memory/serve.go", "make([]byte, min(size, 1<<16))", "make([]byte, size)",
		"holdfasttest/memory", "TestProtocol",
	},
	{
		"a text of a script ends its reply early",
		"holdfasttest/memory/peer.go", "oneReply.Replace(r.Error())", "r.Error()",
		"holdfasttest/memory", "TestProtocol",
	},
}
