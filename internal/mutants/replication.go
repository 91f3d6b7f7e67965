package mutants

func init() { All = append(All, replication...) }

// replication holds the mutants of the promises with replicas.
var replication = []Mutant{
	{
		"replicas are counted on another connection than that of the write",
		"driver/rueidis/calls.go", "return client.DoMulti(ctx, append(multi, wait())...)", "return append(client.DoMulti(ctx, multi...), client.Do(ctx, wait()))",
		"test/topology", "TestStrictRefusesAndGivesBack",
	},
	{
		"an unknown script is not sent with WAIT",
		"driver/rueidis/calls.go", "		if isNoScript(resp) {\n			again :=", "		if false && isNoScript(resp) {\n			again :=",
		"test/topology", "TestStrictRefusesAndGivesBack",
	},
	{
		"one replica is enough",
		"internal/engine/replicate.go", "v.Granted() && acked < need", "v.Granted() && acked < 1",
		"internal/engine", "TestStrictGivesBack",
	},
	{
		"the connected replicas are enough, however few",
		"internal/engine/replicate.go", "	case Strict:\n		return o.Replicas", "	case Strict:\n		return min(o.Replicas, max(e.d.Place(key).Replicas, 0))",
		"test/topology", "TestStrictRefusesAndGivesBack",
	},
	{
		"renewals of strict locks need no replica",
		"internal/engine/replicate.go", "	if r.Mode == Strict {\n		return r.Replicas\n	}\n", "",
		"test/topology", "TestStrictRefusesAndGivesBack",
	},
	{
		"a renewal on too few replicas counts",
		"internal/watchdog/renew.go", "a.err == nil && acked && r.Acked < w.replicas.acks", "false && r.Acked < w.replicas.acks",
		"internal/watchdog", "TestShortOfReplicas",
	},
	{
		"a loss is not reported while replicas are missing",
		"internal/watchdog/renew.go", "case a.err != nil || a.unacked != nil && a.held[i]:", "case a.err != nil || a.unacked != nil:",
		"test/topology", "TestStrictNotOwnerWhileShort",
	},
	{
		"a missing permission for WAIT is reported as a broken connection",
		"driver/rueidis/calls.go", "Err: n.waitError(err)", "Err: driver.Unknown(err)",
		"test/topology", "TestStrictWithoutWait",
	},
	{
		"extensions of strict locks need no replica",
		"internal/engine/replicate.go", "	need := e.o.Replication.acks()\n", "	need := 0\n",
		"internal/engine", "TestStrictExtension",
	},
	{
		"what too few replicas have is not given back",
		"internal/engine/replicate.go", "&driver.Error{Class: driver.Ambiguous,", "&driver.Error{Class: driver.Definite,",
		"internal/engine", "TestStrictGivesBack",
	},
	{
		"an extension on the master only outlives the loss",
		"internal/engine/hold.go", "	case watchdog.Expired, watchdog.Unacked:\n", "	case watchdog.Expired:\n",
		"test/topology", "TestStrictRefusesAndGivesBack",
	},
	{
		"mode Acked asks no replica",
		"internal/engine/replicate.go", "return min(n, 1)", "return 0",
		"test/topology", "TestAckedAfterFailover",
	},
	{
		"the clocks of servers are assumed to agree",
		"internal/watchdog/watched.go", "d := sent + lease - margin(lease) - c.state.skew", "d := sent + lease - margin(lease)",
		"internal/watchdog", "TestSkew",
	},
	{
		"leases are not verified when the server has changed",
		"internal/engine/engine.go", "d.Watch(e.watchdog.Suspect)", "d.Watch(func() {})",
		"internal/engine", "TestFailoverVerifiesAtOnce",
	},
	{
		"a loss by a failover has the same reason as others",
		"internal/watchdog/watched.go", "return Failover", "return NotOwner",
		"internal/watchdog", "TestFailover",
	},
	{
		"the first sentinel that answers is trusted",
		"driver/rueidis/sentinelview.go", "if a.epoch > best.epoch {", "if best.epoch < 0 {",
		"test/topology", "TestStaleSentinel",
	},
	{
		"the last epoch of the sentinels is ignored",
		"driver/rueidis/sentinelview.go", "if best.epoch < c.epoch &&", "if best.epoch < 0 &&",
		"test/topology", "TestStaleSentinel",
	},
	{
		"the new master is found only after the failover",
		"driver/rueidis/sentinel.go", "t.addr, err = s.masterAddr(ctx, n)", "t.addr = named",
		"driver/rueidis", "TestFailoverGoingOn",
	},
	{
		"a returning master is used without asking the sentinels",
		"driver/rueidis/sentinel.go", "case addr != n.addr:", "case addr == \"\":",
		"test/topology", "TestReplicaKeepsData",
	},
	{
		"without sentinels no client can reconnect",
		"driver/rueidis/sentinel.go", "case err != nil && same &&", "case err != nil && false &&",
		"test/topology", "TestNoSentinels",
	},
	{
		"a server is not asked for its role",
		"driver/rueidis/identity.go", "f.Role != \"slave\" ||", "f.Role != \"\" ||",
		"test/topology", "TestRoleIsChecked",
	},
}
