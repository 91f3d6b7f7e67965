package mutants

func init() { All = append(All, values...) }

// values holds the mutants of numbers, values and ids.
var values = []Mutant{
	{
		"a value replaces a lock",
		"internal/script/lua/bucket_set.lua", "redis.call('strlen', KEYS[1])", "",
		"test/behaviour", "TestValuesLeaveLocksAlone",
	},
	{
		"an addition with a lost reply counts twice",
		"internal/script/lua/atomiclong_add.lua", "if known then return told(KEYS[2], known) end", "",
		"test/faults", "TestValueReplyLost",
	},
	{
		"the sum is a double",
		"internal/script/lua/atomiclong_add.lua", "redis.call('get', KEYS[1])", "string.format('%.0f', redis.call('incrby', KEYS[1], 0))",
		"test/behaviour", "TestAtomicLong$",
	},
	{
		"the old value is not stored for a repeated request",
		"internal/script/lua/bucket_swap.lua", "if old then redis.call('set', KEYS[3], old, 'px', ARGV[1]) end", "",
		"test/faults", "TestValueReplyLost",
	},
	{
		"a value that does not decode shows",
		"object/codec.go", ": expected type %v\", text, mismatch.Type)", ": %v\", text, mismatch)",
		"test/behaviour", "TestCodecErrors",
	},
	{
		"one more id is used than was reserved",
		"internal/ids/ids.go", "n <= b.Size", "n <= b.Size+1",
		"test/behaviour", "TestIDsAcrossProcesses",
	},
	{
		"a generator restarts with its server",
		"internal/script/lua/idgenerator_next.lua", "and less(first, ARGV[1]) then", "and false then",
		"test/faults", "TestIDsOfSurvivor",
	},
	{
		"a caller that waits for ids gets the context error of another caller",
		"internal/ids/ids.go", "ctx.Err() == nil && errors.Is", "errors.Is",
		"test/behaviour", "TestIDFetchIsShared",
	},
	{
		"callers that wait for ids try a dead server one after the other",
		"internal/ids/ids.go", "s.failed = err\n", "",
		"test/faults", "TestIDFetchFails",
	},
	{
		"a lost series of time ids restarts in the present second",
		"internal/script/lua/timeid_next.lua", "now + 1, tonumber", "now, tonumber",
		"internal/script", "TestTimeIDClock",
	},
	{
		"a lost series of time ids restarts at the microsecond",
		"internal/script/lua/timeid_next.lua", "tonumber(clock[2]) * 1000", "tonumber(clock[2])",
		"test/faults", "TestTimeIDsForgotten",
	},
	{
		"time ids follow a clock that is set back",
		"internal/script/lua/timeid_next.lua", "if now > sec then", "if now ~= sec then",
		"test/behaviour", "TestTimeID$",
	},
	{
		"an update overwrites the change of another process",
		"object/bucket_update.go", "		if done {\n", "		if done || true {\n",
		"test/behaviour", "TestBucketUpdate",
	},
	{
		"an update compares with what the codec writes",
		"object/bucket_update.go", "return b.wire.CompareSet(request, stored, value)", "was, _ := b.encode(op, 0, old)\n				return b.wire.CompareSet(request, was, value)",
		"test/behaviour", "TestBucketUpdate",
	},
	{
		"a zero value of package object is used",
		"object/named.go", "if o.object == nil {", "if false {",
		"test/behaviour", "TestNilAndZero",
	},
	{
		"a bucket without a codec is used",
		"access.go", "	o.set.fail(wrong)\n", "	_ = wrong\n",
		"test/behaviour", "TestNilAndZero",
	},
	{
		"the reset of a latch overwrites other data",
		"internal/script/lua/latch_set.lua", "  number(KEYS[1]) -- fails on other data\n", "",
		"test/behaviour", "TestLatchReset",
	},
	{
		"a change by a comparison is not told to those who watch",
		"internal/script/lua/bucket_compare.lua", "tell(ARGV[5], ARGV[4], '')\n", "",
		"test/behaviour", "TestWatch$",
	},
	{
		"those who watch a value are told again of the same value",
		"internal/script/bucket.go", "if value == c.Seen && ok == c.Exists && !c.Any {", "if false {",
		"test/behaviour", "TestWatchOthers",
	},
}
