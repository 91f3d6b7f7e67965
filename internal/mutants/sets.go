package mutants

func init() { All = append(All, sets...) }

var sets = []Mutant{
	{
		"a set takes what is free before it has looked at the rest",
		"internal/script/lua/group_acquire.lua", "    if READS[command] then return redis[name](command, ...) end\n", "    if true then return redis[name](command, ...) end\n",
		"internal/script", "TestGroupRefusedWritesNothing",
	},
	{
		"a writer of a set does not say that it waits",
		"internal/script/lua/group_acquire.lua", "      for _, w in ipairs(writes) do redis.call(unpack(w)) end\n", "",
		"internal/script", "TestGroup$",
	},
	{
		"the parts of a set that fails halfway are announced as free",
		"internal/script/lua/group_acquire.lua", "if command == 'PUBLISH' then return 0 end", "",
		"internal/script", "TestGroupFailsHalfway",
	},
	{
		"freeing a set publishes as on one server",
		"internal/script/lua/group_release.lua", "command = ARGV[1]", "command = 'PUBLISH'",
		"internal/script", "TestGroupPublishesAsTold",
	},
	{
		"no driver can say how to publish when a set is freed",
		"internal/script/script.go", "		s.Publish, _ = strconv.Atoi(m[1])\n", "		s.Publish, _ = strconv.Atoi(m[1])\n		if name == \"group_release\" {\n			s.Publish = 0\n		}\n",
		"internal/script", "TestGroupPublishesAsTold",
	},
}
