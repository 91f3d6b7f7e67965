package mutants

func init() { All = append(All, stored...) }

// stored are bugs in what scripts make of the data that they find.
var stored = []Mutant{
	{
		"a reader that seems to have entered very often counts as dead",
		"internal/script/lua/lib/rwmutex.lua", "if not count or count > steps then return life end", "if not count or count > steps then return 0 end",
		"internal/script", "TestReadWrite$",
	},
	{
		"the release of one of many readers cuts the time of those that it did not look at",
		"internal/script/lua/lib/rwmutex.lua", "  if missed or many and longest > 0 then return math.max(longest, life), longest > 0 end\n", "",
		"internal/script", "TestReleaseOneOfManyReaders",
	},
	{
		"the release of one of many readers looks at all of them",
		"internal/script/lua/lib/rwmutex.lua", "local FEW = 100 ", "local FEW = 100000 ",
		"internal/script", "TestReleaseOneOfManyReaders",
	},
	{
		"dead readers keep a writer out for as long as the hash lasts",
		"internal/script/lua/rwmutex_write_acquire.lua", "  if longest == 0 then\n", "  if false then\n",
		"internal/script", "TestWriterBehindManyDeadReaders",
	},
	{
		"dead readers are dropped from somebody's data",
		"internal/script/lua/lib/rwmutex.lua", "  if strange then return life, true end\n", "",
		"internal/script", "TestReadWrite$",
	},
	{
		"one unreadable count costs a batch its leases",
		"internal/script/lua/rwmutex_read_renew.lua", "if n > 10 and steps == 0 then break end", "if steps == 0 then break end",
		"internal/script", "TestReadersCountIsNotTrusted",
	},
	{
		"a reader makes a lock of somebody's data",
		"internal/script/lua/rwmutex_read_acquire.lua", "  if mode == 'read' and not joinable(KEYS[1], ttl) then return foreign(KEYS[1]) end\n", "",
		"internal/script", "TestReadWrite$",
	},
	{
		"to free a mutex by force deletes somebody's data",
		"internal/script/lua/mutex_force.lua", "if not lock(KEYS[1], 100) then return foreign(KEYS[1]) end\n", "",
		"internal/script", "TestMutex$",
	},
	{
		"to free a fair mutex by force deletes somebody's data",
		"internal/script/lua/fair_force.lua", "if not lock(KEYS[1], 100) then return foreign(KEYS[1]) end\n", "",
		"internal/script", "TestFair$",
	},
	{
		"to stop readers by force deletes somebody's data",
		"internal/script/lua/rwmutex_read_force.lua", "if not lock(KEYS[1], FEW) then return foreign(KEYS[1]) end\n", "",
		"internal/script", "TestReadWrite$",
	},
	{
		"a writer that gives up wakes no readers",
		"internal/script/lua/lib/writers.lua", "return first(writers, now) == 0", "return false",
		"internal/script", "TestReadWrite$",
	},
	{
		"dead writers that would go first count when one gives up",
		"internal/script/lua/lib/writers.lua", "return first(writers, now) == 0", "return redis.call('zcard', writers) + dead == 0",
		"internal/script", "TestReadWrite$",
	},
	{
		"a fenced mutex gives a token twice above 2^53",
		"internal/script/lua/fenced_acquire.lua", " or tonumber(count) > 2 ^ 53 - (held and 1 or 2) then", " then",
		"internal/script", "TestFenced$",
	},
	{
		"an infinite limit spreads to those behind it",
		"internal/script/lua/lib/fair.lua", "return till > -1e19 and till < 1e19 and till or 0,", "return till,",
		"internal/script", "TestFairAbsurdTimes",
	},
	{
		"a sign of life from the future counts",
		"internal/script/lua/lib/fair.lua", "and till <= now + most and till or nil", "and till or nil",
		"internal/script", "TestFairAbsurdTimes",
	},
	{
		"a queue full of the dead lets anybody in",
		"internal/script/lua/lib/fair.lua", "if #dead == DROPS or #dead > 0 and bytes > BYTES then till = now + 1 end", "if #dead == DROPS then owner = false end",
		"internal/script", "TestFairManyDead",
	},
	{
		"a queue ends although a Java thread waits in it",
		"internal/script/lua/lib/fair.lua", "if not ours then redis.call('persist', KEYS[i]) elseif raise then", "if raise then",
		"internal/script", "TestFair$",
	},
	{
		"killed waiters of a fair mutex leave their queue for ever",
		"internal/script/lua/lib/fair.lua", " elseif raise then redis.call('pexpire', KEYS[i], LEFT) end", " end",
		"internal/script", "TestFair$",
	},
	{
		"a lock that is held for very long seems to be held without end",
		"internal/script/lock.go", "time.Duration(min(max(ms, -most), most))", "time.Duration(ms+0*most)",
		"internal/script", "TestHeldForEver",
	},
}
