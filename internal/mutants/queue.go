package mutants

// Bugs of the queue at the server: a free lock with live waiters is left alone, or a message
// gives a lock.
func init() {
	All = append(All, []Mutant{
		{
			"a release of permits ends at its bound and tells none",
			"internal/script/lua/lib/share.lua", "      elseif bound then\n        told(publish, client, '')\n", "      elseif bound then\n",
			"internal/script", "TestPastMany",
		},
		{
			"a look for many permits does not grant the free ones to others",
			"internal/script/lua/leased_queue.lua", "if queued[2] > 0 and free > 0 then", "if false then",
			"internal/script", "TestPastMany",
		},
		{
			"an entry stays in the queue after an outage",
			"internal/settle/settle.go", "	return !o.Entry && !o.Open && now >= o.Until\n", "	return now >= o.Until\n",
			"test/faults", "TestGivenUpDuringOutage",
		},
		{
			"the first in the queue does not look when the lock expires",
			"internal/engine/queue.go", "	if last.ttl >= 0 && p.n <= lookers {", "	if false {",
			"test/faults", "TestHolderAndFirstDie",
		},
		{
			"a waiter is not told that it is the first",
			"internal/script/lua/lib/grant.lua", "    if client then told(publish, client, 'first '", "    if false then told(publish, client, 'first '",
			"internal/script", "TestQueued$",
		},
		{
			"what a grant has removed from the queue is removed again",
			"internal/engine/queue.go", "	a.claim.remains.Entry = false // the release has removed it; a request that is still open may add it again\n", "",
			"internal/engine", "TestQueueGrant$",
		},
		{
			"a release does not tell clients that do not queue if others do",
			"internal/script/lua/lib/hand.lua", "if others == 0 and listening > 0 and hand(", "if others and listening > 0 and hand(",
			"internal/script", "TestQueued|TestListen|TestShares",
		},
		{
			"a release grants the lock to the first in the queue, although it is not there",
			"internal/script/lua/lib/hand.lua", "if others == 0 and listening > 0 and hand(", "if others == 0 and hand(",
			"internal/script", "TestQueued",
		},
		{
			"a departure leaves a free lock alone",
			"internal/script/lua/lib/pass.lua", "  return ttl == -2\n", "  return false\n",
			"internal/script", "TestQueued$",
		},
		{
			"entries of dead clients fill the queue",
			"internal/engine/acquisition.go", "if a.prune() {", "if false {",
			"test/faults", "TestQueueFullOfDead",
		},
		{
			"entries of live clients are removed from a full queue",
			"internal/script/lua/queue_prune.lua", "  if n and n[2] > 0 then", "  if false then",
			"internal/script", "TestPrune",
		},
		{
			"a granted lease is not confirmed soon",
			"internal/watchdog/watchdog.go", "firstRenewal = 5 * time.Millisecond", "firstRenewal = 3 * time.Second",
			"test/faults", "TestPauseAfterHandOff",
		},
		{
			"the number of an owner can be guessed",
			"internal/engine/engine.go", "1e12+o.r.Uint64N(9e12)", "1e12+o.r.Uint64N(1)",
			"internal/engine", "TestOwnersAreSecret",
		},
		{
			"a grant of an earlier entry of the owner is used",
			"internal/engine/queue.go", "!ok || d.Entry != a.place.entry || ", "!ok || ",
			"test/faults", "TestForgedGrants",
		},
		{
			"messages that bring nothing make a waiter ask without a pause",
			"internal/engine/waiting.go", "a.wakes.missed > freeWakes {", "a.wakes.missed > 1e9 {",
			"test/faults", "TestForgedGrants",
		},
		{
			"a request that undoes a call overtakes its batch",
			"internal/combine/combine.go", "	overtaken  = 50 * time.Millisecond", "	overtaken  = 0 * time.Millisecond",
			"internal/combine", "TestNotOvertaken",
		},
		{
			"a process passes a lock on among its goroutines as long beside Redisson as alone",
			"internal/engine/rivals.go", "		return most / rivalSlice\n", "		return most\n",
			"internal/engine", "TestSliceBesideRivals",
		},
		{
			"the queue is not used again after it was refused once",
			"internal/engine/queue.go", "	return until > 0 && clock.Early() < time.Duration(until)\n", "	return until > 0\n",
			"internal/engine", "TestQueueIsTriedAgain",
		},
	}...)
}
