package mutants

func init() { All = append(All, perLock...) }

// perLock holds the mutants of options of one lock, and of the prefix of names.
var perLock = []Mutant{
	{
		"WatchdogTimeout of a call has no effect",
		"internal/engine/acquire.go", "cmp.Or(r.Lease, r.Renewal, e.o.Lease)", "cmp.Or(r.Lease, e.o.Lease)",
		"internal/engine", "TestRenewalOfRequest",
	},
	{
		"a hold is handed off to a call that wants another lease time",
		"internal/engine/gate.go", "	t.lease = lease\n", "	t.lease = min(lease, e.o.Lease) + max(e.o.Lease-lease, 0)\n",
		"internal/engine", "TestRenewalOfHandoff",
	},
	{
		"a shorter lease inside a longer one shortens the renewals",
		"internal/engine/hold.go", "h.nest.renewal = max(h.nest.renewal, lease)", "h.nest.renewal = lease",
		"internal/engine", "TestRenewalOfReentry",
	},
	{
		"a renamed object has no prefix",
		"object/object.go", "	name = o.inner().Prefixed(name)\n", "",
		"test/behaviour", "TestNamePrefix",
	},
	{
		"the votes of a Redlock have no prefix",
		"redlock.go", "script.NewVote(c.prefixed(whole.name), r.longest)", "script.NewVote(whole.name, r.longest)",
		"test/behaviour", "TestNamePrefixOfRedlock",
	},
	{
		"a file maps names in Java only",
		"internal/config/config.go", "case s.Mapper.Other && prefix == \"\":", "case false:",
		"internal/config", "TestRefusals",
	},
	{
		"what is declared is not created again after the server has lost it",
		"internal/engine/claim.go", "	c.missing = true\n", "",
		"test/behaviour", "TestDeclare$",
	},
	{
		"a client changes a declared number again and again",
		"declare.go", "			o.client.declared.add(d)\n", "",
		"test/behaviour", "TestDeclareAnother",
	},
	{
		"a declared number that has changed has no effect",
		"declare.go", "created == 0 && !known", "created == 0 && known",
		"test/behaviour", "TestDeclareAnother",
	},
	{
		"released permits create a semaphore that has only them",
		"semaphore.go", "s.set.permits > 0)", "false)",
		"test/behaviour", "TestDeclareAndRelease",
	},
	{
		"an option compiles where it means nothing",
		"options.go", "	rw()\n", "",
		"test/repo", "TestOptionsWhereTheyApply",
	},
	{
		"a lock that has to stay is handed off",
		"internal/engine/release.go", "h.life.until > now || ", "",
		"test/behaviour", "TestAtLeastInside",
	},
	{
		"a client that is closed frees locks that have to stay",
		"internal/engine/close.go", "h.ending()", "h.e.settling(h.kind, h.owner, h.rests())",
		"test/behaviour", "TestAtLeastAndClose",
	},
	{
		"a lock that has to stay is freed after a request without an answer",
		"internal/engine/release.go", "		if !f.kept || a.err == nil {\n", "		if true {\n",
		"internal/engine", "TestKeepUnanswered",
	},
	{
		"a late request of a lock that stays is not settled",
		"internal/engine/release.go", "		if !f.kept || a.err == nil {\n", "		if !f.kept {\n",
		"internal/engine", "TestKeepOfOpenRequest",
	},
	{
		"a lock of another owner is kept",
		"internal/script/lua/keep.lua", "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return redis.call('hexists', KEYS[1], kept) end\n", "",
		"internal/script", "TestMutex",
	},
	{
		"a lock that has to stay ends before a read hold of its owner",
		"internal/script/lua/keep.lua", "> 1 + redis.call('hexists', KEYS[1], 'mode') + redis.call('hexists', KEYS[1], 'leader') then", "> 99 then",
		"internal/script", "TestMutex",
	},
	{
		"an election that has to stay keeps its lease time",
		"internal/script/lua/keep.lua", "+ redis.call('hexists', KEYS[1], 'leader') then", "then",
		"test/behaviour", "TestAtLeast$/election",
	},
	{
		"an election that has to stay keeps its leader",
		"internal/script/lua/keep.lua", "ARGV[1], 'leader')", "ARGV[1])",
		"test/behaviour", "TestAtLeast$/election",
	},
	{
		"a lock that no caller got stays",
		"named.go", "	l.announce(s.onAcquire)\n	l.keepFor(s.atLeast)\n", "	l.keepFor(s.atLeast)\n	l.announce(s.onAcquire)\n",
		"test/behaviour", "TestAtLeastWithoutUse",
	},
}
