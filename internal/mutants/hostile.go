package mutants

func init() { All = append(All, hostile...) }

// hostile holds the mutants of scripts that find data of other programs, and of
// keys that requests and locks leave on the server.
var hostile = []Mutant{
	{
		"a release of permits removes any number of entries of others",
		"internal/script/lua/lib/share.lua", " or read > 2 * READ then", " then",
		"internal/script", "TestEntriesOfOtherKinds",
	},
	{
		"a refusal counts as a grant of permits",
		"internal/script/lua/lib/permits.lua", "-1 - math.max(math.ceil(next - now), 0)", "now - next - 1",
		"internal/script", "TestRefusalIsNeverPositive",
	},
	{
		"permits are taken from a sorted set of another program",
		"internal/script/lua/lib/leased.lua", "if #id ~= 16 and not", "if false and not",
		"internal/script", "TestHostileData/^leased_acquire",
	},
	{
		"a latch opens on a count that cannot be read",
		"internal/script/lua/number.lua", "return exact(number(KEYS[1]) or '0')", "return tonumber(redis.call('get', KEYS[1]) or 0) or 0",
		"internal/script", "TestHostileData/^number",
	},
	{
		"a rate that cannot be read is used",
		"internal/script/lua/lib/ratelimiter.lua", "if l.broken and not replace then", "if false then",
		"internal/script", "TestHostileData/^ratelimiter_take",
	},
	{
		"entries that are over are added up at every inspection",
		"internal/script/lua/lib/ratelimiter.lua", "if not look or over > 0 then", "if not look then",
		"internal/script", "TestLimiter$",
	},
	{
		"a script reads all entries of a log",
		"internal/script/lua/lib/ratelimiter.lua", "math.min(over, MOST), nil, 0", "over, nil, 0",
		"internal/script", "TestLongLogIsBounded",
	},
	{
		"elements of any size are read",
		"internal/script/lua/lib/inspect.lua", "return bytes >= 0", "return true",
		"internal/script", "TestLargeData",
	},
	{
		"the mark of a request that was sent twice is deleted",
		"internal/engine/once.go", "if sent > 1 {", "if sent > 1 && false {",
		"test/faults", "TestMarkOfDoubtStays",
	},
	{
		"the marks of earlier objects are not deleted",
		"internal/numbered/numbered.go", "		s.spent[r.sequence] = spent\n", "",
		"test/faults", "TestMarksAreReclaimed",
	},
	{
		"the mark of a request of unknown fate is deleted",
		"internal/engine/claim.go", "	case c.remains.Open:\n		spent = \"\"\n", "",
		"test/faults", "TestMarkOfDoubtfulGrantStays",
	},
	{
		"a retired lock keeps its counter",
		"object/object.go", "if err != nil || o.free == nil || !o.wire.Keeps() {", "if true {",
		"test/behaviour", "TestRetire$",
	},
	{
		"the counter of a lock that is held is deleted",
		"internal/script/lua/object_delete.lua", "if ARGV[8] == '1' and redis.call('exists', KEYS[2 + #types]) == 1 then return answer(-1) end", "",
		"internal/script", "TestSentAgain/object_forget",
	},
	{
		"a wait for a semaphore that does not exist is silent",
		"internal/engine/acquisition.go", "case v.Missing != \"\" && a.last.missing.pass(missingEvery):", "case false:",
		"test/behaviour", "TestWaitForMissingSemaphore$",
	},
}
