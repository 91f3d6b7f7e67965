package mutants

func init() { All = append(All, grants...) }

// grants holds the mutants of grants by a release.
var grants = []Mutant{
	{
		"a grant by a release counts from its message",
		"internal/engine/queue.go", "g.sent = a.place.since", "g.sent = clock.Now()",
		"internal/engine", "TestQueueGrantIsLate",
	},
	{
		"a grant by a release is used after any wait",
		"internal/engine/queue.go", "!a.e.watchdog.InTime(clock.Now(), a.place.since, d.Lease/3) || ", "",
		"internal/engine", "TestQueueGrantIsConfirmed/after",
	},
	{
		"a grant by a release does not wait for replicas",
		"internal/engine/queue.go", " || a.e.replicas(a.asking, a.k.Gate()) > 0 ||", " ||",
		"internal/engine", "TestQueueGrantIsConfirmed/with_replicas",
	},
	{
		"a grant by a release is a lease of the full length",
		"internal/engine/queue.go", ", first: min(d.Lease, a.claim.Lease)}", "}",
		"internal/engine", "TestQueueGrantIsRenewed",
	},
	{
		"a grant by a release gives a fixed lease without asking",
		"internal/engine/queue.go", "d.Entry != a.place.entry || !a.r.renewed() || ", "d.Entry != a.place.entry || ",
		"internal/engine", "TestQueueGrantIsConfirmed/a_fixed",
	},
	{
		"a grant by a release is renewed with the other leases",
		"internal/watchdog/watchdog.go", "	if c.First > 0 {\n		c.state.due = min(c.state.due, clock.Now()+firstRenewal)\n	}\n", "",
		"internal/engine", "TestQueueGrantIsRenewed",
	},
	{
		"the grant of an earlier owner is taken",
		"internal/wait/grants.go", "case name != g.owner:", "case name == \"\":",
		"internal/engine", "TestQueueGrantOfAnother",
	},
	{
		"a call that gives up stays in the queue",
		"internal/engine/claim.go", "left.Entry = left.Entry || c.asked && c.Wait && a.traits.Heartbeat > 0", "left.Entry = c.asked && c.Wait && a.traits.Heartbeat > 0",
		"test/behaviour", "TestGivenUpIsNotQueued",
	},
	{
		"a waiter in the queue relies on its grant",
		"internal/engine/queue.go", "	if p.early > now {", "	if d > 0 {\n		d, now = time.Hour, now-time.Hour",
		"internal/engine", "TestQueueGrantIsLost",
	},
	{
		"without a right to the queue no lock is acquired",
		"internal/engine/queue.go", "code != \"NOPERM\" && ", "code != \"NOPE\" && ",
		"internal/engine", "TestQueueGrantRefused",
	},
	{
		"a slot that is being moved refuses a release",
		"internal/engine/queue.go", " && code != \"TRYAGAIN\" {", " {",
		"internal/engine", "TestQueueGrantRefused",
	},
	{
		"a release grants the lock to a client that does not listen",
		"internal/script/lua/lib/pass.lua", "if client and listening > 0 then", "if client then",
		"internal/script", "TestQueued",
	},
	{
		"a release passes over any number of clients",
		"internal/script/lua/lib/entries.lua", "local SKIPS = 16 ", "local SKIPS = 1e6 ",
		"internal/script", "TestQueued",
	},
	{
		"clients that do not queue never get the lock",
		"internal/script/lua/lib/entries.lua", "others > 0 and lot % 2 == 0 or lot == 0", "lot == 0",
		"internal/script", "TestQueuedAndOthers",
	},
	{
		"clients of Redisson get no more than readers",
		"internal/script/lua/lib/listeners.lua", "n[2] - n[4] - n[6]", "0",
		"internal/script", "TestQueuedAndOthers",
	},
	{
		"one client of Redisson gets as much as a whole queue",
		"internal/script/lua/lib/entries.lua", "lot * queued < 300 * foreign", "true",
		"internal/script", "TestQueuedAndOthers",
	},
	{
		"a release believes an impossible number of clients",
		"internal/script/lua/lib/listeners.lua", "if n[i] > 2 ^ 31 then", "if false then",
		"internal/script", "TestMiscountedListeners",
	},
	{
		"readers count as clients of Redisson",
		"internal/script/lua/lib/listeners.lua", "n[2] - n[4] - n[6]", "n[2] - n[4]",
		"internal/script", "TestQueuedAndOthers",
	},
	{
		"a release grants a short lease for longer",
		"internal/script/lua/lib/pass.lua", "wanted, ms = spell(wanted)", "wanted = spell(wanted)",
		"internal/script", "TestQueued",
	},
	{
		"a client that asks again loses its place in the queue",
		"internal/script/lua/lib/enqueue.lua", "queue, 'nx', score", "queue, score",
		"internal/script", "TestQueued",
	},
	{
		"a queued mutex is granted beside readers",
		"internal/script/lua/lib/locked.lua", " and redis.call('hexists', KEYS[1], 'mode') == 0 --", " --",
		"internal/script", "TestQueued",
	},
	{
		"an owner that leaves stays in the queue",
		"internal/script/lua/lib/entries.lua", "  if redis.pcall('zrem', queue, unpack(entries)) ~= 1 then return false end\n", "",
		"internal/script", "TestQueued",
	},
	{
		"a mutex is granted to a client that wants a fenced one",
		"internal/script/lua/lib/pass.lua", "if wanted ~= kind or free_for_all", "if free_for_all",
		"internal/script", "TestQueued",
	},
	{
		"a grant of a fenced mutex has the token of the last one",
		"internal/script/lua/lib/fenced.lua", "count(KEYS[2], false)", "count(KEYS[2], true)",
		"internal/script", "TestQueued",
	},
	{
		"a writer is granted a lock that its readers hold",
		"internal/script/lua/lib/write.lua", "  if settle(KEYS[1], KEYS[4]) then return 1 + left(publish, KEYS[3]) end", "  settle(KEYS[1], KEYS[4])",
		"internal/script", "TestQueued",
	},
	{
		"a release does not grant the lock to the first in the queue",
		"internal/script/lua/lib/unqueued.lua", "if not head[1] and not head.err then", "if not head.err then",
		"internal/script", "TestQueued",
	},
	{
		"a Redisson thread that does not sleep yet misses the release of a writer for which no client queues",
		"internal/script/lua/lib/unqueued.lua", "    if message2 then redis.pcall(publish, channel, message2) end\n", "",
		"internal/script", "TestQueued",
	},
	{
		"a writer that was granted the lock keeps new readers out",
		"internal/script/lua/lib/writes.lua", "  redis.pcall('zrem', writers, field)\n", "",
		"internal/script", "TestQueued",
	},
	{
		"readers of a client that has a writer in the queue are not counted",
		"internal/script/lua/lib/listeners.lua", "math.max(n[2] - n[4], n[6])", "n[2] - n[4]",
		"test/behaviour", "TestReadersAndQueuedWriters",
	},
	{
		"a release fails if the user may not remove entries from the queue",
		"internal/script/lua/lib/hand.lua", "if not fails(redis.pcall('zrem', queue, member)) and announce(", "if redis.call('zrem', queue, member) and announce(",
		"test/faults", "TestWithoutQueueRights/zrem",
	},
	{
		"an owner that cannot be removed from the queue enters it",
		"internal/script/lua/lib/enqueue.lua", " or fails(redis.pcall('zrem', queue, ''))) then", ") then",
		"test/faults", "TestWithoutQueueRights/zrem",
	},
	{
		"a call reads many long entries of a queue",
		"internal/script/lua/lib/pass.lua", "if #member > LONG or fails(removed) then break end", "if fails(removed) then break end",
		"internal/script", "TestQueued",
	},
	{
		"a release fails while the slot of the lock is moved",
		"internal/script/lua/lib/give.lua", "type(redis.pcall('hset', KEYS[1], ...)) == 'number'", "redis.call('hset', KEYS[1], ...) >= 0",
		"test/topology", "TestReleaseDuringMigration",
	},
	{
		"a kept lock has the name of its owner",
		"internal/script/lua/keep.lua", "':0', 1)", "':', 1)",
		"internal/script", "TestMutex",
	},
	{
		"a renewal that arrives late extends a kept lock",
		"internal/script/lua/keep.lua", "  redis.call('hdel', KEYS[1], ARGV[1], 'leader')\n", "",
		"internal/script", "TestLateRenewalOfKept",
	},
	{
		"a release grants a fair lock to a call that polls",
		"internal/script/lua/fair_acquire.lua", "(listens and 0.5 or 0)", "0.5",
		"internal/script", "TestFair$",
	},
	{
		"a release by a client that grants nothing does not tell the next client",
		"internal/script/lua/lib/fair.lua", "  if channel then told(publish, channel, owner) end\n", "",
		"internal/script", "TestFair$",
	},
	{
		"a call does not listen where Redisson tells it that it is next",
		"internal/engine/waiting.go", "s.grantsOnly && (a.claim.Queue && a.place.n == 0 || a.e.isQueueRefused())", "s.grantsOnly && a.e.isQueueRefused()",
		"test/behaviour", "TestFairBesideRedisson",
	},
	{
		"every call for a fair lock listens on a channel of its own",
		"internal/engine/waiting.go", "s.grantsOnly && (a.claim.Queue && a.place.n == 0 || a.e.isQueueRefused())", "s.grantsOnly",
		"test/behaviour", "TestFairBesideRedisson",
	},
	{
		"a server that is out of memory refuses a fair lock to the owner that has it",
		"internal/script/lua/fair_acquire.lua", "  if again then redis.call('pexpire', KEYS[1], lease) end\n", "",
		"internal/script", "TestFair$",
	},
	{
		"a release grants more permits than are free",
		"internal/script/lua/lib/share.lua", "if n > free and not bound then", "if n > MOST and not bound then",
		"internal/script", "TestQueued$",
	},
	{
		"permits that a release has granted stay free",
		"internal/script/lua/lib/share.lua", "  redis.call('decrby', KEYS[1], #ids)\n", "",
		"internal/script", "TestQueued$",
	},
	{
		"permits are lost that a late request has taken before a release grants them",
		"internal/script/lua/lib/share.lua", "return #ids end", "return #ids, redis.call('decrby', KEYS[1], n - #ids) end",
		"internal/script", "TestQueued$",
	},
	{
		"a release grants permits with other ids than their owner has",
		"internal/script/lua/lib/share.lua", "':' .. i - 1)", "':' .. i)",
		"internal/script", "TestQueued$",
	},
	{
		"a client that wants more permits than are free blocks the others",
		"internal/script/lua/lib/share.lua", "      at = at + 1\n", "      break\n",
		"internal/script", "TestQueued$",
	},
	{
		"a release of permits wakes all clients",
		"internal/engine/queue.go", "	if !e.o.Queue || e.isQueueRefused() {", "	if !e.o.Queue || e.isQueueRefused() || k.Traits().Queue == script.InOrder {",
		"test/behaviour", "TestCrowdOfPermits",
	},
	{
		"a client that wants another kind of lock and is gone stops all others",
		"internal/script/lua/lib/pass.lua", "      wake()\n      told(publish, client, '')", "      if wanted == kind then wake() end\n      told(publish, client, '')",
		"internal/script", "TestQueued$",
	},
	{
		"a grant has a lower token than another call of the same client has had",
		"internal/engine/queue.go", " ||\n		d.Token <= a.floor() { // the", " { // the",
		"internal/engine", "TestQueueGrantAfterClockStep",
	},
	{
		"a queue grows without a bound",
		"internal/script/lua/lib/enqueue.lua", "added == 1 and most ~= '' and place > tonumber(most)", "false",
		"test/behaviour", "TestMaxQueue$/mutex",
	},
	{
		"a client loses its place in a full queue when it asks again",
		"internal/script/lua/lib/enqueue.lua", "added == 1 and most ~= ''", "most ~= ''",
		"internal/script", "TestQueued$",
	},
	{
		"the queue of a fair mutex grows without a bound",
		"internal/script/lua/fair_acquire.lua", "    if redis.call('llen', KEYS[2]) >= tonumber(ARGV[7]) then return { held(ttl), -1 } end\n", "",
		"internal/script", "TestFair$",
	},
	{
		"the calls of a client queue without a bound",
		"internal/engine/gate.go", "traits.Queued.Joins() && g.calls() >= e.o.MaxQueue", "false",
		"test/behaviour", "TestMaxQueueOfOneClient",
	},
	{
		"the queue of many clients expires",
		"internal/script/lua/lib/enqueue.lua", "if place <= 8 then redis.call('pexpire', queue, '300000') end", "if added == 1 and place == 1 then redis.call('pexpire', queue, '300000') end",
		"internal/script", "TestQueued$",
	},
	{
		"an owner that wants the lock for a short time stays in the queue",
		"internal/script/lua/lib/entries.lua", "redis.pcall('zrem', queue, unpack(entries))", "redis.pcall('zrem', queue, member)",
		"internal/script", "TestQueued$",
	},
}
