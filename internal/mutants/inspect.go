package mutants

func init() { All = append(All, inspection...) }

// inspection holds the mutants of inspecting and breaking locks.
var inspection = []Mutant{
	{
		"breaking a lock frees it although another owner holds it",
		"internal/script/lua/inspect_break.lua", "if not seen[field] then return 0 end", "",
		"inspect", "TestBreakSparesNewerHold",
	},
	{
		"breaking a lock ignores a new reader",
		"internal/script/lua/inspect_break.lua", "if not seen[field] then return 0 end", "if not seen[field] and mode ~= 'read' then return 0 end",
		"internal/script", "TestInspect",
	},
	{
		"breaking a lock publishes no message",
		"internal/script/lua/inspect_break.lua", "if #KEYS > 1 then pcall(tell) end", "",
		"inspect", "TestBreakWakes",
	},
	{
		"a hash with one field like an owner counts as a lock",
		"internal/script/lua/lib/inspect.lua", "owners[#owners + 1], counts[#counts + 1] = field, n\n    return n", "if n then owners[#owners + 1], counts[#counts + 1] = field, n end\n    return true",
		"internal/script", "TestDecoys",
	},
	{
		"a dead reader is listed",
		"internal/script/lua/inspect_look.lua", "if own ~= -2 then hold", "if own ~= -3 then hold",
		"internal/script", "TestInspect",
	},
	{
		"waiters in the queue of a mutex are not shown",
		"internal/script/inspect.go", "permits.leases, queueKey(name)),", "permits.leases),",
		"inspect", "TestQueue",
	},
	{
		"the kind of a waiter is shown as a part of its owner",
		"internal/script/lua/inspect_look.lua", "wait(wants and owner or entry[1],", "wait(entry[1],",
		"internal/script", "TestInspect",
	},
	{
		"clients that wait for permits are shown as invalid entries",
		"internal/script/lua/inspect_look.lua", "(:?%a*)(%d*)$", "(:?%a*)()$",
		"internal/script", "TestInspect",
	},
	{
		"a number of permits from the server is not bounded",
		"internal/script/lua/inspect_look.lua", "if n > 0 and n < PERMITS then", "if n > 0 then",
		"inspect", "TestHostileQueue",
	},
	{
		"a semaphore without taken permits is not shown, although clients wait",
		"internal/script/lua/inspect_look.lua", "(is(KEYS[5], 'zset') or is(KEYS[5], 'none'))", "is(KEYS[5], 'zset')",
		"internal/script", "TestInspect",
	},
	{
		"any number with a queue counts as a semaphore",
		"internal/script/lua/inspect_look.lua", "if number and not permits then return { '' } end\n", "",
		"internal/script", "TestDecoys",
	},
	{
		"the queue of a semaphore is listed under two names",
		"inspect/locks.go", "case len(lock.Holders) == 0 && !l.last:", "case false:",
		"inspect", "TestQueueOfPermitsAndTwin",
	},
	{
		"values of data that is not a lock are read",
		"internal/script/lua/lib/inspect.lua", "local fields = peek(key)", "local fields = {}",
		"inspect", "TestValuesAreNotRead",
	},
	{
		"a deadlock has any number of calls",
		"internal/script/wait.go", "for d.More() && len(*l) < maxWaits {", "for d.More() {",
		"inspect", "TestFloods/many_waits",
	},
	{
		"calls without an id are part of a deadlock",
		"internal/script/wait.go", `return w.ID == "" })`, `return false })`,
		"internal/script", "TestDecodeDeadlock",
	},
	{
		"names of any length are listed",
		"inspect/locks.go", "len(n) <= script.MaxListed && !l.seen[n]", "!l.seen[n]",
		"inspect", "TestFloods/long_names",
	},
	{
		"ids of clients and deadlocks have any length",
		"internal/script/client.go", `ClientOf(id+":1") == id && id != ""`, `id != ""`,
		"inspect", "TestFloods/long_ids",
	},
	{
		"a list has any size",
		"inspect/locks.go", "l.room = max(min(cmp.Or(q.Limit, 1_000), maxRoom/itemRoom)*itemRoom, minRoom)", "l.room = 1 << 40",
		"inspect", "TestFloods/long_leaders",
	},
	{
		"entries of a queue are listed in full",
		"internal/script/lua/inspect_look.lua", "string.sub(owner, 1, OWNER)", "owner",
		"inspect", "TestFloods/long_owners",
	},
	{
		"a long queue is read as a whole",
		"internal/script/lua/inspect_look.lua", "for i = 0, math.min(size, most) - 1 do", "for i = 0, size - 1 do",
		"inspect", "TestHostileQueue",
	},
	{
		"long entries of a queue are read without a limit",
		"internal/script/lua/inspect_look.lua", "if not spend(#owner) then return false end\n", "",
		"inspect", "TestHostileQueue",
	},
	{
		"without the right to the queue nothing is shown",
		"internal/script/inspect.go", "case n > 1 && r == KeyRefused:", "case n > 100 && r == KeyRefused:",
		"inspect", "TestQueueWithoutRights",
	},
	{
		"a free lock that clients wait for is not listed",
		"inspect/locks.go", "len(lock.Holders) == 0 && len(lock.Queue) == 0 && lock.More == 0", "len(lock.Holders) == 0 && lock.More == 0",
		"inspect", "TestQueueOfFreeLock",
	},
	{
		"a queue is listed under two names",
		"inspect/locks.go", "case len(lock.Holders) == 0 && l.listed[script.Twin(lock.Name)]:", "case false:",
		"inspect", "TestQueueOfFreeLock",
	},
	{
		"only the first of several masters is scanned",
		"internal/script/inspect.go", "if d.Place(one).Slot == d.Place(another).Slot {", "if d.Place(one).Slot != -1 {",
		"inspect", "TestHalfMoved",
	},
	{
		"a scan continues with the cursor of another server",
		"inspect/locks.go", "now.Node != place.Node || now.Term != place.Term", "now.Node != place.Node",
		"inspect", "TestServerReplaced",
	},
}
