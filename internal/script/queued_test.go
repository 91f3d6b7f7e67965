package script_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// The clients b and c listen for grants, a does not. The key line is the queue.
var queuedRows = []row{
	{
		title: "queue/free",
		do:    acquire(queued, line("a:1")), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s"},
	},
	{
		title: "queue/held",
		given: taken,
		do:    acquire(queued, line("a:1")), reply: "[held 60s 1 token]",
		state: []string{"N hash b:1=1, TTL 60s", "line zset a:1+never, TTL 300s"},
	},
	{
		title: "queue/behind another",
		given: append([]string{"ZADD line 1 c:1"}, taken...),
		do:    acquire(queued, line("a:1")), reply: "[held 60s 2 token]",
		state: []string{"N hash b:1=1, TTL 60s", "line zset a:1+never c:1+past, TTL 300s"},
	},
	{
		title: "queue/again", // the place stays
		given: append([]string{"ZADD line 1 a:1 2 c:1"}, taken...),
		do:    acquire(queued, line("a:1")), reply: "[held 60s 1 1]",
		state: []string{"N hash b:1=1, TTL 60s", "line zset a:1+past c:1+past, TTL 300s"},
	},
	{
		title: "queue/granted", // by a release
		given: []string{"HSET N a:1 1", "PEXPIRE N 3000", "ZADD line 1 c:1"},
		do:    acquire(queued, line("a:1")), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s", "line zset c:1+past"},
	},
	{
		title: "queue/free again", // the holder has released it or has expired
		given: []string{"ZADD line 1 c:1 2 a:1"},
		do:    acquire(queued, line("a:1")), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s", "line zset c:1+past"},
		heard: "first 60000 on line:c",
	},
	{
		title: "queue/held by a writer",
		given: writes("b:1", 1, 60),
		do:    acquire(queued, line("a:1")), reply: "[held 60s 1 token]",
		state: []string{"N hash b:1:write=1 mode=write, TTL 60s", "line zset a:1+never, TTL 300s"},
	},
	{
		title: "queue/held by a reader with its name",
		given: reads("a:1", 60),
		do:    acquire(queued, line("a:1")), reply: "[held 60s 1 token]",
		state: []string{"N hash a:1=1 mode=read, TTL 60s", "a:1#1 string 1, TTL 60s", "line zset a:1+never, TTL 300s"},
	},
	{
		title: "queue/for a short time",
		given: taken,
		do:    acquire(queued, brief()), reply: "[held 60s 1 token]",
		state: []string{"N hash b:1=1, TTL 60s", "line zset a:1:short9+never, TTL 300s"},
	},
	{
		title: "queue/granted for a short time",
		given: []string{"ZADD line 1 a:1:short9 2 c:1"},
		do:    acquire(queued, brief()), reply: "token",
		state: []string{"N hash a:1=1, TTL 3s", "line zset c:1+past"},
		heard: "first 1000 on line:c",
	},
	{
		title: "queue/full",
		given: append([]string{"ZADD line 1 b:1 2 c:1"}, taken...),
		do:    acquire(queued, bounded(2)), reply: "[held 60s -1]",
		state: []string{"N hash b:1=1, TTL 60s", "line zset b:1+past c:1+past"},
	},
	{
		title: "queue/almost full",
		given: append([]string{"ZADD line 1 c:1", "EXPIRE line 9"}, taken...),
		do:    acquire(queued, bounded(2)), reply: "[held 60s 2 token]",
		state: []string{"N hash b:1=1, TTL 60s", "line zset a:1+never c:1+past, TTL 300s"},
	},
	{
		title: "queue/full, and it is in the queue",
		given: append([]string{"ZADD line 1 b:1 2 c:1 3 d:1 4 a:1"}, taken...),
		do:    acquire(queued, bounded(2)), reply: "[held 60s 4 4]",
		state: []string{"N hash b:1=1, TTL 60s", "line zset a:1+past b:1+past c:1+past d:1+past, TTL 300s"},
	},
	{
		title: "queue/full, but the lock is free",
		given: []string{"ZADD line 1 b:1 2 c:1"},
		do:    acquire(queued, bounded(2)), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s", "line zset b:1+past c:1+past"},
	},
	{
		title: "queue/of many", // those at the front keep it alive
		given: append([]string{"ZADD line 1 c:1 2 c:2 3 c:3 4 c:4 5 c:5 6 c:6 7 c:7 8 c:8", "EXPIRE line 200"}, taken...),
		do:    acquire(queued, line("a:1")), reply: "[held 60s 9 token]",
		state: []string{"N hash b:1=1, TTL 60s", "line zset a:1+never c:1+past c:2+past c:3+past c:4+past c:5+past c:6+past c:7+past c:8+past, TTL 200s"},
	},
	{
		title: "queue/of another type, rights are checked",
		given: append([]string{"SET line x"}, taken...),
		do:    acquire(queued, checked()), reply: "[held 60s 0]",
		state: []string{"N hash b:1=1, TTL 60s", "line string x"},
	},
	{
		title: "queue/rights are checked",
		given: taken,
		do:    acquire(queued, checked()), reply: "[held 60s 1 token]",
		state: []string{"N hash b:1=1, TTL 60s", "line zset a:1+never, TTL 300s"},
	},
	{
		title: "queue/out of memory, rights are checked",
		given: taken, full: true,
		do: acquire(queued, checked()), reply: "[held 60s 0]",
		state: []string{"N hash b:1=1, TTL 60s"},
	},
	{
		title: "queue/of another type",
		given: append([]string{"SET line x"}, taken...),
		do:    acquire(queued, line("a:1")), reply: "[held 60s 0]",
		state: []string{"N hash b:1=1, TTL 60s", "line string x"},
	},
	{
		title: "queue/out of memory",
		given: taken, full: true,
		do: acquire(queued, line("a:1")), reply: "[held 60s 0]",
		state: []string{"N hash b:1=1, TTL 60s"},
	},

	{
		title: "pass/empty queue",
		given: []string{"HSET N a:1 1", "EXPIRE N 60"},
		do:    pass(1), reply: "1", again: "0",
		heard: "0 on channel",
	},
	{
		title: "pass/to the first",
		given: []string{"HSET N a:1 1", "EXPIRE N 60", "ZADD line 2 c:1 4 b:1"},
		do:    pass(1), reply: "1", again: "0",
		state: []string{"N hash c:1=1, TTL 3s", "line zset b:1+past"},
		heard: "c:1 token 3000 2 on line:c, first 3000 on line:b",
	},
	{
		title: "pass/to one that wants it for a short time",
		given: []string{"HSET N a:1 1", "EXPIRE N 60", "ZADD line 1 c:1:short9 2 b:1"},
		do:    pass(1), reply: "1", again: "0",
		state: []string{"N hash c:1=1, TTL 3s", "line zset b:1+past"},
		heard: "c:1 token 512 1 on line:c, first 512 on line:b",
	},
	{
		title: "pass/to one that wants it for too short a time", // not an entry of a client
		given: []string{"HSET N a:1 1", "EXPIRE N 60", "ZADD line 1 c:1:short12 2 b:1"},
		do:    pass(1), reply: "1", again: "0",
		state: []string{"line zset b:1+past c:1:short12+past"},
		heard: "0 on channel,  on line:c",
	},
	{
		title: "pass/left free", // the first is told, too
		given: []string{"HSET N a:1 1", "EXPIRE N 60", "ZADD line 2 c:1 4 b:1"},
		do:    pass(0), reply: "1", again: "0",
		state: []string{"line zset b:1+past c:1+past"},
		heard: "0 on channel,  on line:c",
	},
	{
		title: "pass/out of memory",
		given: []string{"HSET N a:1 1", "EXPIRE N 60", "ZADD line 2 c:1"}, full: true,
		do: pass(1), reply: "1", again: "0",
		state: []string{"N hash c:1=1, TTL 3s"},
		heard: "c:1 token 3000 2 on line:c",
	},
	{
		title: "pass/the first does not listen",
		given: []string{"HSET N a:1 1", "EXPIRE N 60", "ZADD line 1 j:7 2 x 4 c:1 6 b:1"},
		do:    pass(1), reply: "1", again: "0",
		state: []string{"N hash c:1=1, TTL 3s", "line zset b:1+past"},
		heard: "c:1 token 3000 4 on line:c, first 3000 on line:b",
	},
	{
		title: "pass/after one long entry, nothing more is read",
		given: []string{"HSET N a:1 1", "EXPIRE N 60", "ZADD line 1 " + strings.Repeat("x", 101) + " 2 " + strings.Repeat("y", 101) + " 4 c:1"},
		do:    pass(1), reply: "1", again: "0",
		state: []string{"line zset c:1+past " + strings.Repeat("y", 101) + "+past"},
		heard: "0 on channel",
	},
	{
		title: "pass/none listens",
		given: []string{"HSET N a:1 1", "EXPIRE N 60", "ZADD line 1 d:7 2 e:1"},
		do:    pass(1), reply: "1", again: "0",
		heard: "0 on channel",
	},
	{
		title: "pass/many do not listen",
		given: []string{"HSET N a:1 1", "EXPIRE N 60", "ZADD line 1 1:1 2 1:2 3 1:3 4 1:4 5 1:5 6 1:6 7 1:7 8 1:8 9 1:9 10 1:10 11 1:11 12 1:12 13 1:13 14 1:14 15 1:15 16 1:16 18 c:1"},
		do:    pass(1), reply: "1", again: "0",
		state: []string{"line zset c:1+past"},
		heard: "0 on channel",
	},
	{
		title: "pass/queue of another type",
		given: []string{"HSET N a:1 1", "EXPIRE N 60", "SET line x"},
		do:    pass(1), reply: "1", again: "0",
		state: []string{"line string x"},
		heard: "0 on channel",
	},
	{
		title: "pass/not held, and wanted for a short time",
		given: append([]string{"ZADD line 1 a:1:short9 2 c:1"}, taken...),
		do:    pass(1), reply: "0",
		state: []string{"N hash b:1=1, TTL 60s", "line zset c:1+past"},
		heard: "first 60000 on line:c",
	},
	{
		title: "pass/not held", // the owner leaves the queue
		given: append([]string{"ZADD line 1 a:1 2 c:1"}, taken...),
		do:    pass(1), reply: "0",
		state: []string{"N hash b:1=1, TTL 60s", "line zset c:1+past"},
		heard: "first 60000 on line:c",
	},
	{
		title: "pass/not held, and the lock is free", // a grant was not used
		given: []string{"ZADD line 1 a:1 2 c:1"},
		do:    pass(1), reply: "0",
		state: []string{"N hash c:1=1, TTL 3s"},
		heard: "c:1 token 3000 2 on line:c",
	},
	{
		title: "pass/to one that wants another kind", // it is told, and asks
		given: []string{"HSET N a:1 1", "EXPIRE N 60", "ZADD line 2 c:1:fenced 4 b:1"},
		do:    pass(1), reply: "1", again: "0",
		state: []string{"line zset b:1+past c:1:fenced+past"},
		heard: "0 on channel,  on line:c",
	},
	{
		title: "pass/one of two",
		given: []string{"HSET N a:1 2", "EXPIRE N 60", "ZADD line 1 c:1"},
		do:    release(queued, "a:1", 1), reply: "1",
		state: []string{"N hash a:1=1, TTL 60s", "line zset c:1+past"},
	},

	{
		title: "prune/clients that do not listen",
		given: []string{"ZADD line 1 d:1 2 c:1 3 e:1"},
		do:    prune, reply: "2", again: "0",
		state: []string{"line zset c:1+past"},
	},

	{
		title: "fenced queue/free",
		given: []string{"SET token 41"},
		do:    acquire(queuedFenced, line("a:1")), reply: "42",
		state: []string{"N hash a:1=1, TTL 60s", "token string 42"},
	},
	{
		title: "fenced queue/held",
		given: append([]string{"SET token 41"}, taken...),
		do:    acquire(queuedFenced, line("a:1")), reply: "[held 60s 1 token]",
		state: []string{"N hash b:1=1, TTL 60s", "line zset a:1:fenced+never, TTL 300s", "token string 41"},
	},
	{
		title: "fenced queue/granted", // by a release
		given: []string{"HSET N a:1 1", "PEXPIRE N 3000", "SET token 41", "ZADD line 1 c:1:fenced"},
		do:    acquire(queuedFenced, line("a:1")), reply: "41",
		state: []string{"N hash a:1=1, TTL 60s", "line zset c:1:fenced+past", "token string 41"},
	},
	{
		title: "fenced queue/free again",
		given: []string{"SET token 41", "ZADD line 1 c:1:fenced 2 a:1:fenced"},
		do:    acquire(queuedFenced, line("a:1")), reply: "42", again: "42",
		state: []string{"N hash a:1=1, TTL 60s", "line zset c:1:fenced+past", "token string 42"},
		heard: "first 60000 on line:c",
	},
	{
		title: "fenced queue/bad counter",
		given: []string{"SET token x"},
		do:    acquire(queuedFenced, line("a:1")), reply: "ERR",
		state: []string{"token string x"},
	},
	{
		title: "fenced pass/to the first",
		given: []string{"HSET N a:1 1", "EXPIRE N 60", "SET token 41", "ZADD line 2 c:1:fenced 4 b:1:fenced"},
		do:    passOf(queuedFenced, 1), reply: "1", again: "0",
		state: []string{"N hash c:1=1, TTL 3s", "line zset b:1:fenced+past", "token string 42"},
		heard: "c:1 42 3000 2 on line:c, first 3000 on line:b",
	},
	{
		title: "fenced pass/bad counter", // it is left free, and a client that asks is told why
		given: []string{"HSET N a:1 1", "EXPIRE N 60", "SET token x", "ZADD line 2 c:1:fenced"},
		do:    passOf(queuedFenced, 1), reply: "1", again: "0",
		state: []string{"line zset c:1:fenced+past", "token string x"},
		heard: "0 on channel",
	},
	{
		title: "fenced pass/not held",
		given: append([]string{"ZADD line 1 a:1:fenced 2 c:1"}, taken...),
		do:    passOf(queuedFenced, 1), reply: "0",
		state: []string{"N hash b:1=1, TTL 60s", "line zset c:1+past"},
		heard: "first 60000 on line:c",
	},

	{
		title: "write queue/free",
		do:    acquire(queuedWrite, line("a:1")), reply: "token",
		state: []string{"N hash a:1:write=1 mode=write, TTL 60s"},
	},
	{
		title: "write queue/held by a writer",
		given: writes("b:1", 1, 60),
		do:    acquire(queuedWrite, line("a:1")), reply: "[held 60s 1 token]",
		state: []string{"N hash b:1:write=1 mode=write, TTL 60s", "line zset a:1:write+never, TTL 300s"},
	},
	{
		title: "write queue/granted", // by a release
		given: append(writes("a:1", 1, 2), "ZADD line 1 c:1:write"),
		do:    acquire(queuedWrite, line("a:1")), reply: "token",
		state: []string{"N hash a:1:write=1 mode=write, TTL 60s", "line zset c:1:write+past"},
	},
	{
		title: "write queue/before readers",
		given: writes("b:1", 1, 60),
		do:    acquire(queuedWriteFirst, line("a:1")), reply: "[held 60s 1 token]",
		state: []string{"N hash b:1:write=1 mode=write, TTL 60s", "line zset a:1:write+never, TTL 300s", "writers zset a:1:write+3s, TTL 3s"},
	},
	{
		title: "write pass/to the first",
		given: append(writes("a:1", 1, 60), "ZADD line 2 c:1:write 4 b:1:write", "ZADD writers +3 c:1:write"),
		do:    passOf(queuedWrite, 1), reply: "1", again: "0",
		state: []string{"N hash c:1:write=1 mode=write, TTL 3s", "line zset b:1:write+past"},
		heard: "c:1 token 3000 2 on line:c, first 3000 on line:b",
	},
	{
		title: "write pass/left free",
		given: append(writes("a:1", 1, 60), "ZADD line 2 c:1:write"),
		do:    passOf(queuedWrite, 0), reply: "1", again: "0",
		state: []string{"line zset c:1:write+past"},
		heard: "1 on rw, 0 on rw,  on line:c",
	},
	{
		title: "write pass/empty queue",
		given: writes("a:1", 1, 60),
		do:    passOf(queuedWrite, 1), reply: "1", again: "0",
		heard: "1 on rw, 0 on rw",
	},
	{
		title: "write pass/not held",
		given: append(writes("b:1", 1, 60), "ZADD line 1 a:1:write 2 c:1:write"),
		do:    passOf(queuedWrite, 1), reply: "0",
		state: []string{"N hash b:1:write=1 mode=write, TTL 60s", "line zset c:1:write+past"},
		heard: "first 60000 on line:c",
	},
	{
		title: "write pass/reads on", // the next writer has to wait
		given: []string{"HSET N mode write a:1:write 1 a:1 1", "EXPIRE N 60", "SET a:1#1 1 EX 60", "ZADD line 2 c:1:write"},
		do:    passOf(queuedWrite, 1), reply: "2", again: "0",
		state: []string{"N hash a:1=1 mode=read, TTL 60s", "a:1#1 string 1, TTL 60s", "line zset c:1:write+past"},
		heard: "1 on rw, 0 on rw",
	},
	{
		title: "read pass/to a writer",
		given: []string{"HSET N mode read a:1 1", "EXPIRE N 60", "SET a:1#1 1 EX 60", "ZADD line 2 c:1:write", "ZADD writers +3 c:1:write"},
		do:    passOf(queuedRead, 1), reply: "1", again: "0",
		state: []string{"N hash c:1:write=1 mode=write, TTL 3s"},
		heard: "c:1 token 3000 2 on line:c",
	},
	{
		title: "read pass/others read on",
		given: []string{"HSET N mode read a:1 1 b:1 1", "EXPIRE N 60", "SET a:1#1 1 EX 60", "SET b:1#1 1 EX 60", "ZADD line 2 c:1:write"},
		do:    passOf(queuedRead, 1), reply: "1", again: "0",
		state: []string{"N hash b:1=1 mode=read, TTL 60s", "b:1#1 string 1, TTL 60s", "line zset c:1:write+past"},
	},
	{
		title: "read pass/empty queue",
		given: []string{"HSET N mode read a:1 1", "EXPIRE N 60", "SET a:1#1 1 EX 60"},
		do:    passOf(queuedRead, 1), reply: "1", again: "0",
		heard: "0 on rw",
	},

	{
		title: "permits/free",
		given: []string{"SET N 3"},
		do:    acquire(queuedLeased(2), line("a:1")), reply: "token",
		state: []string{"N string 1", "timeout zset a:1.0+60s a:1.1+60s"},
	},
	{
		title: "permits/too few",
		given: []string{"SET N 1", "ZADD timeout +60 b:1.0", "ZADD line 1 c:1:permits1"},
		do:    acquire(queuedLeased(2), line("a:1")), reply: "[held 60s 2 token]",
		state: []string{"N string 1", "line zset a:1:permits2+never c:1:permits1+past, TTL 300s", "timeout zset b:1.0+60s"},
	},
	{
		title: "permits/granted by a release",
		given: []string{"SET N 0", "ZADD timeout +2 a:1.0"},
		do:    acquire(queuedLeased(1), line("a:1")), reply: "token",
		state: []string{"N string 0", "timeout zset a:1.0+60s"},
	},
	{title: "permits/no semaphore", do: acquire(queuedLeased(1), line("a:1")), reply: "nil"},
	{
		title: "permits/not enough and no lease", // of which the end could be waited for
		given: []string{"SET N 1"},
		do:    acquire(queuedLeased(2), line("a:1")), reply: "[0 1 token]",
		state: []string{"N string 1", "line zset a:1:permits2+never, TTL 300s"},
	},
	{
		title: "permits pass/empty queue",
		given: []string{"SET N 0", "ZADD timeout +60 a:1.0"},
		do:    passOf(queuedLeased(1), 1), reply: "1", again: "0",
		state: []string{"N string 1"},
		heard: "1 on sc",
	},
	{
		title: "permits pass/to the first two",
		given: []string{"SET N 0", "ZADD timeout +60 a:1.0 +60 a:1.1 +60 a:1.2", "ZADD line 2 c:1:permits1 4 b:1:permits1"},
		do:    passOf(queuedLeased(3), 1), reply: "1", again: "0",
		state: []string{"N string 1", "timeout zset b:1.0+3s c:1.0+3s"},
		heard: "c:1 token 3000 2 on line:c, b:1 token 3000 4 on line:b",
	},
	{
		title: "permits pass/several to one client",
		given: []string{"SET N 1", "EXPIRE N 600", "ZADD timeout +60 a:1.0", "ZADD line 2 c:1:permits2"},
		do:    passOf(queuedLeased(1), 1), reply: "1", again: "0",
		state: []string{"N string 0, TTL 600s", "timeout zset c:1.0+3s c:1.1+3s, TTL 600s"},
		heard: "c:1 token 3000 2 on line:c",
	},
	{
		title: "permits pass/past one who wants more",
		given: []string{"SET N 0", "ZADD timeout +60 a:1.0", "ZADD line 2 c:1:permits2 4 b:1:permits1"},
		do:    passOf(queuedLeased(1), 1), reply: "1", again: "0",
		state: []string{"N string 0", "line zset c:1:permits2+past", "timeout zset b:1.0+3s"},
		heard: "b:1 token 3000 4 on line:b",
	},
	{
		title: "permits pass/past one who does not listen",
		given: []string{"SET N 0", "ZADD timeout +60 a:1.0", "ZADD line 2 d:1:permits1 4 b:1:permits1"},
		do:    passOf(queuedLeased(1), 1), reply: "1", again: "0",
		state: []string{"N string 0", "timeout zset b:1.0+3s"},
		heard: "b:1 token 3000 4 on line:b",
	},
	{
		title: "permits pass/to one that wants them for a short time",
		given: []string{"SET N 0", "ZADD timeout +60 a:1.0", "ZADD line 3 c:1:permits1:short9"},
		do:    passOf(queuedLeased(1), 1), reply: "1", again: "0",
		state: []string{"N string 0", "timeout zset c:1.0+3s"},
		heard: "c:1 token 512 3 on line:c",
	},
	{
		title: "permits pass/to one that has them by a late request",
		given: []string{"SET N 0", "ZADD timeout +60 a:1.0 +60 c:1.0", "ZADD line 2 c:1:permits1"},
		do:    passOf(queuedLeased(1), 1), reply: "1", again: "0",
		state: []string{"N string 1", "timeout zset c:1.0+60s"},
		heard: "c:1 token 3000 2 on line:c",
	},
	{
		title: "permits pass/to one that has a part of them for a moment",
		given: []string{"SET N 1", "ZADD timeout +60 a:1.0 +1 c:1.0", "ZADD line 2 c:1:permits2"},
		do:    passOf(queuedLeased(1), 1), reply: "1", again: "0",
		state: []string{"N string 1", "timeout zset c:1.0+3s c:1.1+3s"},
		heard: "c:1 token 3000 2 on line:c",
	},
	{
		title: "permits pass/left free",
		given: []string{"SET N 0", "ZADD timeout +60 a:1.0", "ZADD line 2 c:1:permits1"},
		do:    passOf(queuedLeased(1), 0), reply: "1", again: "0",
		state: []string{"N string 1", "line zset c:1:permits1+past"},
		heard: " on line:c, 1 on sc",
	},
	{
		title: "permits pass/more are taken than there are",
		given: []string{"SET N -2", "ZADD timeout +60 a:1.0", "ZADD line 2 c:1:permits1"},
		do:    passOf(queuedLeased(1), 1), reply: "1", again: "0",
		state: []string{"N string -1", "line zset c:1:permits1+past"},
	},
	{
		title: "permits pass/gives up",
		given: []string{"SET N 0", "ZADD timeout +60 b:1.0", "ZADD line 2 a:1:permits1 4 c:1:permits1"},
		do:    passOf(queuedLeased(1), 1), reply: "0",
		state: []string{"N string 0", "line zset c:1:permits1+past", "timeout zset b:1.0+60s"},
		heard: "first 60000 on line:c",
	},
	{
		title: "permits pass/memory full", full: true,
		given: []string{"SET N 0", "ZADD timeout +60 a:1.0", "ZADD line 2 c:1:permits1"},
		do:    passOf(queuedLeased(1), 1), reply: "1", again: "0",
		state: []string{"N string 0", "timeout zset c:1.0+3s"},
		heard: "c:1 token 3000 2 on line:c",
	},
}

