package mutants

func init() { All = append(All, directed...) }

// directed holds the mutants of directed grants.
var directed = []Mutant{
	{
		"a directed grant counts from its message",
		"internal/engine/directed.go", "sent: a.began, received", "sent: clock.Now(), received",
		"internal/engine", "TestDirectedGrantIsLate",
	},
	{
		"a directed grant is used after any wait",
		"internal/engine/directed.go", "!a.e.watchdog.InTime(a.began, d.Lease/2) || ", "",
		"internal/engine", "TestDirectedGrantIsConfirmed/after",
	},
	{
		"a directed grant does not wait for replicas",
		"internal/engine/directed.go", " || a.e.replicas(a.asking, key) > 0 {", " || key == \"\" {",
		"internal/engine", "TestDirectedGrantIsConfirmed/with_replicas",
	},
	{
		"a directed grant is a lease of the full length",
		"internal/engine/directed.go", "received: clock.Early(), first: min(d.Lease, a.claim.Lease),", "received: clock.Early(),",
		"internal/engine", "TestDirectedGrantIsRenewed",
	},
	{
		"a directed grant gives a fixed lease without asking",
		"internal/engine/directed.go", "!ok || !a.r.renewed() || ", "!ok || ",
		"internal/engine", "TestDirectedGrantIsConfirmed/a_fixed",
	},
	{
		"a directed grant is renewed with the other leases",
		"internal/watchdog/watchdog.go", "	if c.First > 0 {\n		c.due = min(c.due, clock.Now()+firstRenewal)\n	}\n", "",
		"internal/engine", "TestDirectedGrantIsRenewed",
	},
	{
		"the grant of an earlier owner is taken",
		"internal/wait/grants.go", "if owner != g.owner {", "if owner == \"\" {",
		"internal/engine", "TestDirectedGrantOfAnother",
	},
	{
		"a call that gives up stays in the queue",
		"internal/engine/acquisition.go", "if a.queued || a.asked && a.claim.Wait", "if a.asked && a.claim.Wait",
		"test/behaviour", "TestGivenUpIsNotQueued",
	},
	{
		"a waiter in the queue relies on its grant",
		"internal/engine/directed.go", "	if left := firstLook + step - (clock.Early() - a.began); left > 0 {", "	if left := time.Hour; d > 0 {\n		d = time.Hour",
		"internal/engine", "TestDirectedGrantIsLost",
	},
	{
		"without a right to the queue no lock is acquired",
		"internal/engine/directed.go", "	case \"NOPERM\":\n", "	case \"NOPE\":\n",
		"internal/engine", "TestDirectedGrantRefused",
	},
	{
		"a slot that is being moved refuses a release",
		"internal/engine/directed.go", "	case \"TRYAGAIN\":\n", "",
		"internal/engine", "TestDirectedGrantRefused",
	},
	{
		"a release grants the lock to a client that does not listen",
		"internal/script/lua/lib/pass.lua", "if not client or n[6] == 0 then", "if not client then",
		"internal/script", "TestQueued",
	},
	{
		"a release passes over any number of clients",
		"internal/script/lua/lib/pass.lua", "local SKIPS = 16 ", "local SKIPS = 1e6 ",
		"internal/script", "TestQueued",
	},
	{
		"clients that do not queue never get the lock",
		"internal/script/lua/lib/pass.lua", "others > 0 and lot % 2 == 0 or lot == 0", "lot == 0",
		"internal/script", "TestQueuedAndOthers",
	},
	{
		"a release grants a short lease for longer",
		"internal/script/lua/lib/pass.lua", "if all or tonumber(head[2]) % 2 == 1 then", "if all then",
		"internal/script", "TestQueued",
	},
	{
		"a client that asks again loses its place in the queue",
		"internal/script/lua/mutex_queue.lua", "KEYS[2], 'nx', string", "KEYS[2], string",
		"internal/script", "TestQueued",
	},
	{
		"a queued mutex is granted beside readers",
		"internal/script/lua/mutex_queue.lua", "redis.call('hexists', KEYS[1], 'mode') == 1 then", "false then",
		"internal/script", "TestQueued",
	},
	{
		"an owner that leaves stays in the queue",
		"internal/script/lua/mutex_pass.lua", "  redis.pcall('zrem', KEYS[2], ARGV[1])\n", "",
		"internal/script", "TestQueued",
	},
}
