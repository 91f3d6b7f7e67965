package mutants

func init() { All = append(All, subscriptions...) }

// subscriptions are the mutants of what drivers and hubs promise of channels.
var subscriptions = []Mutant{
	{
		"a channel that the server refuses shares a command with others",
		"driver/rueidis/ear.go", "alone: want && s.alone&f != 0}", "alone: want && false}",
		"driver/rueidis", "TestConformance/RESP3/Forbidden",
	},
	{
		"a channel that the server refuses costs the connection",
		"driver/rueidis/ear.go", "case code == \"NOAUTH\":", "case code == \"NOAUTH\" || code == \"NOPERM\":",
		".", "TestForbiddenChannel",
	},
	{
		"a refused channel is never tried again",
		"driver/rueidis/ear.go", "			e.wake()\n", "",
		"driver/rueidis", "TestConformance/RESP3/Forbidden",
	},
	{
		"a refused channel is reported as a broken connection",
		"internal/wait/hub.go", "if errors.Is(err, driver.ErrRefused) {", "if false && errors.Is(err, driver.ErrRefused) {",
		"internal/wait", "TestHubRefused",
	},
	{
		"every change of a subscription looks at all channels",
		"driver/rueidis/ear.go", "	e.queue = nil\n	var tasks, last []task\n", "	var tasks, last []task\n",
		"driver/rueidis", "TestChangeLooksAtOneChannel",
	},
	{
		"a sweep takes all idle channels at once",
		"internal/wait/hub.go", "left > 0 || len(gone) == maxSweep {", "left > 0 {",
		"internal/wait", "TestHubSweeps",
	},
	{
		"a channel that is waited on again is swept",
		"internal/wait/hub.go", "		h.busy(ch)\n		w.chs[i] = ch\n", "		w.chs[i] = ch\n",
		"internal/wait", "TestHubSweeps",
	},
}
