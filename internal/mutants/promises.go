package mutants

func init() { All = append(All, promises...) }

// promises holds the mutants of tokens, of releases, and of waiters behind a
// lease of their own client.
var promises = []Mutant{
	{
		"all names share one lower bound of tokens",
		"internal/engine/grant.go", "	if token, ok := t.recent[id]; ok { // it is not below the older one\n\t\treturn token\n\t}\n",
		"	top := int64(0)\n\tfor _, f := range t.recent {\n\t\ttop = max(top, f)\n\t}\n\tif top > 0 {\n\t\treturn top\n\t}\n",
		"internal/engine", "TestTokensOfSkewedMasters",
	},
	{
		"tokens fall with the clock of the server",
		"internal/engine/grant.go", "if token <= floor {", "if token <= 0*floor {",
		"internal/engine", "TestTokensAfterClockSetBack",
	},
	{
		"two calls that overlap get one token after the clock was set back",
		"internal/engine/grant.go", "token = max(floor, highest) + 1", "token = floor + 1",
		"internal/engine", "TestTokensOfOverlappingCalls",
	},
	{
		"the lower bounds of tokens are never discarded",
		"internal/engine/grant.go", "len(t.recent) >= maxFloors", "len(t.recent) >= maxFloors<<10",
		"internal/engine", "TestFloorsAreBounded",
	},
	{
		"any positive reply counts as a grant",
		"internal/engine/grant.go", "return token > minClockToken && token < maxClockToken", "return token > 0",
		"internal/engine", "TestIncredibleGrant",
	},
	{
		"a caller inherits the whole outage of the previous turn",
		"internal/engine/gate.go", "o.since = max(o.since, since)", "_ = since",
		"internal/engine", "TestOutageOfPreviousTurn",
	},
	{
		"a release after the end of the lease succeeds",
		"internal/engine/release.go", "a.freed.Held || a.doubt && !f.over", "a.freed.Held || a.doubt",
		"internal/engine", "TestReleaseAfterTheEnd",
	},
	{
		"a release after the end of the lease reports an unreachable server",
		"internal/engine/release.go", "	case f.over:\n		return h.setLost(watchdog.Expired)\n", "",
		"internal/engine", "TestReleaseAfterTheEnd",
	},
	{
		"a withdrawal does not count as part of the wait",
		"internal/engine/claim.go", "	return min(withdrawTime, time.Until(limit))\n", "	return withdrawTime\n",
		"internal/engine", "TestWaitEndsInTime",
	},
	{
		"a set waits for its releases after the wait",
		"internal/engine/multi.go", "	case <-time.After(d):\n	}\n}\n\n// holders", "	}\n}\n\n// holders",
		"internal/engine", "TestWaitOfSetEndsInTime",
	},
	{
		"a server that does not answer holds the lock",
		"internal/engine/acquisition.go", " && a.out.err == nil && clock.Early()-sent < answerTime {", " && a.out.err == nil {",
		"internal/engine", "TestWaitEndsInTime",
	},
	{
		"a reader waits for the answer of another one without a limit",
		"internal/engine/share.go", "	case <-time.After(answerTime):\n		out.note(errNoShare, since)\n", "	case <-time.After(answerTime):\n		<-f.done\n		_ = out.n + int(since)\n",
		"internal/engine", "TestShareOfSilentServer",
	},
	{
		"a release of an overwritten lock is refused",
		"internal/engine/release.go", "return err == nil && !held\n", "return err != nil && !held\n",
		"test/faults", "TestOverwrittenLock",
	},
	{
		"a nested release hides the error of the server",
		"internal/engine/release.go", "	case over:\n		return ErrLost\n	}\n	return a.err\n", "	case over:\n		return ErrLost\n	}\n	return nil\n",
		"internal/engine", "TestReleaseNested",
	},
	{
		"waiters trust a lease of their own client",
		"internal/engine/gate.go", "				e.watchdog.Verify(h.Ref.Key)\n", "				_ = h\n",
		"internal/engine", "TestQueueBehindDeletedLock",
	},
	{
		"each waiter verifies the lease ahead",
		"internal/engine/gate.go", "g.first() != t && !ends || h == nil || now-max(g.verified, h.origin.at) < fresh", "h == nil || t == nil || now < fresh && ends",
		"internal/engine", "TestQueueBehindLease",
	},
	{
		"a call with little time trusts a lease of its own client",
		"internal/engine/gate.go", "pause, fresh = min(pause, left/2), min(fresh, left/3)", "_ = left",
		"internal/engine", "TestDeletedBeforeBoundedWait",
	},
	{
		"the default logger does not show a wait for a lease of the own client",
		"internal/engine/events.go", "e.o.Log.Warn(w.Err.Error()", "e.o.Log.Info(w.Err.Error()",
		"internal/engine", "TestWaitForOwnClient",
	},
	{
		"a grant leaves the dead lease valid",
		"internal/engine/local.go", "a.e.watchdog.Lose(other, a.e.watchdog.Denied(other))", "_ = other",
		"internal/engine", "TestGrantBesideDeadLease",
	},
	{
		"a late grant ends a newer lease",
		"internal/engine/local.go", "case h.origin.token < granted.origin.token:", "case h.origin.token != granted.origin.token:",
		"internal/engine", "TestGrantBehindNewerOne",
	},
	{
		"the time that remains is that of the last look",
		"internal/engine/answer.go", "return max(ttl-(clock.Early()-seen), time.Millisecond)", "_ = seen\n	return ttl",
		"internal/engine", "TestRemainingIsOfNow",
	},
	{
		"part of a line counts as the first reply on a connection",
		"driver/rueidis/dial.go", "case len(line) > 0 && line[len(line)-1] == '\\n':", "case len(line) > 0:",
		"driver/rueidis", "TestFirstReply",
	},
}
