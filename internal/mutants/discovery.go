package mutants

func init() { All = append(All, discovery...) }

// discovery are the mutants of how a driver finds out which server is the
// master.
var discovery = []Mutant{
	{
		"two masters: the one that was used last is used on",
		"driver/rueidis/route.go", "			d.clearTable(c, found)\n", "			_ = c\n",
		"driver/rueidis", "TestTwoMasters$",
	},
	{
		"two masters: the first is used",
		"driver/rueidis/replicated.go", "	case len(masters) > 1:\n", "	case len(masters) > 2:\n",
		"driver/rueidis", "TestTwoMasters$",
	},
	{
		"two masters: watchers are not told that no server is used",
		"driver/rueidis/route.go", "		d.setTable(&table{conflict: c}, found)\n", "		d.table.Store(&table{conflict: c})\n",
		"driver/rueidis", "TestTwoMasters$",
	},
	{
		"two masters: the one that answers late is overlooked",
		"driver/rueidis/replicated.go", "return l.master }, grace)", "return l.master }, min(grace, shortGrace))",
		"driver/rueidis", "TestTwoMasters$",
	},
	{
		"servers that do not answer empty the table",
		"driver/rueidis/route.go", "		if c := (*conflict)(nil); errors.As(err, &c) {\n", "		if c := (&conflict{err.Error()}); c != nil {\n",
		"driver/rueidis", "TestAbsentWitnesses",
	},
	{
		"a sentinel that is gone counts for ever",
		"driver/rueidis/sentinelview.go", "		c.members = group\n", "		for id := range c.members {\n			group[id] = true\n		}\n		c.members = group\n",
		"driver/rueidis", "TestSentinelView",
	},
	{
		"a sentinel deployed anew is believed alone",
		"driver/rueidis/sentinelview.go", "size := max(len(group), len(c.members))", "size := len(group)",
		"driver/rueidis", "TestSentinelView",
	},
	{
		"sentinels that have missed a failover are believed",
		"driver/rueidis/sentinelview.go", "		return v, errStale\n", "		_ = errStale\n",
		"driver/rueidis", "TestSentinelView",
	},
	{
		"a group of sentinels deployed anew is not believed",
		"driver/rueidis/sentinelview.go", "(!v.majority || c.mayKnowLatest(answers, group))", "(true || c.mayKnowLatest(answers, group))",
		"driver/rueidis", "TestSentinelsDeployedAnew",
	},
	{
		"an old sentinel that was forgotten outweighs the new group",
		"driver/rueidis/sentinelview.go", "		answers = present //", "		_ = present //",
		"driver/rueidis", "TestSentinelView",
	},
	{
		"a failover is forgotten when the sentinel that led it is silent",
		"driver/rueidis/sentinelview.go", "silent[id] = group[id]", "silent[id] = false",
		"driver/rueidis", "TestSentinelView",
	},
	{
		"of two groups of sentinels the first is believed",
		"driver/rueidis/sentinelview.go", "a.epoch == best.epoch && a.addr != best.addr", "a.epoch != best.epoch && a.addr != best.addr",
		"driver/rueidis", "TestTwoGroupsOfSentinels",
	},
	{
		"a sentinel counts once for each of its addresses",
		"driver/rueidis/sentinelview.go", "	answers = dedupe(answers)\n", "	answers = append([]sentinelReply(nil), answers...)\n	for i := range answers {\n		answers[i].id = answers[i].from\n	}\n",
		"driver/rueidis", "TestSentinelView",
	},
	{
		"a caller that gives up takes the connection of others with it",
		"driver/rueidis/node.go", "		done := n.newCallContext(context.WithoutCancel(ctx)) // a cancelled", "		done := n.newCallContext(ctx) // a cancelled",
		"driver/rueidis", "TestDialOutlivesCaller",
	},
	{
		"the errors of contexts inside the driver reach its callers",
		"driver/rueidis/driver.go", "	return driver.ForCaller(ctx, err)\n}", "	return err\n}",
		"driver/rueidis", "TestForCaller",
	},
	{
		"the error of any context passes for that of the caller",
		"driver/errors.go", "|| isDone(ctx) {", "|| true {",
		"driver", "TestForCaller",
	},
	{
		"a call without a deadline waits for a connection as long as that takes",
		"driver/rueidis/commandconn.go", "func (n *node) mayBlock() bool {\n", "func (n *node) mayBlock() bool {\n	if n.c.Timeout < n.c.DialTimeout {\n		return false\n	}\n",
		"driver/rueidis", "TestCallIsBounded",
	},
	{
		"the new master of a failover has the epoch of the old one",
		"driver/rueidis/sentinel.go", "		_, epoch, err = s.describeMaster(ctx, n)\n", "		_, _, err = s.describeMaster(ctx, n)\n",
		"driver/rueidis", "TestFailoverGoingOn",
	},
	{
		"of two masters that claim one slot, any is believed",
		"driver/rueidis/cluster.go", "v.epoch-w.epoch, v.own-w.own)", "v.epoch-w.epoch)",
		"driver/rueidis", "TestBestView",
	},
}
