package mutants

func init() { All = append(All, observers...) }

// observers holds the mutants of the events for observers.
var observers = []Mutant{
	{
		"a panic of an observer ends the program",
		"internal/async/queue.go", "if r := recover(); r != nil {", "if r := any(nil); r != nil {",
		"observe", "TestStuckObserver",
	},
	{
		"dropped events are not reported",
		"internal/async/queue.go", "	if dropped > 0 {\n", "	if dropped < 0 {\n",
		"observe", "TestStuckObserver",
	},
	{
		"a loss that the watchdog notices is not observed",
		"lease.go", "	l.end()\n	l.observeLoss()\n", "	l.end()\n",
		"observe", "TestLost",
	},
	{
		"a loss is observed twice",
		"observation.go", "if s == nil || s.lost.Swap(true) {", "if s == nil {",
		"observe", "TestLost",
	},
	{
		"the loss of a set is observed only if its context is used",
		"parts.go", "complete := l.cancel != nil || l.seen.Load() != nil", "complete := l.cancel != nil",
		"test/behaviour", "TestObserver/lost",
	},
	{
		"a hand-off is observed as an answer of the server",
		"internal/engine/acquire.go", "			a.r.Report.grant(ByHandoff)\n", "",
		"observe", "TestGranted",
	},
	{
		"the end of an outage is not observed",
		"internal/engine/acquisition.go", "		a.e.outages.answered(a.key())\n", "",
		"observe", "TestOutage",
	},
	{
		"a call that has ended is still listed among those that wait",
		"stats.go", "		delete(cs.long, c)\n", "",
		"debug", "TestHandler",
	},
	{
		"a closed client is still said to exist",
		"internal/engine/close.go", "	wg.Go(e.withdrawAnnouncement)\n", "",
		"inspect", "TestClient$",
	},
	{
		"a client can write control characters to the terminals of operators",
		"internal/script/client.go", "	c.clean()\n	return c, ok, err\n", "	return c, ok, err\n",
		"internal/script", "TestClients",
	},
	{
		"an anonymous client says who it is",
		"identity.go", "	if o.Anonymous {\n", "	if false {\n",
		"inspect", "TestClient$",
	},
	{
		"a cycle of waits counts as a deadlock when it is found",
		"internal/deadlock/detector.go", "		d.cycle, d.since, d.reported = cycle, d.wait.Seq+1, false\n		return\n", "		d.cycle, d.since, d.reported = cycle, -1, false\n",
		"test/simulation", "TestDeadlockStale",
	},
	{
		"a cycle of waits need not be confirmed by all of them",
		"internal/deadlock/detector.go", "if d.waits[l.wait].Saw[d.wait.ID] < d.since {", "if d.waits[l.wait].Saw[d.wait.ID] < 0 {",
		"test/simulation", "TestDeadlockStale",
	},
	{
		"the wait of a reader replaces those of readers with the same hold",
		"internal/deadlock/client.go", "	return others\n", "	return nil\n",
		"internal/deadlock", "TestWaitsOfOneOwner",
	},
	{
		"a deadlock is found through one of several readers with the same hold",
		"internal/deadlock/detector.go", "range holders[by] {", "range holders[by][:min(1, len(holders[by]))] {",
		"internal/deadlock", "TestCycleThroughSharedHold",
	},
	{
		"a deadlock is reported in every round",
		"internal/deadlock/detector.go", "	d.reported = true\n", "",
		"internal/deadlock", "TestCycle$",
	},
	{
		"a call that ends leaves its wait at the server",
		"internal/deadlock/detector.go", "	defer d.withdraw()\n", "",
		"internal/deadlock", "TestCycle$",
	},
	{
		"waits are not passed on to clients of other servers",
		"internal/deadlock/detector.go", "		known = append(known, w)\n", "",
		"test/simulation", "TestDeadlock$",
	},
	{
		"the oldest call of a deadlock is ended",
		"internal/deadlock/detector.go", "cmp.Compare(w.ID, waits[last].ID)) > 0)", "cmp.Compare(w.ID, waits[last].ID)) < 0)",
		"test/simulation", "TestDeadlockEnds",
	},
	{
		"a lease that was not released is never reported",
		"internal/engine/users.go", "if weak := strong.Weaken(owner); weak != nil {", "if weak := strong.Weaken(owner); weak != nil && false {",
		"observe", "TestWarnLeaked",
	},
	{
		"a lease whose context is used is not kept in memory",
		"weak.go", "	l.needed.Store(true)\n", "	_ = l.needed.Load\n	if l.parts == nil {\n		return\n	}\n",
		"observe", "TestWarnLeaked",
	},
	{
		"a lease that is gone is lost silently",
		"weak.go", "if s := w.seen; s != nil && !s.lost.Swap(true) {", "if s := w.seen; s != nil && false {",
		"observe", "TestWarnLeaked",
	},
	{
		"a late renewal is not reported",
		"internal/engine/engine.go", "if r.Err == nil && r.Overdue > lateOverdue &&", "if false && r.Overdue > lateOverdue &&",
		"observe", "TestWarnLate",
	},
	{
		"code of the user that blocks is not reported",
		"internal/async/queue.go", "q.Blocked() >= BlockedTime && !q.told.Swap(true)", "q.Blocked() < 0 && !q.told.Swap(true)",
		"observe", "TestWarnBlocked",
	},
	{
		"the holder in an error is looked up by every call",
		"holders.go", "	if h.looked != 0 && now-h.looked < holderPause {\n", "	if h.looked != 0 && now-h.looked < 0 {\n",
		"test/behaviour", "TestErrorNamesHolder",
	},
	{
		"a loop over changes counts as a call that waits",
		"internal/engine/waiting.go", "if a.wakes.counted != waits && !a.r.Watch {", "if a.wakes.counted != waits {",
		"holdfasttest", "TestWatchDoesNotWait",
	},
}
