package mutants

func init() { All = append(All, watchdogs...) }

// watchdogs holds the mutants of renewal, verification, closing and logging.
var watchdogs = []Mutant{
	{
		"a lease is confirmed by a server that ends it before the deadline",
		"internal/watchdog/watched.go", "return max(c.state.renewal, (claim", "return max(c.state.renewal, (min(claim, time.Millisecond)",
		"internal/watchdog", "TestFailoverOfExtended",
	},
	{
		"a lease of fixed time is not verified",
		"internal/watchdog/watched.go", "	if !c.state.inFlight {\n", "	if !c.state.inFlight && (c.state.renewal > 0 || c.state.verify) {\n",
		"internal/watchdog", "TestFixedLeaseTakenAway",
	},
	{
		"verification of a lease of fixed time extends it",
		"internal/watchdog/watched.go", "rest := max(c.Deadline()-now, 0)", "rest := c.state.granted + 0*now",
		"test/faults", "TestFixedLeaseNotProlonged",
	},
	{
		"an answer to an earlier request verifies a lease",
		"internal/watchdog/watched.go", "		c.state.verifyAgain = true\n", "		c.state.verifyAgain = false\n",
		"internal/watchdog", "TestVerifyDuringRenewal",
	},
	{
		"a key that the server refuses fails the renewal of other keys",
		"internal/watchdog/renew.go", "driver.ClassOf(err) == driver.Fatal || ", "",
		"test/faults", "TestBadKeyCostsNoOther",
	},
	{
		"a server that refuses everything is asked without a pause",
		"internal/watchdog/renew.go", "return min(clock.RetryPause(period)<<c.state.refused, period/4)", "return clock.RetryPause(period)",
		"internal/watchdog", "TestRefusedEverything",
	},
	{
		"a renewal writes an absurd TTL back",
		"internal/script/lua/lib/raise.lua", "math.min(math.max(redis.call('pttl', key), ms), 2 ^ 53)", "math.max(redis.call('pttl', key), ms)",
		"internal/script", "TestRenewAbsurdEnd",
	},
	{
		"all leases of a call get the time of the first",
		"internal/script/lua/renew.lua", "raise(key, ARGV[2 * i - 1])", "raise(key, ARGV[1])",
		"internal/script", "TestRenewEachForItsTime",
	},
	{
		"leases of different length do not share a call",
		"internal/watchdog/renew.go", "rank:   bits.Len64(uint64(w.patience(c, now).Milliseconds())),", "rank:   bits.Len64(0) + int(c.Deadline()),",
		"internal/watchdog", "TestVariedFixedReads",
	},
	{
		"all leases on a key are removed with one of them",
		"internal/watchdog/watchdog.go", "	case c.state.next != nil:\n		w.byKey[c.Ref.Key] = c.state.next\n", "",
		"internal/watchdog", "TestOn$",
	},
	{
		"Close does not release a grant of the last moment",
		"internal/watchdog/watchdog.go", "	cs := []*Watched(w.guarded)\n", "	cs := []*Watched(w.guarded)\n	w.mu.Unlock()\n	w.mu.Lock()\n	cs = cs[:max(len(cs)-1, 0)]\n",
		"internal/watchdog", "TestCloseIsAtomic",
	},
	{
		"Close applies the result of the last release to all releases",
		"internal/settle/settle.go", "				default:\n					again, why", "				case i == len(some)-1:\n					again, why",
		"internal/engine", "TestCloseFreesEach",
	},
	{
		"Close does not report what it could not release",
		"internal/settle/settle.go", "left, err = append(left, o), r.Err", "err = r.Err",
		"internal/engine", "TestCloseSaysWhatIsLeft",
	},
	{
		"a lease that was granted beside a ForceUnlock is believed in",
		"internal/engine/grant.go", "if a.e.forced.since(h.Ref.Key, g.sent) || stale {", "if stale {",
		"internal/engine", "TestForceBesideFixedGrant",
	},
	{
		"a lease of fixed time is not verified on demand",
		"internal/watchdog/watchdog.go", "		c.verifyNow()\n		w.reschedule(c)\n", "		if c.state.renewal > 0 {\n			c.verifyNow()\n		}\n		w.reschedule(c)\n",
		"internal/engine", "TestForceBesideFixedGrant",
	},
	{
		"the user's logger runs on the goroutines of the library",
		"client.go", `	o.Logger = asynclog.New(o.Logger, func() { observers.blocked("the logger") })` + "\n", "	_ = asynclog.New\n",
		"test/faults", "TestStuckLogger",
	},
	{
		"the user's code runs on the goroutine that queues a value",
		"internal/async/queue.go", "		go q.run(q.idle)\n	}\n", "		idle := q.idle\n		q.mu.Unlock()\n		q.run(idle)\n		return\n	}\n",
		"internal/async", "TestBlocked",
	},
	{
		"the queue of log records and events has no limit",
		"internal/async/queue.go", "if len(q.values) >= q.size {", "if false {",
		"internal/async", "TestBlocked",
	},
}
