package mutants

func init() { All = append(All, stored...) }

// stored holds the mutants of scripts that read stored data.
var stored = []Mutant{
	{
		"a reader with a very large count counts as dead",
		"internal/script/lua/lib/readers.lua", "if not count or count > steps then return life end", "if not count or count > steps then return 0 end",
		"internal/script", "TestReadWrite$",
	},
	{
		"the release of one of many readers shortens the lock of unchecked readers",
		"internal/script/lua/lib/readers.lua", "  if missed or many and longest > 0 then return math.max(longest, life), longest > 0 end\n", "",
		"internal/script", "TestReleaseOneOfManyReaders",
	},
	{
		"the release of one of many readers checks all of them",
		"internal/script/lua/lib/rwmutex.lua", "local FEW = 100 ", "local FEW = 100000 ",
		"internal/script", "TestReleaseOneOfManyReaders",
	},
	{
		"dead readers block a writer while the hash exists",
		"internal/script/lua/lib/enter.lua", "  if longest == 0 then\n", "  if false then\n",
		"internal/script", "TestWriterBehindManyDeadReaders",
	},
	{
		"dead readers are removed from data of another program",
		"internal/script/lua/lib/readers.lua", "  if strange then return life, true end\n", "",
		"internal/script", "TestReadWrite$",
	},
	{
		"one unreadable count fails the renewal of a batch",
		"internal/script/lua/rwmutex_read_renew.lua", "if n > 10 and steps == 0 then break end", "if steps == 0 then break end",
		"internal/script", "TestReadersCountIsNotTrusted",
	},
	{
		"a reader turns data of another program into a lock",
		"internal/script/lua/rwmutex_read_acquire.lua", "  if mode == 'read' and not joinable(KEYS[1], ttl) then return foreign(KEYS[1]) end\n", "",
		"internal/script", "TestReadWrite$",
	},
	{
		"ForceUnlock of a mutex deletes data of another program",
		"internal/script/lua/mutex_force.lua", "if not lock(KEYS[1], 100) then return foreign(KEYS[1]) end\n", "",
		"internal/script", "TestMutex$",
	},
	{
		"ForceUnlock of a fair mutex deletes data of another program",
		"internal/script/lua/fair_force.lua", "if not lock(KEYS[1], 100) then return foreign(KEYS[1]) end\n", "",
		"internal/script", "TestFair$",
	},
	{
		"ForceUnlock of readers deletes data of another program",
		"internal/script/lua/rwmutex_read_force.lua", "if not lock(KEYS[1], FEW) then return foreign(KEYS[1]) end\n", "",
		"internal/script", "TestReadWrite$",
	},
	{
		"a cancelled writer does not wake readers",
		"internal/script/lua/lib/writers.lua", "return first(writers, now) == 0", "return false",
		"internal/script", "TestReadWrite$",
	},
	{
		"dead writers with priority count when another writer is cancelled",
		"internal/script/lua/lib/writers.lua", "return first(writers, now) == 0", "return redis.call('zcard', writers) + dead == 0",
		"internal/script", "TestReadWrite$",
	},
	{
		"a fenced mutex issues a token twice above 2^53",
		"internal/script/lua/lib/counter.lua", " or tonumber(stored) > (bound or math.huge) then", " then",
		"internal/script", "TestFenced$",
	},
	{
		"an infinite limit spreads to the waiters behind it",
		"internal/script/lua/lib/fair.lua", "return till > -1e19 and till < 1e19 and till or 0,", "return till,",
		"internal/script", "TestFairAbsurdTimes",
	},
	{
		"a heartbeat from the future counts",
		"internal/script/lua/lib/fair.lua", "and till <= now + most and till or nil", "and till or nil",
		"internal/script", "TestFairAbsurdTimes",
	},
	{
		"a queue full of dead waiters grants the lock to any caller",
		"internal/script/lua/lib/fair.lua", "if #dead == DROPS or #dead > 0 and bytes > BYTES then till = now + 1 end", "if #dead == DROPS then owner = false end",
		"internal/script", "TestFairManyDead",
	},
	{
		"a queue expires although a Redisson thread waits in it",
		"internal/script/lua/lib/fair.lua", "if not ours then redis.call('persist', KEYS[i]) elseif raise then", "if raise then",
		"internal/script", "TestFair$",
	},
	{
		"the queue of killed waiters never expires",
		"internal/script/lua/lib/fair.lua", " elseif raise then redis.call('pexpire', KEYS[i], LEFT) end", " end",
		"internal/script", "TestFair$",
	},
	{
		"a lock with a very long lease is reported as held without end",
		"internal/script/lock.go", "time.Duration(min(max(ms, -most), most))", "time.Duration(ms+0*most)",
		"internal/script", "TestHeldForEver",
	},
}
