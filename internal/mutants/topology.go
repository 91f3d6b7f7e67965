package mutants

func init() { All = append(All, topology...) }

// topology are the mutants of a driver that serves several servers, and of what
// locks promise when these move and fail.
var topology = []Mutant{
	{
		"ASK is followed without ASKING",
		"driver/rueidis/calls.go", "		if asking {\n			multi = append(multi, n.b().Asking().Build())\n		}\n		multi = append(multi, n.evalsha(call))", "		if asking {\n			multi = append(multi, n.b().Ping().Build())\n		}\n		multi = append(multi, n.evalsha(call))",
		"driver/rueidis", "TestSlotHalfMoved",
	},
	{
		"what replicas have to know follows ASK without ASKING",
		"driver/rueidis/calls.go", "			if asking {\n				multi = append(multi, n.b().Asking().Build())\n			}\n			multi = append(multi, eval(call))", "			if asking {\n				multi = append(multi, n.b().Ping().Build())\n			}\n			multi = append(multi, eval(call))",
		"driver/rueidis", "TestSlotHalfMoved",
	},
	{
		"a script that a node does not know is sent there without ASKING",
		"driver/rueidis/calls.go", "client.DoMulti(done, n.b().Asking().Build(), n.eval(call))[1]", "client.DoMulti(done, n.b().Ping().Build(), n.eval(call))[1]",
		"driver/rueidis", "TestSlotHalfMoved",
	},
	{
		"a slot on its way counts as moved",
		"driver/rueidis/route.go", "		if code == \"MOVED\" {\n", "		if code != \"\" {\n",
		"driver/rueidis", "TestSlotHalfMoved",
	},
	{
		"MOVED is not learned",
		"driver/rueidis/route.go", "	t.slots[slot] = n\n", "",
		"driver/rueidis", "TestStaleTable",
	},
	{
		"the end of a sharded subscription is ignored",
		"driver/rueidis/subscriber.go", "if wanted && had&^now == sharded {", "if moved {",
		"driver/rueidis", "TestMovedBeforeSubscribed",
	},
	{
		"channels do not move with their slots",
		"driver/rueidis/listener.go", "			case <-moved:\n				l.reassign()", "			case <-moved:",
		"driver/rueidis", "TestSlotMoves",
	},
	{
		"only one family of channels is listened to",
		"driver/rueidis/subscriber.go", "		return plain | sharded\n", "		return plain\n",
		"driver/rueidis", "TestTopologies/cluster$",
	},
	{
		"a keyspace channel is listened to where its name hashes to",
		"driver/slot.go", "			return key\n", "			return channel + key[:0]\n",
		"driver/rueidis", "TestTopologies/cluster$",
	},
	{
		"nobody hears that the servers have changed their parts",
		"driver/rueidis/route.go", "	d.closeUnused(t, found)\n	d.changed()\n", "	d.closeUnused(t, found)\n",
		"driver/rueidis", "TestFailover/cluster",
	},
	{
		"a master that was one before has its old term",
		"driver/rueidis/route.go", "			n.term.Store(d.nextTerm()) // it may", "			_ = n.term.Load() // it may",
		"driver/rueidis", "TestFailover/cluster",
	},
	{
		"a restarted server is taken for the same",
		"driver/rueidis/node.go", "	if renewed {\n", "	if renewed && false {\n",
		"driver/rueidis", "TestRestartIsATerm",
	},
	{
		"one silent node blinds the driver",
		"driver/rueidis/route.go", "enough = time.After(grace)", "enough = time.After(time.Hour)",
		"driver/rueidis", "TestSilentMaster",
	},
	{
		"listeners outlive their driver",
		"driver/rueidis/listener.go", "context.WithCancel(d.life)", "context.WithCancel(context.WithoutCancel(d.life))",
		"driver/rueidis", "TestCloseLeavesNothing",
	},
	{
		"leases are renewed together or not at all while their slot moves",
		"internal/watchdog/renew.go", " || driver.CodeOf(err) == \"TRYAGAIN\")", ")",
		"internal/matrix", "TestRow26SlotMigrates",
	},
	{
		"what too few replicas have is granted",
		"internal/engine/acquisition.go", "v.Granted() && acked < need", "false",
		"internal/matrix", "TestRow18ClusterUnreplicated",
	},
	{
		"the clocks of the servers are trusted",
		"internal/watchdog/watched.go", "d := sent + lease - margin(lease) - c.skew", "d := sent + lease - margin(lease)",
		"internal/matrix", "TestRow22ClusterClocks",
	},
}
