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
		title: "take leased/no semaphore, leases over", // the leases are removed, and no permits are returned
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
}

var leasedBackRows = []row{
	{
		title: "leave leased/all",
		given: []string{"SET N 1", "ZADD timeout +60 a:1.0 +60 a:1.1 +60 b:1.0"},
		do:    release(leased(2), "a:1", 0), reply: "2", again: "0",
		state: []string{"N string 3", "timeout zset b:1.0+60s"},
		heard: "3 on sc",
	},
	{
		title: "leave leased/one is gone",
		given: []string{"SET N 1", "ZADD timeout +60 a:1.1 +60 b:1.0"},
		do:    release(leased(2), "a:1", 0), reply: "0",
		state: []string{"N string 2", "timeout zset b:1.0+60s"},
		heard: "2 on sc",
	},
	{
		title: "leave leased/another's",
		given: []string{"SET N 1", "ZADD timeout +60 b:1.0"},
		do:    release(leased(2), "a:1", 0), reply: "0",
		state: []string{"N string 1", "timeout zset b:1.0+60s"},
	},
	{
		title: "leave leased/over", // given back, and reported as lost
		given: []string{"SET N 0", "ZADD timeout +-5 a:1.0 +-5 b:1.0"},
		do:    release(leased(1), "a:1", 0), reply: "0",
		state: []string{"N string 1", "timeout zset b:1.0+past"},
		heard: "1 on sc",
	},
	{
		title: "leave leased/none free yet",
		given: []string{"SET N -1", "ZADD timeout +60 a:1.0"},
		do:    release(leased(1), "a:1", 0), reply: "1", again: "0",
		state: []string{"N string 0"},
	},
	{
		title: "leave leased/no semaphore",
		given: []string{"ZADD timeout +60 a:1.0"},
		do:    release(leased(1), "a:1", 0), reply: "1", again: "0",
	},
	{
		title: "leave leased/a semaphore with an end",
		given: []string{"SET N 0 EX 100", "ZADD timeout +60 a:1.0"},
		do:    release(leased(1), "a:1", 0), reply: "2", again: "0",
		state: []string{"N string 1, TTL 100s"},
		heard: "1 on sc",
	},
	{
		title: "leave leased/memory full", full: true,
		given: []string{"SET N 0", "ZADD timeout +60 a:1.0 +60 a:1.1"},
		do:    release(leased(2), "a:1", 0), reply: "2", again: "0",
		state: []string{"N string 2"},
		heard: "2 on sc",
	},
	{
		title: "leave leased/another type",
		given: []string{"RPUSH N x", "ZADD timeout +60 a:1.0"},
		do:    release(leased(1), "a:1", 0), reply: "WRONGTYPE", again: "0",
		state: []string{"N list x"},
	},
	{
		title: "leave leased/leases of another type",
		given: []string{"SET N 0", "SET timeout x"},
		do:    release(leased(1), "a:1", 0), reply: "WRONGTYPE",
		state: []string{"N string 0", "timeout string x"},
	},
	{
		title: "return/all",
		given: []string{"SET N 0", "ZADD timeout +60 a:1.0 +60 b:1.0 +60 c:1.0"},
		do:    returnIDs("e:1:7", "a:1.0", "b:1.0"), reply: "1",
		state: []string{"N string 2", "holdfast:once:e:1 string 7 done, TTL 600s", "timeout zset c:1.0+60s"},
		heard: "2 on sc",
	},
	{
		title: "return/done before",
		given: []string{"SET N 1", "SET mark:e:1 7~done EX 100"},
		do:    returnIDs("e:1:7", "a:1.0"), reply: "1",
		state: []string{"N string 1", "holdfast:once:e:1 string 7 done, TTL 100s"},
	},
	{
		title: "return/the lane has gone on",
		given: []string{"SET N 0", "ZADD timeout +60 a:1.0", "SET mark:e:1 10~done EX 100"},
		do:    returnIDs("e:1:9", "a:1.0"), reply: "0",
		state: []string{"N string 0", "holdfast:once:e:1 string 10 done, TTL 100s", "timeout zset a:1.0+60s"},
	},
	{
		title: "return/an earlier one of the lane",
		given: []string{"SET N 0", "ZADD timeout +60 a:1.0", "SET mark:e:1 9~done EX 100"},
		do:    returnIDs("e:1:10", "a:1.0"), reply: "1",
		state: []string{"N string 1", "holdfast:once:e:1 string 10 done, TTL 600s"},
		heard: "1 on sc",
	},
	{
		title: "return/one is not taken",
		given: []string{"SET N 0", "ZADD timeout +60 a:1.0 +60 b:1.0"},
		do:    returnIDs("e:1:7", "a:1.0", "a:1.1", "b:1.0"), reply: "0",
		state: []string{"N string 0", "holdfast:once:e:1 string 7 not held, TTL 600s", "timeout zset a:1.0+60s b:1.0+60s"},
	},
	{
		title: "return/one is over",
		given: []string{"SET N 0", "ZADD timeout +60 a:1.0 +-5 b:1.0"},
		do:    returnIDs("e:1:7", "a:1.0", "b:1.0"), reply: "0",
		state: []string{"N string 0", "holdfast:once:e:1 string 7 not held, TTL 600s", "timeout zset a:1.0+60s b:1.0+past"},
	},
	{
		title: "return/another is over",
		given: []string{"SET N 0", "ZADD timeout +60 a:1.0 +-5 b:1.0"},
		do:    returnIDs("e:1:7", "a:1.0"), reply: "1",
		state: []string{"N string 2", "holdfast:once:e:1 string 7 done, TTL 600s"},
		heard: "2 on sc",
	},
	{
		title: "return/one named twice",
		given: []string{"SET N 0", "ZADD timeout +60 a:1.0"},
		do:    returnIDs("e:1:7", "a:1.0", "a:1.0"), reply: "1",
		state: []string{"N string 1", "holdfast:once:e:1 string 7 done, TTL 600s"},
		heard: "1 on sc",
	},
	{
		title: "return/without an end, to less than zero",
		given: []string{"SET N -1", "ZADD timeout " + endless + " j:7.0"},
		do:    returnIDs("e:1:7", "j:7.0"), reply: "1",
		state: []string{"N string 0", "holdfast:once:e:1 string 7 done, TTL 600s"},
	},
	{
		title: "return/no semaphore",
		given: []string{"ZADD timeout +60 a:1.0"},
		do:    returnIDs("e:1:7", "a:1.0"), reply: "1",
		state: []string{"holdfast:once:e:1 string 7 done, TTL 600s"},
	},
	{
		title: "return/memory full", full: true,
		given: []string{"SET N 0", "ZADD timeout +60 a:1.0"},
		do:    returnIDs("e:1:7", "a:1.0"), reply: "1",
		state: []string{"N string 1", "holdfast:once:e:1 string 7 done, TTL 600s"},
		heard: "1 on sc",
	},
	{
		title: "return/leases of another type",
		given: []string{"SET N 0", "SET timeout x"},
		do:    returnIDs("e:1:7", "a:1.0"), reply: "WRONGTYPE",
		state: []string{"N string 0", "timeout string x"},
	},
	{
		title: "return/mark of another type",
		given: []string{"SET N 0", "ZADD timeout +60 a:1.0", "RPUSH mark:e:1 x"},
		do:    returnIDs("e:1:7", "a:1.0"), reply: "WRONGTYPE",
		state: []string{"N string 0", "holdfast:once:e:1 list x", "timeout zset a:1.0+60s"},
	},
}

