package mutants

func init() { All = append(All, discovery...) }

// discovery are the mutants of how a driver finds out which server is the
// master.
var discovery = []Mutant{
	{
		"two masters: the one that was used last is used on",
		"driver/rueidis/route.go", "			d.doubt(c, found)\n", "			_ = c\n",
		"driver/rueidis", "TestTwoMasters$",
	},
	{
		"two masters: the first is used",
		"driver/rueidis/replicated.go", "	case len(masters) > 1:\n", "	case len(masters) > 2:\n",
		"driver/rueidis", "TestTwoMasters$",
	},
	{
		"two masters: watchers are not told that no server is used",
		"driver/rueidis/route.go", "		d.use(&table{why: c}, found)\n", "		d.table.Store(&table{why: c})\n",
		"driver/rueidis", "TestTwoMasters$",
	},
	{
		"two masters: the one that answers late is overlooked",
		"driver/rueidis/replicated.go", "return l.master }, grace)", "return l.master }, min(grace, briefly))",
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
		"driver/rueidis", "TestCouncil",
	},
	{
		"a sentinel deployed anew is believed alone",
		"driver/rueidis/sentinelview.go", "size := max(len(group), len(c.members))", "size := len(group)",
		"driver/rueidis", "TestCouncil",
	},
	{
		"sentinels that have missed a failover are believed",
		"driver/rueidis/sentinelview.go", "		return v, errPast\n", "		_ = errPast\n",
		"driver/rueidis", "TestCouncil",
	},
	{
		"a group of sentinels deployed anew is not believed",
		"driver/rueidis/sentinelview.go", "(!v.whole || c.remembers(answers, group))", "(true || c.remembers(answers, group))",
		"driver/rueidis", "TestSentinelsDeployedAnew",
	},
	{
		"an old sentinel that was forgotten outweighs the new group",
		"driver/rueidis/sentinelview.go", "		answers = present //", "		_ = present //",
		"driver/rueidis", "TestCouncil",
	},
	{
		"a failover is forgotten when the sentinel that led it is silent",
		"driver/rueidis/sentinelview.go", "silent[id] = group[id]", "silent[id] = false",
		"driver/rueidis", "TestCouncil",
	},
	{
		"of two groups of sentinels the first is believed",
		"driver/rueidis/sentinelview.go", "a.epoch == best.epoch && a.addr != best.addr", "a.epoch != best.epoch && a.addr != best.addr",
		"driver/rueidis", "TestTwoGroupsOfSentinels",
	},
	{
		"a sentinel counts once for each of its addresses",
		"driver/rueidis/sentinelview.go", "	answers = identify(answers)\n", "	answers = append([]testimony(nil), answers...)\n	for i := range answers {\n		answers[i].id = answers[i].from\n	}\n",
		"driver/rueidis", "TestCouncil",
	},
	{
		"a caller that gives up takes the connection of others with it",
		"driver/rueidis/node.go", "		done := n.bound(context.WithoutCancel(ctx)) // who gives up", "		done := n.bound(ctx) // who gives up",
		"driver/rueidis", "TestDialOutlivesCaller",
	},
	{
		"the errors of contexts inside the driver reach its callers",
		"driver/rueidis/driver.go", "	return driver.ForCaller(ctx, err)\n}", "	return err\n}",
		"driver/rueidis", "TestOutward",
	},
	{
		"the error of any context passes for that of the caller",
		"driver/errors.go", "|| isDone(ctx) {", "|| true {",
		"driver", "TestForCaller",
	},
	{
		"a call without a deadline waits for a connection as long as that takes",
		"driver/rueidis/link.go", "func (n *node) mayBlock() bool {\n", "func (n *node) mayBlock() bool {\n	if n.c.Timeout < n.c.DialTimeout {\n		return false\n	}\n",
		"driver/rueidis", "TestCallIsBounded",
	},
	{
		"the new master of a failover has the epoch of the old one",
		"driver/rueidis/sentinel.go", "		_, epoch, err = s.described(ctx, w)\n", "		_, _, err = s.described(ctx, w)\n",
		"driver/rueidis", "TestFailoverGoingOn",
	},
	{
		"of two masters that claim one slot, any is believed",
		"driver/rueidis/cluster.go", "v.epoch-w.epoch, v.own-w.own)", "v.epoch-w.epoch)",
		"driver/rueidis", "TestBestView",
	},
}
