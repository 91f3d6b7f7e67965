package mutants

func init() { All = append(append(All, fair...), readWrite...) }

var fair = []Mutant{
	{
		"the last in the queue is the first",
		"internal/script/lua/fair_acquire.lua", "redis.call('rpush', KEYS[2], owner)", "redis.call('lpush', KEYS[2], owner)",
		"test/behaviour", "TestFIFOAcrossProcesses",
	},
	{
		"the dead keep their places",
		"internal/script/lua/lib/fair.lua", "if #dead == DROPS or #dead > 0 and bytes > BYTES then till = now + 1 end", "till = math.max(till, now + 1000)",
		"internal/script", "TestFair$",
	},
	{
		"whoever was late drops those who could not speak either",
		"internal/script/lua/fair_acquire.lua", "first(silent and silent >= BEAT and peace <= now)", "first(silent and silent >= BEAT)",
		"internal/script", "TestFair$",
	},
	{
		"newcomers judge who is dead",
		"internal/script/lua/fair_acquire.lua", "first(silent and silent >= BEAT and peace <= now)", "first(peace <= now)",
		"internal/script", "TestFairNewcomer",
	},
	{
		"those who wait give no signs of life",
		"internal/script/lua/fair_acquire.lua", "if not queued or not silent or silent >= BEAT then", "if not queued then",
		"internal/script", "TestFair$",
	},
	{
		"a waiter of ours is evicted once the Java waiters in front of it are through",
		"internal/script/lua/fair_acquire.lua", "till = till + (silent or 0)", "till = now",
		"internal/script", "TestFair$",
	},
	{
		"a dead waiter of ours keeps Java waiters for as long as those behind it may wait",
		"internal/script/lua/fair_acquire.lua", "till = 0 -- no waiter", "till = till -- no waiter",
		"internal/script", "TestFair$",
	},
	{
		"limits grow for as long as a queue is not empty",
		"internal/script/lua/fair_acquire.lua", "before and limit(before) or 0)", "before and SLACK + limit(before) or 0)",
		"internal/script", "TestFairLimitsStay",
	},
	{
		"a Java waiter that missed its call is not called again",
		"internal/script/lua/fair_acquire.lua", "if dropped or (silent and silent >= BEAT) then", "if dropped then",
		"internal/script", "TestFair$",
	},
	{
		"the release of a fair lock calls nobody",
		"internal/script/lua/fair_release.lua", "local heard = head and call(ARGV[3], head) or 0", "local heard = 0",
		"internal/script", "TestFair$",
	},
}

var readWrite = []Mutant{
	{
		"a lock of readers outlasts the last of them by a lease time",
		"internal/script/lua/rwmutex_read_release.lua", "if longest + 10 < ttl and", "if longest < ttl and",
		"internal/script", "TestReadOutlastedByAMoment",
	},
	{
		"writers do not look who holds the lock",
		"internal/script/lua/rwmutex_write_acquire.lua", "elseif not holds then", "elseif false then",
		"internal/script", "TestReadWrite$",
	},
	{
		"a reader that leaves frees the lock although others read",
		"internal/script/lua/rwmutex_read_release.lua", "if longest > 0 then\n", "if false then\n",
		"internal/script", "TestReadWrite$",
	},
	{
		"a dead reader counts as long as the lock lasts",
		"internal/script/lua/rwmutex_read_release.lua", "longest = readers(KEYS[1], KEYS[4], ttl)", "longest = redis.call('hlen', KEYS[1]) > 1 and ttl or 0",
		"internal/script", "TestReadWrite$",
	},
	{
		"a reader whose own time is over is renewed",
		"internal/script/lua/rwmutex_read_renew.lua", "if redis.call('type', own).ok == 'string' then", "if true then",
		"internal/script", "TestReadWrite$",
	},
	{
		"a read lease that Java has cut short is not mended",
		"internal/watchdog/watched.go", "return max(c.renewal, (claim", "return max(c.renewal, (min(claim, time.Millisecond)",
		"test/behaviour", "TestReadLeaseCutShort",
	},
	{
		"renewing a reader leaves its own time as it was",
		"internal/script/lua/rwmutex_read_renew.lua", "raise(own, ARGV[2 * i - 1])\n", "",
		"internal/script", "TestReadWrite$",
	},
	{
		"a reader that comes for a short time cuts that of all",
		"internal/script/lua/rwmutex_read_acquire.lua", "if ttl < tonumber(ARGV[1]) then redis.call('pexpire', KEYS[1], ARGV[1]) end", "redis.call('pexpire', KEYS[1], ARGV[1])",
		"internal/script", "TestReadWrite$",
	},
	{
		"leaving once cuts the longer of two nested reads",
		"internal/script/lua/rwmutex_read_release.lua", "longest = math.max(longest, redis.call('pttl', own))", "longest = redis.call('pttl', own)",
		"internal/script", "TestReadWrite$",
	},
	{
		"a downgrade tells nobody",
		"internal/script/lua/rwmutex_write_release.lua", "return 1 + left(ARGV[3], KEYS[3])", "return redis.call('exists', KEYS[1]) == 1 and 1 or 1 + left(ARGV[3], KEYS[3])",
		"internal/script", "TestReadWrite$",
	},
	{
		"a Java thread that does not sleep yet misses that a writer has left",
		"internal/script/lua/lib/rwmutex.lua", "  redis.call(publish, channel, '0')\n", "",
		"internal/script", "TestReadWrite$",
	},
	{
		"a release to write takes what the writer reads",
		"internal/script/lua/lib/rwmutex.lua", "  local longest = readers(lock, root, ttl)\n", "  local longest = 0\n",
		"internal/script", "TestReadWrite$",
	},
	{
		"readers do not care for a writer that goes first",
		"internal/script/lua/rwmutex_read_acquire.lua", "if mode ~= 'write' and redis.call('exists', KEYS[3]) == 1 then", "if false then",
		"internal/script", "TestReadWrite$",
	},
}
