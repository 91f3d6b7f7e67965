package mutants

func init() { All = append(append(All, sharedReads...), combined...) }

// sharedReads are bugs of readers that share a hold, and of the pauses of readers.
var sharedReads = []Mutant{
	{
		"readers are admitted all the time",
		"internal/script/lua/lib/pause.lua", "local PERIOD, PAUSE = 100, 25", "local PERIOD, PAUSE = 100, 0",
		"internal/script", "TestPauseOfReaders",
	},
	{
		"no reader is admitted while a writer waits",
		"internal/script/lua/lib/pause.lua", "if ms <= 0 then return 0 end", "ms = math.max(ms, 1)",
		"internal/script", "TestPauseOfReaders",
	},
	{
		"readers pause without a writer",
		"internal/script/lua/lib/pause.lua", "  return 0\nend", "  return ms\nend",
		"internal/script", "TestPauseOfReaders",
	},
	{
		"readers do not pause for a writer of Redisson",
		"internal/script/lua/lib/pause.lua", "if foreign and foreign > 0 then return ms end", "",
		"internal/script", "TestPauseOfReaders",
	},
	{
		"a reader that does not wait is refused while a writer waits",
		"internal/script/lua/rwmutex_read_acquire.lua", "if mode == 'read' and ARGV[3] == '1' then", "if mode == 'read' then",
		"internal/script", "TestPauseOfReaders",
	},
	{
		"a reader joins a hold that is being released",
		"internal/engine/share.go", "if h.users.ended || h.life.lost != 0", "if h.life.lost != 0",
		"internal/engine", "TestJoinAtTheEnd",
	},
	{
		"the first of several readers releases the hold that they share",
		"internal/engine/share.go", "	h.users.joined++\n", "",
		"test/behaviour", "TestReadersShare$",
	},
	{
		"readers join a hold however old it is",
		"internal/engine/share.go", "now-h.origin.at > o.shareTime()", "now-h.origin.at > 1000*o.shareTime()",
		"test/behaviour", "TestReadsThatAreNotShared",
	},
	{
		"readers share a hold that is renewed for another time",
		"internal/engine/share.go", "h.Lease != lease ||", "",
		"test/behaviour", "TestReadsThatAreNotShared",
	},
	{
		"readers that must let a writer go first share a hold",
		"internal/script/rwmutex.go", "Shared: !l.WriterFirst", "Shared: true",
		"test/behaviour", "TestWriterFirstIsNotShared",
	},
	{
		"a reader that has joined is not told of a loss",
		"internal/engine/share.go", "	h.users.more = append(h.users.more, user)\n", "	_ = user\n",
		"test/behaviour", "TestSharedReadIsLost",
	},
	{
		"a reader that joins keeps what its own request may have got",
		"internal/engine/acquisition.go", "if a.sharing.joined != nil {", "if false {",
		"test/behaviour", "TestSharedReadAfterLostReply",
	},
	{
		"a client remembers every name that it has read",
		"internal/engine/share.go", "return s.hold == nil && !s.asking", "return false",
		"internal/engine", "TestSharesForgotten",
	},
	{
		"a client remembers every name that it has locked",
		"internal/engine/gate.go", "return g.refs == 0 && g.share.unused()", "return false",
		"internal/engine", "TestGatesForgotten",
	},
	{
		"a client forgets for which hold readers wait",
		"internal/engine/share.go", "return s.hold == nil && !s.asking", "return s.hold == nil",
		"internal/engine", "TestSharesForgotten",
	},
}

// combined are bugs of requests that travel together.
var combined = []Mutant{
	{
		"a call that fails in a batch is not sent again",
		"internal/combine/combine.go", "	if alone {\n", "	if false && alone {\n",
		"internal/combine", "TestRefusedBatchIsSplit",
	},
	{
		"a call is sent after its context has ended",
		"internal/combine/combine.go", "return !e.state.CompareAndSwap(queued, copying)", "e.state.Store(copying); return false",
		"internal/combine", "TestEachCallHasItsOwnContext",
	},
	{
		"calls are sent alone while batches are under way",
		"internal/combine/combine.go", "if d.batched.Load() == 0 && d.waiting", "if d.waiting",
		"internal/combine", "TestCallsJoinTheNextBatch",
	},
	{
		"many small batches are under way",
		"internal/combine/combine.go", "		return maxPartial\n", "		return maxFull\n",
		"internal/combine", "TestManyCallsShareRequests",
	},
	{
		"a full batch waits for an answer",
		"internal/combine/combine.go", "	return maxFull\n}", "	return maxPartial\n}",
		"internal/combine", "TestManyCallsShareRequests",
	},
	{
		"calls with different numbers of arguments are in one batch",
		"internal/combine/combine.go", " && script.Alike(q.calls[0].Call, q.calls[n].Call)", "",
		"internal/combine", "TestCallsOfAnotherLength",
	},
	{
		"the queue waits for a dead server",
		"internal/combine/combine.go", "if d.answers.Load() == last {", "if d.answers.Load() < last {",
		"internal/combine", "TestStall",
	},
	{
		"a batch grants a mutex twice",
		"internal/script/lua/batch/mutex_acquire.lua", "if seen[key] then return end", "if false then return end",
		"internal/script", "TestBatch$",
	},
	{
		"a batch takes mutexes that are held",
		"internal/script/lua/batch/mutex_acquire.lua", "redis.call('exists', unpack(KEYS)) ~= 0", "false",
		"internal/script", "TestBatch$",
	},
	{
		"a batch releases mutexes without their queue",
		"internal/script/lua/batch/mutex_grant.lua", "if redis.call('exists', unpack(queues)) ~= 0 then return end", "",
		"internal/script", "TestBatch$",
	},
	{
		"a batch releases mutexes of others",
		"internal/script/lua/batch/mutex_grant.lua", "if redis.call('hexists', locks[i], owner) == 0 then return end", "",
		"internal/script", "TestBatch$",
	},
	{
		"a failed call prevents the rest of its batch",
		"internal/script/lua/batch.lua", "local ok, reply = pcall(call, keys, args)", "local ok, reply = true, call(keys, args)",
		"internal/script", "TestBatch$",
	},
}