// pass releases a queued mutex that a:1 holds, with that lot.
func pass(lot int) op { return passOf(queued, lot) }

func passOf(k func(string) kind, lot int) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		_, err := d.Do(ctx, k(name).(*script.Queued).Pass("a:1", lot))
		return err
	}
}

func TestQueued(t *testing.T) { check(t, queuedRows) }

// Where clients wait that do not queue, some releases leave the mutex free. How many of them
// do depends on who waits, and on the length of the queue. The first client in the queue is
// told either way.
func TestQueuedAndOthers(t *testing.T) {
	reader := func(q *script.Queued) []string {
		return []string{q.Channels("")[0], q.GrantChannels("")[0] + ":readers"}
	}
	redisson := func(q *script.Queued) []string { return q.Channels("")[:1] }
	for name, test := range map[string]struct {
		listens []func(q *script.Queued) []string // the channels of each client that does not queue
		queued  int
		freed   func(lot int) bool
	}{
		"none":                      {nil, 1, func(lot int) bool { return lot == 0 }},
		"a reader":                  {[]func(*script.Queued) []string{reader}, 1, func(lot int) bool { return lot%2 == 0 }},
		"Redisson":                  {[]func(*script.Queued) []string{redisson}, 3, func(int) bool { return true }},
		"Redisson and a reader":     {[]func(*script.Queued) []string{redisson, reader}, 3, func(int) bool { return true }},
		"Redisson and a long queue": {[]func(*script.Queued) []string{redisson}, 6, func(lot int) bool { return lot < 50 }},
		"two and a long queue":      {[]func(*script.Queued) []string{redisson, redisson}, 12, func(lot int) bool { return lot < 50 }},
		"Redisson and a huge queue": {[]func(*script.Queued) []string{redisson}, 400, func(lot int) bool { return lot == 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			q := b.m.Queued()
			for _, listens := range test.listens {
				other := deaf(make(chan struct{}, 2))
				l := b.d.Listen(other)
				defer func() { _ = l.Close() }()
				channels := listens(q)
				l.Subscribe(channels...)
				for range channels {
					<-other
				}
			}
			all, grants := q.Channels("")[0], q.GrantChannels("b:1")
			own := listen(t, b.s, b.d, all, grants[0], grants[1])
			for lot := range 100 {
				if v, err := script.Acquire(t.Context(), b.d, q, line("a:1")); err != nil || !v.Granted() {
					t.Fatal(v, err)
				}
				if v, err := script.Acquire(t.Context(), b.d, q, line("b:1")); err != nil || v.Place == 0 {
					t.Fatal(v, err)
				}
				if lot == 0 {
					for i := range test.queued - 1 {
						b.s.Do(t, "ZADD", grants[0], "9e15", fmt.Sprint("b:", 2+i))
					}
				}
				own.heard()
				r, err := b.d.Do(t.Context(), q.Pass("a:1", lot))
				if err != nil {
					t.Fatal(err)
				}
				heard := own.heard()
				free := b.s.Int(t, "EXISTS", q.Gate()) == 0
				if free != test.freed(lot) {
					t.Errorf("lot %d: left free: %v", lot, free)
				}
				if free {
					if want := []string{"0 on " + all, " on " + grants[1]}; int(r.Int) != 1+len(test.listens) || !slices.Equal(heard, want) {
						t.Errorf("lot %d: left free: reply %d, heard %q", lot, r.Int, heard)
					}
				} else if r.Int != 1 || len(heard) == 0 || !strings.HasPrefix(heard[0], "b:1 1") {
					t.Errorf("lot %d: granted: reply %d, heard %q", lot, r.Int, heard)
				}
				b.s.Do(t, "DEL", q.Gate())
				b.s.Do(t, "ZREM", grants[0], "b:1")
			}
		})
	}
}

