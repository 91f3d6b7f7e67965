package mutants

func init() { All = append(All, subscriptions...) }

// subscriptions holds the mutants of subscriptions in drivers and hubs.
var subscriptions = []Mutant{
	{
		"a connection on which a reply is overdue stays until the next PING",
		"driver/rueidis/silence.go", "case time.Since(s.since) >= s.limit:", "case false:",
		"driver/rueidis", "TestOverdueReply",
	},
	{
		"a message does not begin the plan of PINGs again",
		"driver/rueidis/subscriber.go", "if s.heard.Swap(false) {", "if false && s.heard.Swap(false) {",
		"driver/rueidis", "TestPingAfterMessage",
	},
	{
		"a channel that the server refuses shares a command with others",
		"driver/rueidis/subtask.go", "alone: want && cs.alone&f != 0}", "alone: want && false}",
		"driver/rueidis", "TestConformance/RESP3/Forbidden",
	},
	{
		"a channel that the server refuses costs the connection",
		"driver/rueidis/subtask.go", "case code == \"NOAUTH\":", "case code == \"NOAUTH\" || code == \"NOPERM\":",
		"test/faults", "TestForbiddenChannel",
	},
	{
		"a refused channel is never retried",
		"driver/rueidis/subscriber.go", "			s.retryDelayed()\n", "",
		"driver/rueidis", "TestConformance/RESP3/Forbidden",
	},
	{
		"a refused channel is reported as a broken connection",
		"internal/wait/hub.go", ":= l.h, errors.Is(err, driver.ErrRefused)", ":= l.h, errors.Is(err, driver.ErrRefused) && false",
		"internal/wait", "TestHubRefused",
	},
	{
		"every change of a subscription visits all channels",
		"driver/rueidis/subtask.go", "	s.queue = nil\n	var tasks, last []task\n", "	var tasks, last []task\n",
		"driver/rueidis", "TestChangeLooksAtOneChannel",
	},
	{
		"a sweep takes all idle channels at once",
		"internal/wait/hub.go", "left > 0 || len(gone) == maxSweep {", "left > 0 {",
		"internal/wait", "TestHubSweeps",
	},
	{
		"a channel with a new waiter is swept",
		"internal/wait/hub.go", "			w.chs = append(w.chs, ch)\n		}\n		h.removeIdle(ch)\n", "			w.chs = append(w.chs, ch)\n		}\n",
		"internal/wait", "TestHubSweeps",
	},
	{
		"a connection that rueidis forgets outlives the client",
		"driver/rueidis/node.go", "	defer n.eras.close()\n", "",
		"driver/rueidis", "TestForgottenConnection",
	},
	{
		"what a server sends reaches rueidis unchecked",
		"driver/rueidis/dial.go", "		conn = checked\n", "",
		"driver/rueidis", "TestForgedReplies/EVALSHA",
	},
	{
		"unexpected replies are accepted",
		"driver/rueidis/checkedconn.go", "if r.depth == 0 && owed.Add(-1) < 0 {", "if r.depth == 0 && owed.Add(-1) < -1<<40 {",
		"driver/rueidis", "TestForgedReplies/EVALSHA",
	},
	{
		"negative lengths are accepted",
		"driver/rueidis/checkedconn.go", "if n != 1 || r.typ != '$' && r.typ != '*' {", "if n == 0 {",
		"driver/rueidis", "TestForgedReplies/EVALSHA",
	},
	{
		"the depth of nested lists has no limit",
		"driver/rueidis/checkedconn.go", "	r.left[r.depth] = n\n	r.depth++\n", "	r.left[min(r.depth, maxDepth-1)] = n\n	r.depth = min(r.depth+1, maxDepth-1)\n",
		"driver/rueidis", "TestCheckedConnPasses",
	},
	{
		"the number of replicas in INFO is trusted",
		"driver/facts.go", "return min(max(n, 0), most)", "_ = most\n		return n",
		"driver", "TestForgedFacts",
	},
}
