package mutants

func init() { All = append(All, sets...) }

var sets = []Mutant{
	{
		"a set acquires free locks before it has checked the others",
		"internal/script/lua/group_acquire.lua", "    if READS[command] then return redis[name](command, ...) end\n", "    if true then return redis[name](command, ...) end\n",
		"internal/script", "TestGroupRefusedWritesNothing",
	},
	{
		"a set of mutexes acquires free locks before it has checked the others",
		"internal/script/lua/mutexes_acquire.lua", "    ttls[i] = ttl\n", "    ttls[i] = ttl\n    redis.call('hset', key, owner, '1')\n",
		"internal/script", "TestGroupRefusedWritesNothing",
	},
	{
		"a set of mutexes acquires a lock that is held",
		"internal/script/lua/mutexes_acquire.lua", "redis.call('hexists', key, owner) == 0 or ", "",
		"internal/script", "TestGroup$",
	},
	{
		"a set of mutexes acquires a read/write lock",
		"internal/script/lua/mutexes_acquire.lua", " or redis.call('hexists', key, 'mode') == 1", "",
		"internal/script", "TestGroup$",
	},
	{
		"a set of mutexes that fails halfway keeps some",
		"internal/script/lua/mutexes_acquire.lua", "    for j = 1, i do redis.pcall('del', KEYS[j]) end\n", "",
		"internal/script", "TestGroupOfMutexesFailsHalfway",
	},
	{
		"a set of mutexes shortens a lease",
		"internal/script/lua/mutexes_acquire.lua", "(not ttls or ttls[i] < tonumber(lease))", "true",
		"internal/script", "TestGroup$",
	},
	{
		"an owner releases mutexes of others with its own",
		"internal/script/lua/batch/mutex_release.lua", "held = held and redis.call('hexists', KEYS[i], owner) == 1", "held = true",
		"internal/script", "TestBatchOfOneOwner",
	},
	{
		"a call that failed in a joint release is not sent again",
		"internal/engine/joint.go", "		j.first = answer{doubt: true}\n", "		j.first = answer{known: true, freed: script.Freed{Held: true}}\n",
		"internal/engine", "TestReleaseAll$",
	},
	{
		"a joint release that is refused is not sent again",
		"internal/engine/joint.go", "if err != nil && driver.CodeOf(err) == \"\" {", "if err != nil {",
		"internal/engine", "TestReleaseAll$",
	},
	{
		"a joint release without an answer is forgotten",
		"internal/engine/joint.go", "some[i].first = answer{sent: sent, known: true, err: err}", "some[i].first = answer{}",
		"internal/engine", "TestReleaseAll$",
	},
	{
		"a joint release frees a lock that is entered again",
		"internal/engine/joint.go", "		if d.Hold.nest.count > 1 {\n			d.Hold.nest.Unlock()\n			others.Go(d.release)\n			continue\n		}\n", "		d.Hold.nest.count = 1\n",
		"internal/engine", "TestReleaseAllNested",
	},
	{
		"a joint release waits for an extension of one lock",
		"internal/engine/joint.go", "		if !d.Hold.nest.tryLock() {\n", "		if d.Hold.enterForRelease(); false {\n",
		"internal/engine", "TestReleaseAllBehindExtension",
	},
	{
		"a waiting writer of a set gets no priority",
		"internal/script/lua/group_acquire.lua", "      for _, w in ipairs(writes) do redis.call(unpack(w)) end\n", "",
		"internal/script", "TestGroup$",
	},
	{
		"a set that fails halfway publishes that its parts are free",
		"internal/script/lua/group_acquire.lua", "if command == 'PUBLISH' then return 0 end", "",
		"internal/script", "TestGroupFailsHalfway",
	},
	{
		"the release of a set always uses PUBLISH",
		"internal/script/lua/group_release.lua", "command = ARGV[1]", "command = 'PUBLISH'",
		"internal/script", "TestGroupPublishesAsTold",
	},
	{
		"the driver cannot choose the publish command of the release of a set",
		"internal/script/script.go", "		s.Publish, _ = strconv.Atoi(m[1])\n", "		s.Publish, _ = strconv.Atoi(m[1])\n		if name == \"group_release\" {\n			s.Publish = 0\n		}\n",
		"internal/script", "TestGroupPublishesAsTold",
	},
	{
		"a set needs an answer of every master of a cluster",
		"internal/engine/multi.go", "			err = f.Err\n", "			return \"\", f.Err\n",
		"internal/engine", "TestSetBesideDeadMaster",
	},
	{
		"the first step of a set has a shorter retry limit than a single lock",
		"internal/engine/multi.go", "e.runID(ctx, server{}, r.patience(e))", "e.runID(ctx, server{}, time.Second+0*r.patience(e))",
		"internal/engine", "TestSetPatienceAtFirst",
	},
	{
		"unknown servers have an identity",
		"internal/engine/multi.go", "	if !known {\n		return \"\", err\n	}\n", "	_ = err\n",
		"internal/engine", "TestQuorumBeforeMastersAreKnown",
	},
	{
		"two clients of one server have two votes",
		"internal/engine/quorum.go", "t.sameServer = t.sameServer || seen[ids[i]]", "t.sameServer = t.sameServer || false",
		"internal/engine", "TestQuorumBeforeMastersAreKnown",
	},
	{
		"late votes are released one after the other",
		"internal/engine/quorum.go", "go func() { _ = v.h.Release(wants[v.i].User, r.renewed()) }()", "_ = v.h.Release(wants[v.i].User, r.renewed())",
		"internal/engine", "TestQuorumLateVotes",
	},
	{
		"the releases of a redlock waiter wake that waiter",
		"internal/engine/quorum.go", "for missing := t.missing(q); missing > 0; missing-- {", "for missing := min(t.missing(q), 0); missing > 0; missing-- {",
		"test/redlock", "TestWaitersAskSeldom",
	},
	{
		"a set does not queue for its locks",
		"internal/engine/group.go", "k := e.withQueue(w.Kind)", "k := w.Kind",
		"internal/engine", "TestSetQueues",
	},
	{
		"a set releases its locks although the queue moves",
		"internal/engine/multi_queue.go", "return slices.Contains(before, owner) })", "return owner != \"\" || slices.Contains(before, owner) })",
		"internal/engine", "TestSetKeepsLocksWhileQueueMoves",
	},
	{
		"a set looks too late who holds the lock that it waits for",
		"internal/engine/multi_queue.go", "v.patience/4+clock.Random(v.patience)", "100*v.patience",
		"internal/engine", "TestSetGivesWayInPlace",
	},
	{
		"a set that gives way loses its place in the queue",
		"internal/engine/multi.go", "case common && g.queues(r):", "case common && g.queues(r) && false:",
		"internal/engine", "TestSetGivesWayInPlace",
	},
	{
		"a set that gives way releases the lock that it waited for",
		"internal/engine/multi.go", "case !restart.granted:\n", "default:\n",
		"internal/engine", "TestSetReleasesOnce",
	},
	{
		"a set that could not get all locks keeps some",
		"internal/engine/multi.go", "		case !restart.granted:\n			ReleaseAll(departures(wants, r.renewed()))\n", "",
		"internal/engine", "TestSetGivesBackOutOfOrder",
	},
	{
		"the patience of a set that queues is capped",
		"internal/engine/multi_order.go", "if !r.granted || o.foreign {", "if true {",
		"internal/engine", "TestSetOfLongHeldLocks",
	},
	{
		"a group never queues",
		"internal/engine/multi_queue.go", "now-g.since < groupTime", "true",
		"internal/engine", "TestGroupQueuesForItsBlocker",
	},
	{
		"a group waits for a message before it queues",
		"internal/engine/group.go", "min(cmp.Or(beat, groupTime), groupTime)", "min(cmp.Or(beat, time.Hour), time.Hour)",
		"internal/engine", "TestGroupQueuesForItsBlocker",
	},
	{
		"a group holds some locks while it queues for its blocker",
		"internal/engine/multi_queue.go", "	case !o.divided:\n", "	case false:\n",
		"internal/engine", "TestGroupQueuesForItsBlocker",
	},
	{
		"a group with several blockers queues for the first only",
		"internal/engine/multi_queue.go", "			w.alone = true\n", "			w.alone = w.alone\n",
		"internal/engine", "TestGroupOfThreeQueuesForEach",
	},
	{
		"a call that queues for a part of its set keeps its process from that part",
		"internal/engine/group.go", "if divide && g.whole {", "if divide {",
		"internal/engine", "TestGroupLeavesPartsToOthers",
	},
	{
		"a call that has queued for a group keeps the turn in its process",
		"internal/engine/multi_queue.go", "		g.gate.give()\n", "",
		"internal/engine", "TestGroupQueuesOnce",
	},
	{
		"a release is final although a request is open",
		"internal/settle/settle.go", "if !o.Open && (!o.unqueued || !o.Entry) {", "if !o.unqueued || !o.Entry {",
		"internal/settle", "TestOpen",
	},
	{
		"an open request is closed by the time without an answer",
		"internal/settle/settle.go", "	case r.answering == 0:\n		r.answering = sent\n", "	case r.answering == 0:\n		r.answering = 1\n",
		"internal/settle", "TestOpen",
	},
	{
		"an entry is left alone after the lease",
		"internal/settle/settle.go", "if now >= o.Until && !o.Entry && !o.Open {", "if now >= o.Until {",
		"internal/settle", "TestEnds",
	},
	{
		"what is left is not settled without a right to the queue",
		"internal/settle/settle.go", "		o.unqueued = true\n		o.Entry", "		o.Entry",
		"internal/settle", "TestFallback",
	},
	{
		"an entry is forgotten while its slot moves",
		"internal/settle/settle.go", "o.Entry = o.Entry && code != \"NOPERM\"", "o.Entry = false",
		"internal/settle", "TestFallback",
	},
	{
		"a grant to an owner that was settled is not given back",
		"internal/settle/settle.go", "		if open {\n			s.remember(o)\n		}\n", "		_ = open\n",
		"internal/settle", "TestAgain",
	},
	{
		"a request of a lost lease that arrives late leaves an entry",
		"internal/engine/hold.go", "late := left.Entry || left.Open\n", "late := false\n",
		"internal/engine", "TestLossOfOpenRequest",
	},
	{
		"without a right to the queue, Close frees nothing",
		"internal/settle/settle.go", "case o.tries > 0:", "case o.tries > 0 || o.unqueued:",
		"internal/settle", "TestCloseAndNow",
	},
	{
		"reentry at an unreachable server ends with a context error",
		"internal/engine/hold.go", "ctx.Err() == nil && !errors.Is(err, ErrUnavailable) {", "ctx.Err() == nil && false {",
		"internal/engine", "TestReenterAtSilentServer",
	},
	{
		"the last step of a try of a set has the retry limit of a lock",
		"internal/engine/hold.go", "h.claim(ctx, r.Lease, r.patience(h.e), func", "h.claim(ctx, r.Lease, h.e.o.Patience, func",
		"test/faults", "TestMultiTryGivesUpSoonAtTheLast",
	},
	{
		"the loss does not contain the reason of failed renewals",
		"internal/watchdog/renew.go", "		c.fault.Store(&fault)\n", "		_ = fault\n",
		"test/faults", "TestLossHasCause",
	},
	{
		"a loss is reported as the end of a context",
		"lease.go", "		return errors.New(err.Error())\n", "		return err\n",
		"test/faults", "TestLossHasCause",
	},
}
