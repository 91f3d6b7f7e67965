package mutants

func init() { All = append(All, discovery...) }

// discovery holds the mutants of how a driver finds the master.
var discovery = []Mutant{
	{
		"two masters: the last one stays in use",
		"driver/rueidis/scan.go", "			d.clearTable(c, found)\n", "			_ = c\n",
		"driver/rueidis", "TestTwoMasters$",
	},
	{
		"two masters: the first is used",
		"driver/rueidis/replicated.go", "	case len(masters) > 1:\n", "	case len(masters) > 2:\n",
		"driver/rueidis", "TestTwoMasters$",
	},
	{
		"two masters: watchers are not notified that no server is used",
		"driver/rueidis/scan.go", "		d.setTable(&table{conflict: c}, found)\n", "		d.table.Store(&table{conflict: c})\n",
		"driver/rueidis", "TestTwoMasters$",
	},
	{
		"two masters: a slow second master is ignored",
		"driver/rueidis/replicated.go", "return l.master }, grace)", "return l.master }, min(grace, shortGrace))",
		"driver/rueidis", "TestTwoMasters$",
	},
	{
		"servers that do not answer empty the table",
		"driver/rueidis/scan.go", "		if c := (*conflict)(nil); errors.As(err, &c) {\n", "		if c := (*conflict)(nil); errors.As(err, &c) || c == nil {\n			c = &conflict{err.Error()}\n",
		"driver/rueidis", "TestAbsentWitnesses",
	},
	{
		"a sentinel that has left the group still counts",
		"driver/rueidis/sentinelview.go", "		c.members = group\n", "		for id := range c.members {\n			group[id] = true\n		}\n		c.members = group\n",
		"driver/rueidis", "TestSentinelView",
	},
	{
		"a single redeployed sentinel is trusted",
		"driver/rueidis/sentinelview.go", "size := max(len(group), len(c.members))", "size := len(group)",
		"driver/rueidis", "TestSentinelView",
	},
	{
		"sentinels that have missed a failover are trusted",
		"driver/rueidis/sentinelview.go", "		return v, errStale\n", "		_ = errStale\n",
		"driver/rueidis", "TestSentinelView",
	},
	{
		"a redeployed group of sentinels is not trusted",
		"driver/rueidis/sentinelview.go", "(!v.majority || c.mayKnowLatest(answers, group))", "(true || c.mayKnowLatest(answers, group))",
		"driver/rueidis", "TestSentinelsDeployedAnew",
	},
	{
		"an old sentinel outweighs the new group",
		"driver/rueidis/sentinelview.go", "		answers = present //", "		_ = present //",
		"driver/rueidis", "TestSentinelView",
	},
	{
		"a failover is ignored when the sentinel that led it does not answer",
		"driver/rueidis/sentinelview.go", "silent[id] = group[id]", "silent[id] = false",
		"driver/rueidis", "TestSentinelView",
	},
	{
		"the first of two groups of sentinels is trusted",
		"driver/rueidis/sentinelview.go", "a.epoch == best.epoch && a.addr != best.addr", "a.epoch != best.epoch && a.addr != best.addr",
		"driver/rueidis", "TestTwoGroupsOfSentinels",
	},
	{
		"a sentinel counts once for each of its addresses",
		"driver/rueidis/sentinelview.go", "	answers = dedupe(answers)\n", "	answers = append([]sentinelReply(nil), answers...)\n	for i := range answers {\n		answers[i].id = answers[i].from\n	}\n",
		"driver/rueidis", "TestSentinelView",
	},
	{
		"a cancelled caller breaks the shared connection",
		"driver/rueidis/identity.go", "		done := n.newCallContext(context.WithoutCancel(ctx)) // a cancelled", "		done := n.newCallContext(ctx) // a cancelled",
		"driver/rueidis", "TestDialOutlivesCaller",
	},
	{
		"two calls that overlap end the fast path of a connection",
		"driver/rueidis/commandconn.go", "if c.waited.Add(1) > overlaps {", "if c.waited.Add(1) > 0 {",
		"driver/rueidis", "TestOverlap",
	},
	{
		"calls of many goroutines wait for each other",
		"driver/rueidis/commandconn.go", "if c.waited.Add(1) > overlaps {", "if c.waited.Add(1) < 0 {",
		"driver/rueidis", "TestFrequentOverlaps",
	},
	{
		"errors of the driver's own contexts reach its callers",
		"driver/rueidis/driver.go", "	return driver.ForCaller(ctx, err)\n}", "	return err\n}",
		"driver/rueidis", "TestForCaller",
	},
	{
		"any context error counts as that of the caller",
		"driver/errors.go", "|| isDone(ctx) {", "|| true {",
		"driver", "TestForCaller",
	},
	{
		"a call without a deadline waits for a connection without a limit",
		"driver/rueidis/callcontext.go", "func (n *node) mayBlock() bool {\n", "func (n *node) mayBlock() bool {\n	if n.c.Timeout < n.c.DialTimeout {\n		return false\n	}\n",
		"driver/rueidis", "TestCallIsBounded",
	},
	{
		"the new master of a failover has the epoch of the old one",
		"driver/rueidis/sentinel.go", "		_, epoch, err = s.describeMaster(ctx, n)\n", "		_, _, err = s.describeMaster(ctx, n)\n",
		"driver/rueidis", "TestFailoverGoingOn",
	},
	{
		"any of two masters that claim one slot is trusted",
		"driver/rueidis/cluster.go", "v.epoch-w.epoch, v.own-w.own)", "v.epoch-w.epoch)",
		"driver/rueidis", "TestBestView",
	},
}
