package mutants

func init() { All = append(append(All, fair...), readWrite...) }

var fair = []Mutant{
	{
		"a new waiter enters at the head of the queue",
		"internal/script/lua/fair_acquire.lua", "redis.call('rpush', KEYS[2], owner)", "redis.call('lpush', KEYS[2], owner)",
		"test/behaviour", "TestFIFOAcrossProcesses",
	},
	{
		"dead waiters stay in the queue",
		"internal/script/lua/lib/fair.lua", "if #dead == DROPS or #dead > 0 and bytes > BYTES then till = now + 1 end", "till = math.max(till, now + 1000)",
		"internal/script", "TestFair$",
	},
	{
		"a dead waiter without heartbeats counts as one of Redisson",
		"internal/script/lua/lib/fair.lua", "if living then till = living elseif owner and in_time and lost(owner) then till = 0 end", "if living then till = living end",
		"internal/script", "TestFair$",
	},
	{
		"a waiter whose heartbeats have expired drops others",
		"internal/script/lua/fair_acquire.lua", "(silent and silent > LATE or lost(owner) and redis.call('zscore', KEYS[3], owner))", "silent and silent > LATE",
		"internal/script", "TestFair$",
	},
	{
		"a waiter with a late heartbeat drops other late waiters",
		"internal/script/lua/fair_acquire.lua", "first(silent and silent >= BEAT and peace <= now)", "first(silent and silent >= BEAT)",
		"internal/script", "TestFair$",
	},
	{
		"a new waiter decides which waiters are dead",
		"internal/script/lua/fair_acquire.lua", "first(silent and silent >= BEAT and peace <= now)", "first(peace <= now)",
		"internal/script", "TestFairNewcomer",
	},
	{
		"waiters send no heartbeats",
		"internal/script/lua/fair_acquire.lua", "if not queued or not silent or silent >= BEAT or not known then", "if not queued then",
		"internal/script", "TestFair$",
	},
	{
		"a Holdfast waiter is dropped after the Redisson waiters ahead of it",
		"internal/script/lua/fair_acquire.lua", "till = till + (silent or 0)", "till = now",
		"internal/script", "TestFair$",
	},
	{
		"a dead Holdfast waiter delays Redisson waiters by the limits of the waiters behind it",
		"internal/script/lua/fair_acquire.lua", "till = 0 -- no waiter", "till = till -- no waiter",
		"internal/script", "TestFair$",
	},
	{
		"limits grow while the queue is not empty",
		"internal/script/lua/fair_acquire.lua", "before and limit(before) or 0)", "before and SLACK + limit(before) or 0)",
		"internal/script", "TestFairLimitsStay",
	},
	{
		"a Redisson waiter that missed its message is not notified again",
		"internal/script/lua/fair_acquire.lua", "if dropped or (silent and silent >= BEAT) then", "if dropped then",
		"internal/script", "TestFair$",
	},
	{
		"the release of a fair lock notifies no waiter",
		"internal/script/lua/fair_release.lua", "  heard = call(ARGV[3], head)\n", "",
		"internal/script", "TestFair$",
	},
}

