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
		"internal/script/lua/lib/inspect.lua", "if not n then return nil end\n      owners[#owners + 1], counts[#counts + 1] = field, n", "if n then owners[#owners + 1], counts[#counts + 1] = field, n end",
		"internal/script", "TestDecoys",
	},
	{
		"a dead reader is listed",
		"internal/script/lua/inspect_look.lua", "if own ~= -2 then hold", "if own ~= -3 then hold",
		"internal/script", "TestInspect",
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