// deaf is a client that only subscribes.
type deaf chan struct{}

func (d deaf) Message(string, string)    {}
func (d deaf) Subscribed(string, uint64) { d <- struct{}{} }
func (d deaf) Lost([]string, error)      {}

// A release of a permit passes over any number of clients that want more permits than are
// free. At its bound it tells the next one, which continues when it asks.
func TestPastMany(t *testing.T) {
	for _, greedy := range []int{16, 200, 300, 600} {
		b := newBench(t)
		p := script.NewLeased(b.m.Gate(), 5).Queued()
		one := script.NewLeased(b.m.Gate(), 1).Queued()
		grants := p.GrantChannels("c:1")
		ears := listen(t, b.s, b.d, grants[0], grants[1], one.GrantChannels("b:1")[1])
		b.s.Do(t, "SET", b.m.Gate(), "0")
		b.s.Do(t, "ZADD", p.Ref("a:1").Key, fmt.Sprint(time.Now().Add(time.Minute).UnixMilli()), one.Ref("a:1").Permits)
		add := []string{"ZADD", grants[0]}
		for i := range greedy {
			add = append(add, fmt.Sprint(1+i), fmt.Sprintf("c:%d:permits5", 1+i))
		}
		b.s.Do(t, append(add, fmt.Sprint(greedy+1), "b:1:permits1")...)
		if _, err := b.d.Do(t.Context(), one.Pass("a:1", 1)); err != nil {
			t.Fatal(err)
		}
		looks := 0
		for ; b.s.Int(t, "GET", b.m.Gate()) == 1 && looks < 5; looks++ {
			heard := ears.heard()
			if len(heard) != 1 || heard[0] != " on "+grants[1] {
				t.Fatalf("%d are greedy: heard %q", greedy, heard)
			}
			v, err := script.Acquire(t.Context(), b.d, p, line(fmt.Sprint("c:", 257+256*looks)))
			if err != nil || v.Granted() {
				t.Fatal(v, err)
			}
		}
		if b.s.Int(t, "GET", b.m.Gate()) != 0 {
			t.Errorf("%d are greedy: the permit is still free", greedy)
		}
		if want := (greedy - 1) / 256; looks != want {
			t.Errorf("%d are greedy: %d looks, want %d", greedy, looks, want)
		}
	}
}

