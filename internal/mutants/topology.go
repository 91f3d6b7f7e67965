package mutants

func init() { All = append(All, topology...) }

// topology holds the mutants of drivers for several servers, and of locks during
// slot migrations and failovers.
var topology = []Mutant{
	{
		"ASK is followed without ASKING",
		"driver/rueidis/calls.go", "		if asking {\n			multi = append(multi, n.b().Asking().Build())\n		}\n		multi = append(multi, n.evalsha(call))", "		if asking {\n			multi = append(multi, n.b().Ping().Build())\n		}\n		multi = append(multi, n.evalsha(call))",
		"driver/rueidis", "TestSlotHalfMoved",
	},
	{
		"a call with WAIT follows ASK without ASKING",
		"driver/rueidis/calls.go", "			if asking {\n				multi = append(multi, n.b().Asking().Build())\n			}\n			multi = append(multi, eval(call))", "			if asking {\n				multi = append(multi, n.b().Ping().Build())\n			}\n			multi = append(multi, eval(call))",
		"driver/rueidis", "TestSlotHalfMoved",
	},
	{
		"an unknown script is sent without ASKING",
		"driver/rueidis/calls.go", "client.DoMulti(done, n.b().Asking().Build(), n.eval(call))[1]", "client.DoMulti(done, n.b().Ping().Build(), n.eval(call))[1]",
		"driver/rueidis", "TestSlotHalfMoved",
	},
	{
		"a migrating slot counts as moved",
		"driver/rueidis/route.go", "		if code == \"MOVED\" {\n", "		if code != \"\" {\n",
		"driver/rueidis", "TestSlotHalfMoved",
	},
	{
		"MOVED does not change the table",
		"driver/rueidis/route.go", "	t.slots[slot] = n\n", "",
		"driver/rueidis", "TestStaleTable",
	},
	{
		"the end of a sharded subscription is ignored",
		"driver/rueidis/subscriber.go", "if wanted && ended == sharded {", "if moved {",
		"driver/rueidis", "TestMovedBeforeSubscribed",
	},
	{
		"a channel that is wanted again counts as moved",
		"driver/rueidis/subscriber.go", "ended := had &^ now &^ cs.ending", "ended := had &^ now",
		"driver/rueidis", "TestWantedAgainIsNotMoved",
	},
	{
		"channels do not move with their slots",
		"driver/rueidis/listener.go", "			case <-moved:\n				l.reassign()", "			case <-moved:",
		"driver/rueidis", "TestSlotMoves",
	},
	{
		"only one family of channels is subscribed",
		"driver/rueidis/subscriber.go", "		return plain | sharded\n", "		return plain\n",
		"driver/rueidis", "TestTopologies/cluster$",
	},
	{
		"a keyspace channel is subscribed on the node of its own slot",
		"driver/slot.go", "			return key\n", "			return channel + key[:0]\n",
		"driver/rueidis", "TestTopologies/cluster$",
	},
	{
		"watchers are not notified of a new master",
		"driver/rueidis/scan.go", "	d.closeUnused(t, found)\n	d.changed()\n", "	d.closeUnused(t, found)\n",
		"driver/rueidis", "TestFailover/cluster",
	},
	{
		"a returning master keeps its old term",
		"driver/rueidis/scan.go", "			n.term.Store(d.nextTerm()) // it may", "			_ = n.term.Load() // it may",
		"driver/rueidis", "TestFailover/cluster",
	},
	{
		"a restarted server keeps its term",
		"driver/rueidis/identity.go", "	if renewed {\n", "	if renewed && false {\n",
		"driver/rueidis", "TestRestartIsATerm",
	},
	{
		"one unreachable node blocks discovery",
		"driver/rueidis/scan.go", "enough = time.After(grace)", "enough = time.After(time.Hour)",
		"driver/rueidis", "TestSilentMaster",
	},
	{
		"listeners outlive their driver",
		"driver/rueidis/listener.go", "context.WithCancel(d.life)", "context.WithCancel(context.WithoutCancel(d.life))",
		"driver/rueidis", "TestCloseLeavesNothing",
	},
	{
		"one refused key fails the renewal of a batch while its slot moves",
		"internal/watchdog/renew.go", " || driver.CodeOf(err) == \"TRYAGAIN\")", ")",
		"test/topology", "TestSlotMigration",
	},
	{
		"a script that finds that a key has moved is refused",
		"driver/errors.go", "	case remote.MatchString(text):\n		e.Class, e.Code = Ambiguous, \"TRYAGAIN\"\n", "",
		"test/topology", "TestReleaseOfMovedHold",
	},
	{
		"a latch tells its waiters before it has stored the reply",
		"internal/script/lua/latch_countdown.lua", "  open = true\n", "  tell(ARGV[3], ARGV[4], '0')\n",
		"internal/script", "TestLatchTellsLast",
	},
	{
		"a deleted latch tells its waiters before the reply is stored",
		"internal/script/lua/object_delete.lua", "answer(1)\nif ARGV[7] ~= '' then tell(ARGV[5], ARGV[7], ARGV[6]) end\n", "if ARGV[7] ~= '' then tell(ARGV[5], ARGV[7], ARGV[6]) end\nanswer(1)\n",
		"internal/script", "TestLatchTellsLast",
	},
	{
		"what too few replicas have is granted",
		"internal/engine/replicate.go", "v.Granted() && acked < need", "false",
		"test/topology", "TestClusterUnreplicatedWrite",
	},
}
