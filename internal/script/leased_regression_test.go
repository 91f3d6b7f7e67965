package script_test

// What once went wrong with permits.
var leasedRegressionRows = []row{
	{
		// A copy of the request that was late on its way must not shorten a
		// lease that was extended meanwhile: its holder counts on that time.
		title: "take leased/again, shorter",
		given: []string{"SET N 1", "ZADD timeout +600 a:1.0 +600 a:1.1"},
		do:    acquire(leased(2), try("a:1")), reply: "token",
		state: []string{"N string 1", "timeout zset a:1.0+600s a:1.1+600s"},
	},
	{
		// Nor may it take a permit that was given back meanwhile without
		// counting it: two would come back for one.
		title: "take leased/again, the second was given back",
		given: []string{"SET N 2", "ZADD timeout +20 a:1.0"},
		do:    acquire(leased(2), try("a:1")), reply: "token",
		state: []string{"N string 1", "timeout zset a:1.0+60s a:1.1+60s"},
	},
	{
		title: "take leased/again, the first was given back",
		given: []string{"SET N 2", "ZADD timeout +20 a:1.1"},
		do:    acquire(leased(2), try("a:1")), reply: "token",
		state: []string{"N string 1", "timeout zset a:1.0+60s a:1.1+60s"},
	},
	{
		// Nobody must lose a lease because the server has no memory left: to
		// renew needs none.
		title: "renew leased/memory full", full: true,
		given: []string{"SET N 0", "ZADD timeout +20 a:1.0"},
		do:    renewIDs("a:1.0"), reply: "[1]",
		state: []string{"N string 0", "timeout zset a:1.0+60s"},
	},
	{
		// What is over comes back to a semaphore that is there.
		title: "inspect leased/no semaphore, leases over",
		given: []string{"ZADD timeout +-5 a:1.0"},
		do:    inspectLeased(""), reply: "[0 0 -2]",
		state: []string{"timeout zset a:1.0+past"},
	},
}