// A release of a permit removes a bounded number of entries that want no permits. All clients
// that wait are told, and the next request removes more.
func TestEntriesOfOtherKinds(t *testing.T) {
	const entries = 2000
	b := newBench(t)
	p := script.NewLeased(b.m.Gate(), 1).Queued()
	told := listen(t, b.s, b.d, p.Channels("b:1")...)
	b.s.Do(t, "SET", b.m.Gate(), "0")
	b.s.Do(t, "ZADD", p.Ref("a:1").Key, fmt.Sprint(time.Now().Add(time.Minute).UnixMilli()), p.Ref("a:1").Permits)
	add := []string{"ZADD", p.GrantChannels("b:1")[0]}
	for i := range entries {
		add = append(add, fmt.Sprint(1+i), fmt.Sprint("c:", 1+i))
	}
	b.s.Do(t, add...)
	if _, err := b.d.Do(t.Context(), p.Pass("a:1", 1)); err != nil {
		t.Fatal(err)
	}
	if left := b.s.Int(t, "ZCARD", p.GrantChannels("b:1")[0]); left < entries-600 || left == entries {
		t.Errorf("%d of %d entries are left", left, entries)
	}
	if heard := told.heard(); len(heard) != 1 {
		t.Errorf("heard %q, want one message", heard)
	}
}

