// Package mutants tests the tests. Each mutant is a bug seeded into the code,
// one line replaced by another, and names the test that must find it. A
// promise whose test stays green with its mutant is not kept by anything.
//
// make mutants runs them all. The files themselves are never touched: the
// compiler is given the changed one as an overlay.
package mutants

// A Mutant is a seeded bug.
type Mutant struct {
	Name string // what the bug is
	File string // from the root of the module
	Old  string // stands in the file exactly once
	New  string
	Pkg  string // of the test
	Test string // the test that must fail
}

// All are the mutants.
var All = []Mutant{
	{
		"lease counted from the reply instead of before the request",
		"internal/engine/contest.go", "!c.e.dog.Guard(&h.Charge, g.sent, renewal)", "!c.e.dog.Guard(&h.Charge, clock.Now()+0*g.sent, renewal)",
		"internal/engine", "TestLeaseCountsFromBefore",
	},
	{
		"grants that come too late are used",
		"internal/engine/contest.go", "v.Granted() && !watchdog.InTime(sent, c.claim.Lease)", "v.Granted() && false",
		"internal/engine", "TestGrantedTooLate",
	},
	{
		"no warning before the deadline",
		"internal/watchdog/charge.go", "return c.Deadline() - c.gap() }", "return c.Deadline() + 2*c.gap() }",
		".", "TestToldBeforeAnybodyElse",
	},
	{
		"an ambiguous renewal extends the lease",
		"internal/watchdog/renew.go", "		case err != nil:\n			c.due = clock.Now() + w.retry()", "		case err != nil && driver.ClassOf(err) != driver.Ambiguous:\n			c.due = clock.Now() + w.retry()\n		case err != nil:\n			c.extend(sent, renewal)\n			c.due = clock.Now() + w.retry()",
		"internal/watchdog", "TestAmbiguousRenewal",
	},
	{
		"renewal does not check the owner",
		"internal/script/lua/renew.lua", "redis.call('hexists', key, ARGV[i + 1])", "redis.call('exists', key)",
		".", "TestTakenAway",
	},
	{
		"release does not check the owner",
		"internal/script/lua/mutex_release.lua", "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end", "",
		".", "TestToldBeforeAnybodyElse|TestExclusion|TestReleaseReplyLost",
	},
	{
		"acquire does not look who holds the lock",
		"internal/script/lua/mutex_acquire.lua", "elseif redis.call('hexists', KEYS[1], ARGV[2]) == 0 then\n  return -1 - ttl\nend", "end",
		".", "TestExclusion",
	},
	{
		"acquire counts up instead of setting",
		"internal/script/lua/mutex_acquire.lua", "redis.call('hset', KEYS[1], ARGV[2], ARGV[3])", "redis.call('hincrby', KEYS[1], ARGV[2], 1)",
		".", "TestAcquireReplyLost",
	},
	{
		"entering again cuts the lease",
		"internal/script/lua/mutex_acquire.lua", "if ttl < tonumber(ARGV[1]) then", "if true then",
		".", "TestLeaseTimes",
	},
	{
		"partial release writes first what a full server refuses",
		"internal/script/lua/mutex_release.lua", "if ttl > 0 then redis.call('pexpire', KEYS[1], ttl) end", "",
		"internal/script", "TestMutexRelease",
	},
	{
		"no second look after the subscription is confirmed",
		"internal/wait/hub.go", "func (e ear) Subscribed(channel string, _ uint64) { e.h.rouse(channel) }", "func (e ear) Subscribed(channel string, _ uint64) {}",
		".", "TestReleaseBeforeSubscribed",
	},
	{
		"waiters trust messages and have no poll bound",
		"internal/engine/contest.go", "d = c.e.o.Poll\n", "d = time.Hour\n",
		".", "TestFreeLockIsTaken",
	},
	{
		"cancelled acquires are not undone",
		"internal/engine/contest.go", "	if c.doubt {\n", "	if false {\n",
		".", "TestCancelledAcquireLeavesNothing",
	},
	{
		"an extension takes the lock if nobody has it",
		"internal/script/lua/renew.lua", "renewed[i] = redis.call('type', key).ok == 'hash' and redis.call('hexists', key, ARGV[i + 1]) or 0", "redis.call('hsetnx', key, ARGV[i + 1], 1) renewed[i] = 1",
		".", "TestExtendAfterLoss",
	},
	{
		"a failed release is not tried again",
		"internal/engine/release.go", "			e.undo(h.kind, h.owner, h.most, true)\n			return fmt.Errorf", "			return fmt.Errorf",
		".", "TestReleaseGoesOn",
	},
	{
		"the turn is lost with a waiter that gives up",
		"internal/engine/acquire.go", "} else if !errors.As(err, new(errNoTurn)) {\n				g.give()\n			}", "}",
		"internal/engine", "TestTurnIsNotLost",
	},
	{
		"idle subscriptions are kept for ever",
		"internal/wait/hub.go", "if left := h.linger - time.Since(ch.idle); left <= 0 {", "if left := h.linger; left <= 0 {",
		".", "TestNothingLeaks",
	},
	{
		"hand-offs without an end",
		"internal/engine/release.go", "h.passes >= o.SlicePasses ||", "",
		"internal/engine", "TestSliceOfPasses",
	},
	{
		"tokens do not grow when a lock is handed over",
		"internal/engine/release.go", "return h.e.fence(h.token+1, 0)", "return h.token",
		".", "TestTokensGrow",
	},
	{
		"closing frees nothing",
		"internal/engine/engine.go", "	e.free(limit, calls)\n", "	_ = calls\n",
		".", "TestClose$",
	},
	{
		"a sleeping machine does not age",
		"internal/clock/clock.go", "return now + time.Duration(known)", "return now",
		"internal/watchdog", "TestSleepingMachine",
	},
	{
		"a dead node stops the renewals of all",
		"internal/watchdog/renew.go", "lane{w.d.Place(c.Key).Node, c.renewal,", "lane{\"\", c.renewal,",
		"internal/watchdog", "TestNodesAreIndependent",
	},
	{
		"cancellation does not interrupt a lone caller",
		"driver/rueidis/link.go", "_ = l.Conn.SetDeadline(time.Unix(1, 0))", "",
		"driver/rueidis", "TestConformance/RESP3/Cancel",
	},
	{
		"a server that cannot serve looks busy",
		"internal/engine/contest.go", "return grant{}, c.out.error()", "return grant{}, &Busy{}",
		"internal/engine", "TestPatience",
	},
	{
		"a call that was given up returns its lock",
		"internal/engine/contest.go", "if err := c.asking.Err(); err != nil { // too late", "if err := c.asking.Err(); err != nil && false { // too late",
		"internal/engine", "TestGrantedTooLateForTheCaller",
	},
	{
		"the password is part of the error",
		"driver/rueidis/url.go", `return c, errors.New("not a URL: write`, `return c, errors.New(raw + "not a URL: write`,
		".", "TestSecretsStaySecret",
	},
	{
		"the guard of a resource lets stale tokens pass",
		"internal/script/fence.lua", "if #token < #seen or #token == #seen and token < seen then", "if false then",
		"fence", "TestPausedHolderRedis",
	},
	{
		"the guard of a resource does not remember tokens",
		"internal/script/fence.lua", "if token ~= seen then redis.call('set', fence, token) end", "",
		"fence", "TestPausedHolderRedis",
	},
}
