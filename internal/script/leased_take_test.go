package script_test

var leasedTakeRows = []row{
	{
		title: "take leased/enough",
		given: []string{"SET N 3"},
		do:    acquire(leased(2), try("a:1")), reply: "token",
		state: []string{"N string 1", "timeout zset a:1.0+60s a:1.1+60s"},
	},
	{
		title: "take leased/the last",
		given: []string{"SET N 1", "ZADD timeout +100 b:1.0"},
		do:    acquire(leased(1), try("a:1")), reply: "token",
		state: []string{"N string 0", "timeout zset a:1.0+60s b:1.0+100s"},
	},
	{
		title: "take leased/fewer than wanted, none taken",
		given: []string{"SET N 1"},
		do:    acquire(leased(2), try("a:1")), reply: "0",
		state: []string{"N string 1"},
	},
	{
		title: "take leased/all taken", // says when the next one ends
		given: []string{"SET N 0", "ZADD timeout +100 b:1.0 +60 c:1.0"},
		do:    acquire(leased(1), try("a:1")), reply: "held 60s",
		state: []string{"N string 0", "timeout zset b:1.0+100s c:1.0+60s"},
	},
	{title: "take leased/no semaphore", do: acquire(leased(1), try("a:1")), reply: "nil"},
	{
		title: "take leased/no semaphore, leases left",
		given: []string{"ZADD timeout +60 b:1.0"},
		do:    acquire(leased(1), try("a:1")), reply: "nil",
		state: []string{"timeout zset b:1.0+60s"},
	},
	{
		title: "take leased/no semaphore, leases over", // they come back to nobody
		given: []string{"ZADD timeout +-5 b:1.0"},
		do:    acquire(leased(1), try("a:1")), reply: "nil",
	},
	{
		title: "take leased/leases over",
		given: []string{"SET N 0", "ZADD timeout +-5 b:1.0 +-5 b:1.1 +60 c:1.0"},
		do:    acquire(leased(1), try("a:1")), reply: "token",
		state: []string{"N string 1", "timeout zset a:1.0+60s c:1.0+60s"},
		heard: "2 on sc",
	},
	{
		title: "take leased/leases over, too few all the same",
		given: []string{"SET N 0", "ZADD timeout +-5 b:1.0 +-5 b:1.1 +60 c:1.0"},
		do:    acquire(leased(3), try("a:1")), reply: "held 60s",
		state: []string{"N string 2", "timeout zset c:1.0+60s"},
		heard: "2 on sc",
	},
	{
		title: "take leased/leases over, and none free yet",
		given: []string{"SET N -1", "ZADD timeout +-5 b:1.0"},
		do:    acquire(leased(1), try("a:1")), reply: "0",
		state: []string{"N string 0"},
	},
	{
		title: "take leased/below zero",
		given: []string{"SET N -1", "ZADD timeout +60 b:1.0"},
		do:    acquire(leased(1), try("a:1")), reply: "held 60s",
		state: []string{"N string -1", "timeout zset b:1.0+60s"},
	},
	{
		title: "take leased/one's own, again", // the reply was lost: taken once, and for all of the time from now on
		given: []string{"SET N 1", "ZADD timeout +20 a:1.0 +20 a:1.1"},
		do:    acquire(leased(2), try("a:1")), reply: "token",
		state: []string{"N string 1", "timeout zset a:1.0+60s a:1.1+60s"},
	},
	{
		title: "take leased/one's own, again, none free",
		given: []string{"SET N -2", "ZADD timeout +20 a:1.0"},
		do:    acquire(leased(1), try("a:1")), reply: "token",
		state: []string{"N string -2", "timeout zset a:1.0+60s"},
	},
	{
		title: "take leased/one's own, over",
		given: []string{"SET N 0", "ZADD timeout +-5 a:1.0"},
		do:    acquire(leased(1), try("a:1")), reply: "token",
		state: []string{"N string 0", "timeout zset a:1.0+60s"},
		heard: "1 on sc",
	},
	{
		title: "take leased/one's own, over, and not enough for it",
		given: []string{"SET N -1", "ZADD timeout +-5 a:1.0"},
		do:    acquire(leased(1), try("a:1")), reply: "0",
		state: []string{"N string 0"},
	},
	{
		title: "take leased/Java has it without an end",
		given: []string{"SET N 0", "ZADD timeout " + endless + " j:7.0"},
		do:    acquire(leased(1), try("a:1")), reply: "0",
		state: []string{"N string 0", "timeout zset j:7.0+never"},
	},
	{
		title: "take leased/Java has one without an end and one with",
		given: []string{"SET N 0", "ZADD timeout " + endless + " j:7.0 +60 j:7.1"},
		do:    acquire(leased(1), try("a:1")), reply: "held 60s",
		state: []string{"N string 0", "timeout zset j:7.0+never j:7.1+60s"},
	},
	{
		title: "take leased/a semaphore with an end",
		given: []string{"SET N 3 EX 100"},
		do:    acquire(leased(1), try("a:1")), reply: "token",
		state: []string{"N string 2, TTL 100s", "timeout zset a:1.0+60s, TTL 100s"},
	},
	{
		title: "take leased/a semaphore that ends before the lease",
		given: []string{"SET N 3 EX 20", "ZADD timeout +60 b:1.0"},
		do:    acquire(leased(1), try("a:1")), reply: "token",
		state: []string{"N string 2, TTL 20s", "timeout zset a:1.0+60s b:1.0+60s, TTL 20s"},
	},
	{
		title: "take leased/no number",
		given: []string{"SET N x"},
		do:    acquire(leased(1), try("a:1")), reply: "ERR",
		state: []string{"N string x"},
	},
	{
		title: "take leased/another type",
		given: []string{"RPUSH N x"},
		do:    acquire(leased(1), try("a:1")), reply: "WRONGTYPE",
		state: []string{"N list x"},
	},
	{
		title: "take leased/leases of another type",
		given: []string{"SET N 3", "SET timeout x"},
		do:    acquire(leased(1), try("a:1")), reply: "WRONGTYPE",
		state: []string{"N string 3", "timeout string x"},
	},
	{
		// To look for leases that are over counts as a write, and after one
		// the server lets a script finish.
		title: "take leased/memory full", full: true,
		given: []string{"SET N 1", "ZADD timeout +-5 b:1.0"},
		do:    acquire(leased(2), try("a:1")), reply: "token",
		state: []string{"N string 0", "timeout zset a:1.0+60s a:1.1+60s"},
		heard: "2 on sc",
	},
}