// Prune removes the entries of clients that do not listen, and leaves the others.
func TestPrune(t *testing.T) {
	b := newBench(t)
	q := b.m.Queued()
	grants := q.GrantChannels("c:1")
	listen(t, b.s, b.d, grants[0], grants[1])
	b.s.Do(t, "ZADD", grants[0], "1", "d:1", "2", "c:1", "3", "e:1", "4", "x", "5", "c:2:fenced")
	r, err := b.d.Do(t.Context(), q.Prune())
	if err != nil || r.Int != 3 || b.s.Int(t, "ZCARD", grants[0]) != 2 {
		t.Errorf("%d were removed, %d are left: %v", r.Int, b.s.Int(t, "ZCARD", grants[0]), err)
	}
	b.s.Do(t, "SET", grants[0], "x")
	if r, err := b.d.Do(t.Context(), q.Prune()); err != nil || r.Int != 0 {
		t.Errorf("of another type: %v, %v", r, err)
	}
}

func TestDecodeGrant(t *testing.T) {
	if g, ok := script.DecodeGrant("1794851868224128 3000 17"); !ok || g != (script.Grant{Token: 1794851868224128, Lease: 3 * time.Second, Entry: 17}) {
		t.Error(g, ok)
	}
	for _, text := range []string{"", "1", "1 1", "1 1 ", " 1 1", "0 1 1", "1 0 1", "1 1 0", "-1 1 1", "1 -1 1", "1 1 1 1", "x 1 1", "1 x 1", "1 1 x", "99999999999999999999 1 1", "1 3001 1"} {
		if g, ok := script.DecodeGrant(text); ok {
			t.Errorf("%q is %v", text, g)
		}
	}
}
