// Package mutants tests the tests. A mutant is a bug that is seeded into the
// code by replacing a snippet. It names the test that must fail with the bug. If
// that test passes, nothing tests the promise.
//
// Run all mutants with make mutants. The files are not changed: the compiler
// gets the changed file as an overlay.
package mutants

// A Mutant is a seeded bug.
type Mutant struct {
	Name string // a statement of the bug
	File string // path from the root of the module
	Old  string // the snippet to replace; it occurs in the file exactly once
	New  string // the replacement
	Pkg  string // the package of the test
	Test string // the test that must fail
}

// All holds all mutants.
var All = []Mutant{
	{
		"lease counted from the reply instead of before the request",
		"internal/engine/grant.go", "a.e.watchdog.Guard(&h.Watched, g.sent, renewal)", "a.e.watchdog.Guard(&h.Watched, g.received, renewal)",
		"internal/engine", "TestLeaseCountsFromBefore",
	},
	{
		"grants that come too late are used",
		"internal/engine/acquisition.go", "!a.e.watchdog.InTime(g.received, g.sent, a.claim.Lease)", "false && !a.e.watchdog.InTime(g.received, g.sent, a.claim.Lease)",
		"internal/engine", "TestGrantedTooLate",
	},
	{
		"the loss is not reported before the deadline",
		"internal/watchdog/watched.go", "return c.Deadline() - c.gap() }", "return c.Deadline() + 2*c.gap() }",
		"test/faults", "TestToldBeforeAnybodyElse",
	},
	{
		"an ambiguous renewal extends the lease",
		"internal/watchdog/renew.go", "	case a.err != nil || a.unacked != nil && a.held[i]:\n		s.unacked", "	case a.err != nil || a.unacked != nil && a.held[i]:\n		if driver.ClassOf(a.err) == driver.Ambiguous {\n			c.extend(a.sent, a.asked[i])\n		}\n		s.unacked",
		"internal/watchdog", "TestAmbiguousRenewal",
	},
	{
		"renewal does not check the owner",
		"internal/script/lua/renew.lua", "redis.call('hexists', key, ARGV[2 * i])", "redis.call('exists', key)",
		"internal/script", "TestRenew",
	},
	{
		"release does not check the owner",
		"internal/script/lua/mutex_release.lua", "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end", "",
		"internal/script", "TestMutexRelease",
	},
	{
		"acquire ignores the owner of the lock",
		"internal/script/lua/mutex_acquire.lua", "elseif redis.call('hexists', KEYS[1], ARGV[2]) == 0 or redis.call('hexists', KEYS[1], 'mode') == 1 then -- 1: a read/write lock\n  return -1 - ttl\nend", "end",
		"test/faults", "TestExclusion",
	},
	{
		"acquire increments the count and does not set it",
		"internal/script/lua/mutex_acquire.lua", "redis.call('hset', KEYS[1], ARGV[2], ARGV[3])", "redis.call('hincrby', KEYS[1], ARGV[2], 1)",
		"test/faults", "TestAcquireReplyLost",
	},
	{
		"reentry shortens the lease",
		"internal/script/lua/mutex_acquire.lua", "if ttl < tonumber(ARGV[1]) then", "if true then",
		"test/behaviour", "TestLeaseTimes",
	},
	{
		"a nested release starts with a write that a full server refuses",
		"internal/script/lua/mutex_release.lua", "if ttl > 0 then redis.call('pexpire', KEYS[1], ttl) end", "",
		"internal/script", "TestMutexRelease",
	},
	{
		"no second look after the subscription is confirmed",
		"internal/wait/hub.go", "l.h.deliver(Notice{Confirmed, channel, \"\"})", "_ = channel",
		"test/faults", "TestReleaseBeforeSubscribed",
	},
	{
		"waiters trust messages and have no poll bound",
		"internal/engine/answer.go", "d = poll\n", "d = time.Hour\n",
		"internal/engine", "TestLostMessage",
	},
	{
		"cancelled acquires are not undone",
		"internal/engine/claim.go", "case !left.Entry && !left.Open || a.traits.ReadOnly:", "case true:",
		"internal/engine", "TestGrantedTooLateForTheCaller",
	},
	{
		"an extension acquires a free lock",
		"internal/script/lua/renew.lua", "renewed[i] = redis.call('type', key).ok == 'hash' and redis.call('hexists', key, ARGV[2 * i]) or 0", "redis.call('hsetnx', key, ARGV[2 * i], 1) renewed[i] = 1",
		"test/faults", "TestExtendAfterLoss",
	},
	{
		"a failed release is not retried",
		"internal/engine/release.go", "h.origin.remains.Entry || h.origin.remains.Open || a.err != nil {", "h.origin.remains.Entry || h.origin.remains.Open {",
		"internal/engine", "TestRefusedRelease",
	},
	{
		"the turn of a cancelled waiter is lost",
		"internal/engine/acquire.go", "			if has {\n				g.give()\n			}\n", "			_ = has\n",
		"internal/engine", "TestTurnIsNotLost",
	},
	{
		"idle subscriptions are kept for ever",
		"internal/wait/hub.go", "if left := h.linger - time.Since(ch.idle); left > 0 ||", "if left := h.linger; left > 0 ||",
		"internal/wait", "TestHub",
	},
	{
		"the number of hand-offs has no limit",
		"internal/engine/release.go", "h.handoff.passes >= o.SlicePasses ||", "",
		"internal/engine", "TestSliceOfPasses",
	},
	{
		"tokens do not grow at a hand-off",
		"internal/engine/release.go", "return h.e.tokens.fence(h.Ref.Key, h.handoff.token+1, 0)", "return h.handoff.token",
		"test/behaviour", "TestTokensGrow",
	},
	{
		"Close releases nothing",
		"internal/engine/close.go", "	e.free(limit, left)\n", "	_ = left\n",
		"test/behaviour", "TestClose$",
	},
	{
		"the time of a suspended machine does not count",
		"internal/clock/clock.go", "return now + time.Duration(slept.Load())", "return now",
		"internal/watchdog", "TestSleepingMachine",
	},
	{
		"the clock that includes sleep is read only once",
		"internal/clock/clock.go", "!near(lead, ahead.Load())", "ahead.Load() == 0",
		"internal/clock", "TestSleep",
	},
	{
		"a dead node stops all renewals",
		"internal/watchdog/renew.go", "node:   w.d.Place(c.Ref.Key).Node,", "node:   \"\",",
		"internal/watchdog", "TestNodesAreIndependent",
	},
	{
		"cancellation does not interrupt a single caller",
		"driver/rueidis/commandconn.go", "_ = c.Conn.SetDeadline(time.Unix(1, 0))", "",
		"driver/rueidis", "TestConformance/RESP3/Cancel",
	},
	{
		"the error of a command in a script is not found, before Redis 7",
		"driver/errors.go", `_, said, _ = strings.Cut(rest, ": ") // the line`, `return rest`,
		"driver", "TestServerError",
	},
	{
		"a missing permission in a script is not recognized, from Redis 7.2 on",
		"driver/errors.go", `|ACL failure in script:)`, `)`,
		"driver", "TestServerError",
	},
	{
		"a cancellation interrupts the next call",
		"driver/rueidis/callcontext.go", "if !c.returned {", "if true {",
		"driver/rueidis", "TestCancelledBeforeTheNext",
	},
	{
		"a server that cannot serve looks busy",
		"internal/engine/acquisition.go", "return 0, a.out.error()", "return 0, &Busy{}",
		"internal/engine", "TestPatience",
	},
	{
		"a call that was given up returns its lock",
		"internal/engine/acquisition.go", "case a.asking.Err() != nil: // too late", "case a.asking.Err() != nil && false: // too late",
		"internal/engine", "TestGrantedTooLateForTheCaller",
	},
	{
		"the password is part of the error",
		"driver/rueidis/url.go", `errors.New("a server URL has no #fragment`, `errors.New(raw + "a server URL has no #fragment`,
		"driver/rueidis", "TestParseURLRefuses",
	},
	{
		"the fence accepts stale tokens",
		"internal/script/fence.lua", "if #token < #seen or #token == #seen and token < seen then", "if false then",
		"fence", "TestPausedHolderRedis",
	},
	{
		"the fence does not store tokens",
		"internal/script/fence.lua", "if token ~= seen then redis.call('set', fence, token) end", "",
		"fence", "TestPausedHolderRedis",
	},

	// FairMutex
	{
		"a free fair lock is granted to a caller outside the queue",
		"internal/script/lua/fair_acquire.lua", "if ttl == -2 and (not head or head == owner) then\n  if head then", "if ttl == -2 then\n  if head == owner then",
		"internal/script", "TestFair$",
	},
	{
		"tokens restart after a Redisson multi lock",
		"internal/script/lua/lib/counter.lua", "redis.call('persist', counter)", "",
		"internal/script", "TestFenced$",
	},
	{
		"permits that Redisson has returned are returned again",
		"internal/script/lua/ratelimiter_release.lua", "math.max(math.min(given, l.rate - free), 0)", "given",
		"internal/script", "TestLimiter",
	},
	{
		"a waiter that gives up stays in the queue",
		"internal/engine/claim.go", "left.Entry = left.Entry || c.asked && c.Wait && a.traits.Heartbeat > 0", "",
		"test/behaviour", "TestFairGivesUp",
	},

	// RWMutex
	{
		"readers ignore a writer",
		"internal/script/lua/rwmutex_read_acquire.lua", "if ttl ~= -2 and mode ~= 'read' and (not ARGV[5] or redis.call('hexists', KEYS[1], ARGV[5]) == 0) then", "if false then",
		"test/faults", "TestRWHistories",
	},
	{
		"a reader that requests the write lock waits for itself",
		"named.go", "case o.never != \"\" && o.client.find(ctx, o.never, o.name) != nil:", "case false:",
		"test/behaviour", "TestUpgrade$",
	},
	{
		"a write lock with a read hold is handed off to the next writer",
		"internal/engine/hold.go", "	h.handoff.allowed = false // the next user must not share the lock with the other hold\n", "",
		"test/faults", "TestReadUnderPassedWrite",
	},
	{
		"readers do not let those in who wait behind them",
		"internal/engine/turn.go", "		t.gate.open()\n", "",
		"test/behaviour", "TestDowngrade$/same",
	},
	{
		"the read holds of a writer end with its write lock",
		"named.go", "	l.survives = kind\n", "",
		"test/behaviour", "TestDowngradeContext",
	},

	// FencedMutex
	{
		"reentry raises the token",
		"internal/script/lua/lib/counter.lua", "if not held or token == 0 then", "if not held or token == 0 or ARGV[3] ~= '1' then",
		"internal/script", "TestFenced$",
	},
	{
		"a repeated acquire raises the token",
		"internal/script/lua/lib/counter.lua", "if not held or token == 0 then", "if not held or token == 0 or ARGV[3] == '1' then",
		"internal/script", "TestSentAgain",
	},
	{
		"fenced tokens are taken from the clock",
		"internal/script/lua/fenced_acquire.lua", "return token\n", "local now = redis.call('time') return now[1] * 1000000 + now[2]",
		"internal/script", "TestFenced$",
	},
	{
		"fenced tokens are created at a hand-off",
		"internal/script/fenced.go", "return Traits{ServerTokens: true, Plain: true}", "return Traits{}",
		"test/behaviour", "TestFencedContention",
	},

	// Multi
	{
		"a group script that is refused keeps some locks",
		"internal/script/lua/group_acquire.lua", "for j = i, 1, -2 do list[j + 1](mute) end", "",
		"internal/script", "TestGroupFailsHalfway",
	},
	{
		"a set that fails keeps the locks that it has",
		"internal/engine/multi.go", "all = append(all, Departure{Hold: w.Hold, User: w.User, Renewed: renewed})", "_ = renewed",
		"test/behaviour", "TestMultiAllOrNothing",
	},
	{
		"the order of servers differs between clients",
		"internal/engine/multi.go", "cmp.Compare(servers[a.Engine], servers[b.Engine])", "cmp.Compare(servers[a.Engine], servers[a.Engine])",
		"test/behaviour", "TestMultiSameOrder",
	},
	{
		"the loss of a part is not reported",
		"lease.go", "		l.whole.lostPart()\n", "",
		"test/behaviour", "TestMultiLosesOne",
	},
	{
		"a set is valid while any part is valid",
		"parts.go", "return ends[len(ends)-p.need]", "return ends[len(ends)-1]",
		"test/behaviour", "TestMultiLosesOne",
	},
	{
		"the lease of a set counts from its first lock",
		"internal/engine/multi.go", "		pass, _ := w.Hold.Current()\n		err := w.Hold.Prolong(calls, pass, r)\n", "		var err error\n",
		"test/faults", "TestMultiLeaseCountsFromTheLast",
	},
	{
		"a set keeps its locks while it waits for the next one",
		"internal/engine/multi_queue.go", "			v.giveWay(now)\n", "",
		"test/behaviour", "TestMultiWaitsWithNothingInHand",
	},
	{
		"a set that is cancelled at its last lock panics",
		"internal/engine/multi.go", "len(wants) > 1 && n < len(groups)", "len(wants) > 1",
		"test/faults", "TestMultiGivenUpAtTheLast",
	},
	{
		"a set that acquires out of order waits for the full time",
		"internal/engine/multi_order.go", "patience = min(outOfOrderWait<<(2*o.outOfOrder), o.patience, maxPatience)", "patience = o.patience",
		"internal/engine", "TestSetGivesBackOutOfOrder",
	},
	{
		"a set that acquires out of order never extends its wait",
		"internal/engine/multi_order.go", "outOfOrderWait<<(2*o.outOfOrder)", "outOfOrderWait",
		"internal/engine", "TestOutOfOrderWait",
	},
	{
		"the wait for the first lock counts as an outage of the second server",
		"internal/engine/multi.go", "		asked := clock.Early()\n", "		asked := clock.Early() - 9*time.Second\n",
		"test/faults", "TestMultiOutageAfterLongWait",
	},
	{
		"a release preempts extensions only once",
		"internal/engine/hold.go", "		case <-ticker.C:\n", "		case <-ticker.C:\n			ticker.Stop()\n",
		"test/faults", "TestReleaseBehindExtensions",
	},
	{
		"a queued extension ignores its context",
		"internal/engine/hold.go", "	case <-ctx.Done():\n", "	case <-context.Background().Done():\n",
		"test/faults", "TestContextBehindExtension",
	},
	{
		"a set does not recognize Holdfast clients",
		"internal/engine/engine.go", "owner[14] != '8'", "owner[14] != '4'",
		"test/behaviour", "TestMultiLearnsTheOrder",
	},
	{
		"a set holds some locks without a limit while it waits for others",
		"internal/engine/multi.go", "patience/2+clock.Random(patience)", "100*patience",
		"internal/engine", "TestSetGivesWayWithoutQueue",
	},
	{
		"a set does not store the order that it has learned",
		"internal/engine/multi_order.go", "		saveFirst(planned, o.firstGroup)\n", "",
		"test/behaviour", "TestMultiLearnsTheOrder",
	},
	{
		"a learned order is never discarded",
		"internal/engine/multi_order.go", "	delete(f.byShape, key)\n", "",
		"test/behaviour", "TestMultiLearnsTheOrder",
	},

	// redlock
	{
		"a restarted server votes at once",
		"internal/script/lua/lib/vote.lua", "if up < tonumber(ARGV[4]) and", "if false and",
		"test/redlock", "TestForgottenVote",
	},
	{
		"a minority of servers is enough",
		"internal/engine/quorum.go", "Need: servers/2 + 1", "Need: servers / 2",
		"test/redlock", "TestFewerClients",
	},
	{
		"a server that does not answer delays the result",
		"internal/engine/quorum.go", "calls, cancel := context.WithTimeout(ctx, q.Limit)", "calls, cancel := context.WithTimeout(ctx, 15*q.Limit)",
		"test/redlock", "TestDeafDriver",
	},
	{
		"late votes are not released",
		"internal/engine/quorum.go", "		if v.h != nil {\n", "		if false {\n",
		"test/redlock", "TestLateVote",
	},
	{
		"the locks of a split vote are not released",
		"internal/engine/quorum.go", "		releaseWithin(q.Limit, departures(wants, r.renewed()))\n", "",
		"test/redlock", "TestSplitVote",
	},
	{
		"the loss of the majority is not reported",
		"parts.go", "if left--; left < p.need {", "if left--; left == 0 {",
		"test/redlock", "TestMajorityLost",
	},
	{
		"an extension beyond the longest lease is accepted",
		"lease.go", "p != nil && p.longest > 0 && d > p.longest {\n		return l.wrap(\"extend\"", "p != nil && false {\n		return l.wrap(\"extend\"",
		"test/redlock", "TestExtendBeyondLongestLease",
	},

	// All kinds
	{
		"an expired lease is reported as taken by another owner",
		"internal/engine/release.go", "why == watchdog.NotOwner && clock.Now() >= f.ends", "false",
		"internal/engine", "TestReleasedAfterItsEnd",
	},
	{
		"the deadline of the caller is reported as a timeout of the server",
		"driver/rueidis/calls.go", "ok && time.Until(end) <= 0", "ok && time.Until(end) <= -time.Hour",
		"driver/rueidis", "TestTimeoutCause",
	},
	{
		"a panic in a hook keeps the lock",
		"lease.go", "		if !ok {\n", "		if !ok && false {\n",
		"test/behaviour", "TestHookPanics/push",
	},
	{
		"ForceUnlock is not reported to holders of another kind",
		"internal/engine/engine.go", "sided && h.kind.Gate() != k.Gate()", "(sided || true) && h.kind.Gate() != k.Gate()",
		"test/behaviour", "TestForceUnlockTellsFencedHolder",
	},
}