var leasedRestRows = []row{
	{
		title: "renew leased/one's own, and another's",
		given: []string{"ZADD timeout +20 a:1.0 +20 a:1.1 +20 b:1.0"},
		do:    renewIDs("a:1.0 a:1.1", "c:1.0"), reply: "[1 0]",
		state: []string{"timeout zset a:1.0+60s a:1.1+60s b:1.0+20s"},
	},
	{
		title: "renew leased/never shorter",
		given: []string{"ZADD timeout +600 a:1.0 +20 a:1.1"},
		do:    renewIDs("a:1.0 a:1.1"), reply: "[1]",
		state: []string{"timeout zset a:1.0+600s a:1.1+60s"},
	},
	{
		title: "renew leased/one is gone", // then none is renewed
		given: []string{"ZADD timeout +20 a:1.0 +20 b:1.0"},
		do:    renewIDs("a:1.0 a:1.1", "b:1.0"), reply: "[0 1]",
		state: []string{"timeout zset a:1.0+20s b:1.0+60s"},
	},
	{
		title: "renew leased/over, and not reaped yet",
		given: []string{"ZADD timeout +-5 a:1.0 +20 a:1.1"},
		do:    renewIDs("a:1.0 a:1.1"), reply: "[0]",
		state: []string{"timeout zset a:1.0+past a:1.1+20s"},
	},
	{
		title: "renew leased/without an end",
		given: []string{"ZADD timeout " + endless + " j:7.0"},
		do:    renewIDs("j:7.0"), reply: "[1]",
		state: []string{"timeout zset j:7.0+never"},
	},
	{
		title: "renew leased/the end of the semaphore stays",
		given: []string{"ZADD timeout +20 a:1.0", "EXPIRE timeout 100"},
		do:    renewIDs("a:1.0"), reply: "[1]",
		state: []string{"timeout zset a:1.0+60s, TTL 100s"},
	},
	{title: "renew leased/no leases", do: renewIDs("a:1.0"), reply: "[0]"},
	{
		title: "renew leased/another type",
		given: []string{"SET timeout x"},
		do:    renewIDs("a:1.0"), reply: "[0]",
		state: []string{"timeout string x"},
	},
	{
		title: "resize/no semaphore",
		do:    resize(3), reply: "3",
		state: []string{"N string 3"},
		heard: "3 on sc",
	},
	{
		title: "resize/no semaphore, to none",
		do:    resize(0), reply: "0",
		state: []string{"N string 0"},
		heard: "0 on sc",
	},
	{
		title: "resize/no semaphore, leases left",
		given: []string{"ZADD timeout +60 b:1.0"},
		do:    resize(3), reply: "2",
		state: []string{"N string 2", "timeout zset b:1.0+60s"},
		heard: "3 on sc",
	},
	{
		title: "resize/no semaphore, as many leases left",
		given: []string{"ZADD timeout +60 b:1.0"},
		do:    resize(1), reply: "0",
		state: []string{"N string 0", "timeout zset b:1.0+60s"},
		heard: "1 on sc",
	},
	{
		title: "resize/more",
		given: []string{"SET N 1", "ZADD timeout +60 a:1.0 +60 b:1.0"},
		do:    resize(5), reply: "3",
		state: []string{"N string 3", "timeout zset a:1.0+60s b:1.0+60s"},
		heard: "5 on sc",
	},
	{
		title: "resize/fewer than are taken", // the reply is -1
		given: []string{"SET N 1", "ZADD timeout +60 a:1.0 +60 b:1.0"},
		do:    resize(1), reply: "held past",
		state: []string{"N string -1", "timeout zset a:1.0+60s b:1.0+60s"},
		heard: "1 on sc",
	},
	{
		title: "resize/the same",
		given: []string{"SET N 1", "ZADD timeout +60 a:1.0 +60 b:1.0"},
		do:    resize(3), reply: "1",
		state: []string{"N string 1", "timeout zset a:1.0+60s b:1.0+60s"},
	},
	{
		title: "resize/leases over", // their permits return with the next request
		given: []string{"SET N 1", "ZADD timeout +-5 a:1.0"},
		do:    resize(3), reply: "2",
		state: []string{"N string 2", "timeout zset a:1.0+past"},
		heard: "3 on sc",
	},
	{
		title: "resize/a semaphore with an end",
		given: []string{"SET N 1 EX 100"},
		do:    resize(3), reply: "3",
		state: []string{"N string 3, TTL 100s"},
		heard: "3 on sc",
	},
	{
		title: "resize/no number",
		given: []string{"SET N x"},
		do:    resize(3), reply: "ERR",
		state: []string{"N string x"},
	},
	{
		title: "resize/another type",
		given: []string{"RPUSH N x"},
		do:    resize(3), reply: "WRONGTYPE",
		state: []string{"N list x"},
	},
	{
		title: "resize/leases of another type",
		given: []string{"SET N 1", "SET timeout x"},
		do:    resize(3), reply: "WRONGTYPE",
		state: []string{"N string 1", "timeout string x"},
	},
	{
		title: "resize/memory full", full: true,
		given: []string{"SET N 1"},
		do:    resize(3), reply: "OOM",
		state: []string{"N string 1"},
	},
	{title: "inspect leased/no semaphore", do: inspectLeased("a:1.0"), reply: "[0 0 -2]"},
	{
		title: "inspect leased/no id",
		given: []string{"SET N 1", "ZADD timeout +60 a:1.0 +60 b:1.0"},
		do:    inspectLeased(""), reply: "[1 2 -2]",
		state: []string{"N string 1", "timeout zset a:1.0+60s b:1.0+60s"},
	},
	{
		title: "inspect leased/taken",
		given: []string{"SET N -1", "ZADD timeout +60 a:1.0 +100 b:1.0"},
		do:    inspectLeased("b:1.0"), reply: "[-1 2 100s]",
		state: []string{"N string -1", "timeout zset a:1.0+60s b:1.0+100s"},
	},
	{
		title: "inspect leased/not taken",
		given: []string{"SET N 0", "ZADD timeout +60 a:1.0"},
		do:    inspectLeased("b:1.0"), reply: "[0 1 -2]",
		state: []string{"N string 0", "timeout zset a:1.0+60s"},
	},
	{
		title: "inspect leased/over, and not reaped yet", // counts as free, and stays
		given: []string{"SET N 0", "ZADD timeout +-5 a:1.0 +60 b:1.0"},
		do:    inspectLeased("a:1.0"), reply: "[1 1 -2]",
		state: []string{"N string 0", "timeout zset a:1.0+past b:1.0+60s"},
	},
	{
		title: "inspect leased/without an end",
		given: []string{"SET N 0", "ZADD timeout " + endless + " j:7.0"},
		do:    inspectLeased("j:7.0"), reply: "[0 1 -1]",
		state: []string{"N string 0", "timeout zset j:7.0+never"},
	},
	{
		title: "inspect leased/no number",
		given: []string{"SET N x"},
		do:    inspectLeased(""), reply: "ERR",
		state: []string{"N string x"},
	},
	{
		title: "inspect leased/another type",
		given: []string{"RPUSH N x"},
		do:    inspectLeased(""), reply: "WRONGTYPE",
		state: []string{"N list x"},
	},
	{
		title: "inspect leased/leases of another type",
		given: []string{"SET N 1", "SET timeout x"},
		do:    inspectLeased(""), reply: "WRONGTYPE",
		state: []string{"N string 1", "timeout string x"},
	},
	{
		// A lease must not be lost because the server has no memory left.
		// A renewal needs none.
		title: "renew leased/memory full", full: true,
		given: []string{"SET N 0", "ZADD timeout +20 a:1.0"},
		do:    renewIDs("a:1.0"), reply: "[1]",
		state: []string{"N string 0", "timeout zset a:1.0+60s"},
	},
	{
		// Permits of expired leases only return to a semaphore that exists.
		title: "inspect leased/no semaphore, leases over",
		given: []string{"ZADD timeout +-5 a:1.0"},
		do:    inspectLeased(""), reply: "[0 0 -2]",
		state: []string{"timeout zset a:1.0+past"},
	},
}
