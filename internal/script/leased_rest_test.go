package script_test

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
		title: "resize/leases over", // they come back when somebody asks
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
}
