package mutants

func init() { All = append(All, inspection...) }

// inspection are the mutants of looking at locks and breaking them.
var inspection = []Mutant{
	{
		"whoever holds a lock loses it when one that was seen is broken",
		"internal/script/lua/inspect_break.lua", "if not seen[field] then return 0 end", "",
		"inspect", "TestBreakSparesNewerHold",
	},
	{
		"a reader that has come since is not noticed",
		"internal/script/lua/inspect_break.lua", "if not seen[field] then return 0 end", "if not seen[field] and mode ~= 'read' then return 0 end",
		"internal/script", "TestInspect",
	},
	{
		"nobody is told that a lock was broken",
		"internal/script/lua/inspect_break.lua", "if #KEYS > 1 then pcall(tell) end", "",
		"inspect", "TestBreakWakes",
	},
	{
		"a hash with one field like an owner's is taken for a lock",
		"internal/script/lua/lib/inspect.lua", "if not n then return nil end\n      owners[#owners + 1], counts[#counts + 1] = field, n", "if n then owners[#owners + 1], counts[#counts + 1] = field, n end",
		"internal/script", "TestDecoys",
	},
	{
		"a dead reader is listed",
		"internal/script/lua/inspect_look.lua", "if own ~= -2 then hold", "if own ~= -3 then hold",
		"internal/script", "TestInspect",
	},
	{
		"of several masters only the first is asked",
		"internal/script/inspect.go", "if d.Place(one).Slot == d.Place(another).Slot {", "if d.Place(one).Slot != -1 {",
		"inspect", "TestHalfMoved",
	},
	{
		"a list goes on with the cursor of another server",
		"inspect/locks.go", "now.Node != place.Node || now.Term != place.Term", "now.Node != place.Node",
		"inspect", "TestServerReplaced",
	},
}
