package mutants

func init() { All = append(All, objects...) }

// objects holds the mutants of the operations on named objects of any kind.
var objects = []Mutant{
	{
		"an object is deleted although its key belongs to another program",
		"internal/script/lua/lib/object.lua", "if redis.call(PROBE[t], key) > 0 and t == 'hash' then", "if t == 'hash' then",
		"test/behaviour", "TestObjectDelete",
	},
	{
		"a renamed object keeps parts of the object that it replaces",
		"internal/script/lua/object_rename.lua", "    redis.call('del', new) -- no key of the old target may stay", "",
		"internal/script", "TestObject",
	},
	{
		"a part of a damaged dump is restored",
		"internal/script/lua/object_restore.lua", "return failed or answer(1)", "return answer(1)",
		"internal/script", "TestObject",
	},
	{
		"the end of an object is reported twice",
		"internal/listen/listen.go", "		w.confirming = true\n", "		return w.report(ctx, Gone)\n",
		"test/behaviour", "TestListenLooks",
	},
	{
		"a listener that missed messages does not check the object",
		"internal/wait/tap.go", "		t.missed = true", "",
		"test/behaviour", "TestListenSlowly",
	},
	{
		"a lock can be given an expiry",
		"object/object.go", "	if o.free != nil {\n		return o.inner().Fail(op, fmt.Errorf(", "	if o.free == nil && op == \"\" {\n		return o.inner().Fail(op, fmt.Errorf(",
		"test/behaviour", "TestObjectOfLock",
	},
	{
		"the deletion of a lock takes it from its holder unnoticed",
		"state.go", "	o.Free = m.ForceUnlock\n", "",
		"test/behaviour", "TestObjectDeleteLock",
	},
	{
		"the deletion of a read/write lock leaves its readers",
		"rwmutex.go", "read, err := m.read.ForceUnlock(ctx)", "read, err := false, error(nil)",
		"test/behaviour", "TestObjectDeleteReaders",
	},
}
