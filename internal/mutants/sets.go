package mutants

func init() { All = append(All, sets...) }

var sets = []Mutant{
	{
		"a set takes what is free before it has looked at the rest",
		"internal/script/lua/group_acquire.lua", "    if READS[command] then return redis[name](command, ...) end\n", "    if true then return redis[name](command, ...) end\n",
		"internal/script", "TestGroupRefusedWritesNothing",
	},
	{
		"a writer of a set does not say that it waits",
		"internal/script/lua/group_acquire.lua", "      for _, w in ipairs(writes) do redis.call(unpack(w)) end\n", "",
		"internal/script", "TestGroup$",
	},
	{
		"the parts of a set that fails halfway are announced as free",
		"internal/script/lua/group_acquire.lua", "if command == 'PUBLISH' then return 0 end", "",
		"internal/script", "TestGroupFailsHalfway",
	},
	{
		"freeing a set publishes as on one server",
		"internal/script/lua/group_release.lua", "command = ARGV[1]", "command = 'PUBLISH'",
		"internal/script", "TestGroupPublishesAsTold",
	},
	{
		"no driver can say how to publish when a set is freed",
		"internal/script/script.go", "		s.Publish, _ = strconv.Atoi(m[1])\n", "		s.Publish, _ = strconv.Atoi(m[1])\n		if name == \"group_release\" {\n			s.Publish = 0\n		}\n",
		"internal/script", "TestGroupPublishesAsTold",
	},
	{
		"a set needs all masters of a cluster",
		"internal/engine/multi.go", "			err = f.Err\n", "			return \"\", f.Err\n",
		"internal/engine", "TestSetBesideDeadMaster",
	},
	{
		"a set has less patience at first than a single lock",
		"internal/engine/multi.go", "e.identity(ctx, server{}, r.patience(e))", "e.identity(ctx, server{}, time.Second+0*r.patience(e))",
		"internal/engine", "TestSetPatienceAtFirst",
	},
	{
		"servers that are not known have an identity",
		"internal/engine/multi.go", "	if !known {\n		return \"\", err\n	}\n", "	_ = err\n",
		"internal/engine", "TestQuorumBeforeMastersAreKnown",
	},
	{
		"two clients of one server have two votes",
		"internal/engine/quorum.go", "t.same = t.same || seen[ids[i]]", "t.same = t.same || false",
		"internal/engine", "TestQuorumBeforeMastersAreKnown",
	},
	{
		"late votes are given back one after the other",
		"internal/engine/quorum.go", "go func() { _ = v.h.Release(wants[v.i].User, r.renewed()) }()", "_ = v.h.Release(wants[v.i].User, r.renewed())",
		"internal/engine", "TestQuorumLateVotes",
	},
	{
		"waiters of a redlock wake themselves by what they give back",
		"internal/engine/quorum.go", "for missing := t.missing(q); missing > 0; missing-- {", "for missing := min(t.missing(q), 0); missing > 0; missing-- {",
		"test/redlock", "TestWaitersAskSeldom",
	},
	{
		"what is in doubt and short is freed once only",
		"internal/engine/engine.go", "now, again, again+lease, nil)", "now, again, now+lease, nil)",
		"internal/engine", "TestUndoShortLease",
	},
	{
		"entering again at a silent server ends with the error of a context",
		"internal/engine/hold.go", "ctx.Err() == nil && !errors.Is(err, ErrUnavailable) {", "ctx.Err() == nil && false {",
		"internal/engine", "TestReenterAtSilentServer",
	},
	{
		"a try of a set waits at the last step as long as a lock",
		"internal/engine/hold.go", "h.extend(ctx, pass, r.Lease, r.patience(h.e))", "h.extend(ctx, pass, r.Lease, h.e.o.Patience)",
		"test/faults", "TestMultiTryGivesUpSoonAtTheLast",
	},
	{
		"a loss does not say why renewals have failed",
		"internal/watchdog/renew.go", "			c.fault.Store(&failed)\n", "",
		"test/faults", "TestLossHasCause",
	},
	{
		"a loss is taken for the end of a context",
		"lease.go", "		return errors.New(err.Error())\n", "		return err\n",
		"test/faults", "TestLossHasCause",
	},
}