var readWrite = []Mutant{
	{
		"a read lock outlasts its last reader by a lease time",
		"internal/script/lua/lib/read.lua", "if longest + SLACK < ttl and", "if longest < ttl and",
		"internal/script", "TestReadOutlastedByAMoment",
	},
	{
		"a writer ignores other holders",
		"internal/script/lua/lib/enter.lua", "elseif not holds then", "elseif false then",
		"internal/script", "TestReadWrite$",
	},
	{
		"the release of one reader frees the lock of all readers",
		"internal/script/lua/lib/read.lua", "if longest > 0 then\n", "if false then\n",
		"internal/script", "TestReadWrite$",
	},
	{
		"a dead reader counts as long as the lock lasts",
		"internal/script/lua/lib/read.lua", "longest = readers(KEYS[1], KEYS[2], ttl)", "longest = redis.call('hlen', KEYS[1]) > 1 and ttl or 0",
		"internal/script", "TestReadWrite$",
	},
	{
		"a reader whose lease is over is renewed",
		"internal/script/lua/rwmutex_read_renew.lua", "if redis.call('type', own).ok == 'string' then", "if true then",
		"internal/script", "TestReadWrite$",
	},
	{
		"a read lease that Redisson has shortened is not repaired",
		"internal/watchdog/watched.go", "return max(c.state.renewal, (claim", "return max(c.state.renewal, (min(claim, time.Millisecond)",
		"test/behaviour", "TestReadLeaseCutShort",
	},
	{
		"a renewal of a reader does not extend its own keys",
		"internal/script/lua/rwmutex_read_renew.lua", "raise(own, ARGV[2 * i - 1])\n", "",
		"internal/script", "TestReadWrite$",
	},
	{
		"a reader with a short lease shortens the lock of all readers",
		"internal/script/lua/rwmutex_read_acquire.lua", "if ttl < tonumber(ARGV[1]) then redis.call('pexpire', KEYS[1], ARGV[1]) end", "redis.call('pexpire', KEYS[1], ARGV[1])",
		"internal/script", "TestReadWrite$",
	},
	{
		"a nested release shortens the longer of two read holds",
		"internal/script/lua/lib/read.lua", "longest = math.max(longest, redis.call('pttl', own))", "longest = redis.call('pttl', own)",
		"internal/script", "TestReadWrite$",
	},
	{
		"a downgrade publishes no message",
		"internal/script/lua/lib/write.lua", "then return 1 + left(publish, KEYS[3]) end", "then return 1 end",
		"internal/script", "TestReadWrite$",
	},
	{
		"a Redisson thread that does not sleep yet misses the release of a writer",
		"internal/script/lua/lib/left.lua", "  redis.call(publish, channel, '0')\n", "",
		"internal/script", "TestReadWrite$",
	},
	{
		"the release of a writer ends its read holds",
		"internal/script/lua/lib/settle.lua", "  local longest = readers(lock, root, ttl)\n", "  local longest = 0\n",
		"internal/script", "TestReadWrite$",
	},
	{
		"the release of a reader that is not the only one frees the lock",
		"internal/script/lua/lib/release_read.lua", "if redis.call('hlen', KEYS[1]) == 2 then", "if true then",
		"internal/script", "TestReadWrite$",
	},
	{
		"a release takes a dead reader for one that stays",
		"internal/script/lua/lib/release_read.lua", "theirs <= ttl and theirs >= ttl - math.min(SLACK, ttl / 10)", "theirs <= ttl",
		"internal/script", "TestReadWrite$",
	},
	{
		"a release of one of some readers leaves a lock that lasts much longer than they do",
		"internal/script/lua/lib/release_read.lua", "math.min(SLACK, ttl / 10)", "ttl / 10",
		"internal/script", "TestReadersOutlasted",
	},
	{
		"a short lock outlasts its last reader by a second",
		"internal/script/lua/lib/release_read.lua", "math.min(SLACK, ttl / 10)", "SLACK",
		"internal/script", "TestReadersOutlasted",
	},
	{
		"a lock that outlasts its last reader by a moment stays when that one leaves",
		"internal/script/lua/lib/release_read.lua", "local stays = mine + SLACK < ttl ", "local stays = mine + 10 < ttl ",
		"internal/script", "TestReadersComeAndGo",
	},
	{
		"a release does not repair the TTL that Redisson has shortened for another reader",
		"internal/script/lua/lib/release_read.lua", "theirs <= ttl and theirs >= ", "theirs >= ",
		"internal/script", "TestReadWrite$",
	},
	{
		"a release does not repair the TTL that Redisson has shortened for the reader that leaves",
		"internal/script/lua/lib/release_read.lua", " and mine <= ttl + 10 and", " and",
		"internal/script", "TestReadersShortened",
	},
	{
		"a release of one of some readers looks at all of them",
		"internal/script/lua/lib/release_read.lua", "      if stays then break end\n    end\n    if stays then\n", "    end\n    if false then\n",
		"internal/script", "TestReadersBesideOthers",
	},
	{
		"a reader takes a free lock before a waiting writer with priority",
		"internal/script/lua/lib/acquire_read.lua", "redis.call('exists', KEYS[1], priority) == 0", "redis.call('exists', KEYS[1]) == 0",
		"internal/script", "TestReadWrite$",
	},
	{
		"a writer that takes a free lock keeps new readers out",
		"internal/script/lua/lib/acquire_write.lua", "redis.call('exists', KEYS[1], KEYS[2]) == 0", "redis.call('exists', KEYS[1]) == 0",
		"internal/script", "TestReadWrite$",
	},
	{
		"a writer waits for a lock that outlasts its readers",
		"internal/script/lua/lib/enter.lua", "alive and math.min(longest, ttl) or 1", "alive and ttl or 1",
		"internal/script", "TestReadWrite$",
	},
	{
		"the release of a writer that also reads frees the lock",
		"internal/script/lua/lib/release_write.lua", " and redis.call('hlen', KEYS[1]) == 2", "",
		"internal/script", "TestReadWrite$",
	},
	{
		"readers ignore a waiting writer with priority",
		"internal/script/lua/rwmutex_read_acquire.lua", "if mode ~= 'write' and redis.call('exists', priority) == 1 then", "if false then",
		"internal/script", "TestReadWrite$",
	},
}
