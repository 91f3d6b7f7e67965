package mutants

func init() { All = append(All, plainLocks...) }

// plainLocks holds the mutants of locks that clients of other libraries hold as strings.
var plainLocks = []Mutant{
	{
		"a lock of another library is refused",
		"internal/engine/claim.go", "if held.TTL > 0 {", "if false {",
		"test/behaviour", "TestPlainLock/^mutex$",
	},
	{
		"data of another type in another key looks like a lock of another library",
		"internal/engine/claim.go", "if held.TTL > 0 {", "if true {",
		"test/behaviour", "TestPlainToken",
	},
	{
		"a lock that other libraries take and release in between is refused",
		"internal/engine/limits.go", "plainTries     = 10", "plainTries     = 2",
		"bench", "TestMigration$",
	},
	{
		"a call waits for a message from another library",
		"internal/engine/answer.go", "if live && !l.plain {", "if live {",
		"test/behaviour", "TestPlainLock/^mutex$",
	},
	{
		"data without a TTL is a lock of another library",
		"internal/script/lua/plain_look.lua", "return kind == 'string' and ttl >= 0 and -1 - ttl", "return kind == 'string' and -1 - math.max(ttl, 1000)",
		"internal/script", "TestPlain",
	},
	{
		"the keys of Holdfast are listed as locks of other libraries",
		"internal/script/plain.go", "if CheckName(key) != nil {", "if false {",
		"inspect", "TestPlainLocks",
	},
}
