package script_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

func forceFair(owner string) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		_, err := script.NewFair(name).Force(ctx, d, owner)
		return err
	}
}

func inspectFair(ctx context.Context, d driver.Driver, name string) error {
	_, err := script.NewFair(name).Inspect(ctx, d)
	return err
}

// taken is a lock that b:1 holds.
var taken = []string{"HSET N b:1 1", "PEXPIRE N 60000"}

// queue lets owners wait: "a:1 70 1.9" has 70 s left by Redisson's rule, and 2 s
// until its last sign of life counts no more; - is none.
func queue(waiters ...string) (commands []string) {
	for _, w := range waiters {
		f := strings.Fields(w)
		commands = append(commands, "RPUSH queue "+f[0])
		if f[1] != "-" {
			commands = append(commands, "ZADD limits +"+f[1]+" "+f[0])
		}
		if f[2] != "-" {
			commands = append(commands, "ZADD signs +"+f[2]+" "+f[0], "PEXPIRE signs 30000")
		}
	}
	return commands
}

var fairRows = slices.Concat(fairAcquireRows, fairQueueRows, fairReleaseRows, fairForceRows, fairGrantRows)

var fairAcquireRows = []row{
	{
		title: "acquire/free",
		do:    acquire(fair, try("a:1")), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s"},
	},
	{
		title: "acquire/free, would wait",
		do:    acquire(fair, wait("a:1")), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s"},
	},
	{
		title: "acquire/held, try once",
		given: taken,
		do:    acquire(fair, try("a:1")), reply: "held 60s",
		state: []string{"N hash b:1=1, TTL 60s"},
	},
	{
		title: "acquire/held by a reader",
		given: []string{"HSET N mode read b:1 1", "PEXPIRE N 60000"},
		do:    acquire(fair, try("a:1")), reply: "held 60s",
		state: []string{"N hash b:1=1 mode=read, TTL 60s"},
	},
	{
		title: "acquire/again, longer",
		given: []string{"HSET N a:1 1", "PEXPIRE N 60000"},
		do:    acquire(fair, again("a:1", 2, 600)), reply: "token",
		state: []string{"N hash a:1=2, TTL 600s"},
	},
	{
		title: "acquire/again, shorter",
		given: []string{"HSET N a:1 1", "PEXPIRE N 600000"},
		do:    acquire(fair, again("a:1", 2, 60)), reply: "token",
		state: []string{"N hash a:1=2, TTL 600s"},
	},
	{
		title: "acquire/again, others wait",
		given: append(queue("b:1 70 3"), "HSET N a:1 1", "PEXPIRE N 60000"),
		do:    acquire(fair, again("a:1", 2, 60)), reply: "token",
		state: []string{"N hash a:1=2, TTL 60s", "limits zset b:1+70s", "queue list b:1", "signs zset b:1+3s, TTL 30s"},
	},
	{
		title: "acquire/again, gone",
		do:    acquire(fair, again("a:1", 2, 60)), reply: "held past",
	},
	{
		title: "acquire/again, taken by another",
		given: taken,
		do:    acquire(fair, again("a:1", 2, 60)), reply: "held past",
		state: []string{"N hash b:1=1, TTL 60s"},
	},
	{
		title: "acquire/another type",
		given: []string{"SET N x"},
		do:    acquire(fair, wait("a:1")), reply: "WRONGTYPE",
		state: []string{"N string x"},
	},
	{
		title: "acquire/queue of another type",
		given: []string{"SET queue x"},
		do:    acquire(fair, wait("a:1")), reply: "WRONGTYPE",
		state: []string{"queue string x"},
	},
	{
		title: "acquire/limits of another type",
		given: append([]string{"SET limits x"}, taken...),
		do:    acquire(fair, wait("a:1")), reply: "WRONGTYPE",
		state: []string{"N hash b:1=1, TTL 60s", "limits string x"},
	},
	{
		title: "acquire/signs of another type",
		given: append([]string{"SET signs x"}, taken...),
		do:    acquire(fair, wait("a:1")), reply: "WRONGTYPE",
		state: []string{"N hash b:1=1, TTL 60s", "signs string x"},
	},
	{
		title: "acquire/memory full", full: true,
		do: acquire(fair, try("a:1")), reply: "OOM",
	},
	{
		title: "acquire/sent again, memory full", full: true,
		given: []string{"HSET N a:1 1", "PEXPIRE N 60000"},
		do:    acquire(fair, try("a:1")), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s"},
	},
	{
		title: "acquire/again, memory full", full: true,
		given: []string{"HSET N a:1 1", "PEXPIRE N 60000"},
		do:    acquire(fair, again("a:1", 2, 600)), reply: "OOM",
		state: []string{"N hash a:1=1, TTL 60s"},
	},
}

var fairQueueRows = []row{
	{
		title: "queue/first",
		given: taken,
		do:    acquire(fair, wait("a:1")), reply: "held 60s",
		state: []string{"N hash b:1=1, TTL 60s", "limits zset a:1+10s, TTL 3600s", "queue list a:1, TTL 3600s", "signs zset a:1+3s, TTL 30s"},
	},
	{
		title: "queue/holder without end",
		given: []string{"HSET N b:1 1"},
		do:    acquire(fair, wait("a:1")), reply: "0",
		state: []string{"N hash b:1=1", "limits zset a:1+10s, TTL 3600s", "queue list a:1, TTL 3600s", "signs zset a:1+3s, TTL 30s"},
	},
	{
		title: "queue/behind one of ours",
		given: append(queue("c:1 90 1.9"), taken...),
		do:    acquire(fair, wait("a:1")), reply: "held 60s",
		state: []string{"N hash b:1=1, TTL 60s", "limits zset a:1+90s c:1+90s, TTL 3600s", "queue list c:1 a:1, TTL 3600s", "signs zset a:1+3s c:1+3s, TTL 30s"},
	},
	{
		title: "queue/behind one of ours whose heartbeats have expired",
		given: queue(ours+" 580 -", "a:1 890 1.9"),
		do:    acquire(fair, wait("a:1")), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s"},
	},
	{
		title: "queue/heartbeats have expired",
		given: append(queue(ours+" 580 -", "c:1 890 -"), taken...),
		do:    acquire(fair, wait(ours)), reply: "held 60s",
		state: []string{"N hash b:1=1, TTL 60s", "limits zset " + ours + "+10s c:1+890s", "queue list " + ours + " c:1", "signs zset +3s " + ours + "+3s, TTL 30s"},
	},
	{
		title: "queue/full",
		given: append(queue("j:7 330 -"), taken...),
		do:    acquire(fair, bounded(1)), reply: "[held 60s -1]",
		state: []string{"N hash b:1=1, TTL 60s", "limits zset j:7+330s", "queue list j:7"},
	},
	{
		title: "queue/full, and it is in the queue",
		given: append(queue("a:1 70 1.9"), taken...),
		do:    acquire(fair, bounded(1)), reply: "[held 60s 0]",
		state: []string{"N hash b:1=1, TTL 60s", "limits zset a:1+10s, TTL 3600s", "queue list a:1, TTL 3600s", "signs zset a:1*+3s, TTL 30s"},
	},
	{
		title: "queue/behind a Java waiter",
		given: append(queue("j:7 330 -"), taken...),
		do:    acquire(fair, wait("a:1")), reply: "held 60s",
		state: []string{"N hash b:1=1, TTL 60s", "limits zset a:1+330s j:7+330s", "queue list j:7 a:1", "signs zset a:1+3s, TTL 30s"},
	},
	{
		title: "queue/behind one without a score",
		given: append(queue("j:7 30 -", "j:8 - -"), taken...),
		do:    acquire(fair, wait("a:1")), reply: "held 60s",
		state: []string{"N hash b:1=1, TTL 60s", "limits zset a:1+610s j:7+30s", "queue list j:7 j:8 a:1", "signs zset a:1+3s, TTL 30s"},
	},
	{
		title: "queue/behind a Java waiter, and one of ours that Java dropped",
		given: slices.Concat(queue("j:7 330 -"), taken, []string{"ZADD signs +-9 c:1", "PEXPIRE signs 30000"}),
		do:    acquire(fair, wait("a:1")), reply: "held 60s",
		state: []string{"N hash b:1=1, TTL 60s", "limits zset a:1+330s j:7+330s", "queue list j:7 a:1", "signs zset a:1+3s c:1+past, TTL 30s"},
	},
	{
		title: "queue/back behind a Java waiter, as others of ours are",
		given: slices.Concat(queue("a:1 70 1.9", "c:1 70 1.9", "d:1 70 1.9", "j:7 200 -"), taken, []string{"LPOP queue", "LPOP queue", "LPOP queue", "ZREM limits a:1 c:1 d:1"}),
		do:    acquire(fair, wait("a:1")), reply: "held 60s",
		state: []string{"N hash b:1=1, TTL 60s", "limits zset a:1+310s j:7+200s", "queue list j:7 a:1", "signs zset a:1+3s c:1+3s d:1+3s, TTL 30s"},
	},
	{
		title: "queue/a sign of life between a Java waiter and another",
		given: append(queue("j:7 330 -", "a:1 305 1.9", "j:8 630 -"), taken...),
		do:    acquire(fair, wait("a:1")), reply: "held 60s",
		state: []string{"N hash b:1=1, TTL 60s", "limits zset a:1+310s j:7+330s j:8+630s", "queue list j:7 a:1 j:8", "signs zset a:1+3s, TTL 30s"},
	},
	{
		title: "queue/a sign of life of the first, Java waiters behind it",
		given: append(queue("a:1 310 1.9", "j:7 610 -"), taken...),
		do:    acquire(fair, wait("a:1")), reply: "held 60s",
		state: []string{"N hash b:1=1, TTL 60s", "limits zset a:1+10s j:7+610s", "queue list a:1 j:7", "signs zset a:1+3s, TTL 30s"},
	},
	{
		title: "queue/a sign of life, a second after the last",
		given: append(queue("a:1 70 1.9"), taken...),
		do:    acquire(fair, wait("a:1")), reply: "held 60s",
		state: []string{"N hash b:1=1, TTL 60s", "limits zset a:1+10s, TTL 3600s", "queue list a:1, TTL 3600s", "signs zset a:1+3s, TTL 30s"},
	},
	{
		title: "queue/a sign of life after Java subtracted 300 s",
		given: slices.Concat(queue("a:1 70 1.9"), taken, []string{"ZINCRBY limits -300000 a:1"}),
		do:    acquire(fair, wait("a:1")), reply: "held 60s",
		state: []string{"N hash b:1=1, TTL 60s", "limits zset a:1+10s, TTL 3600s", "queue list a:1, TTL 3600s", "signs zset a:1+3s, TTL 30s"},
	},
	{
		title: "queue/back after Java dropped it",
		given: slices.Concat(queue("a:1 70 1.9", "j:7 330 -"), taken, []string{"LPOP queue", "ZREM limits a:1"}),
		do:    acquire(fair, wait("a:1")), reply: "held 60s",
		state: []string{"N hash b:1=1, TTL 60s", "limits zset a:1+330s j:7+330s", "queue list j:7 a:1", "signs zset a:1+3s, TTL 30s"},
	},
	{
		title: "queue/its turn",
		given: queue("a:1 70 1.9"),
		do:    acquire(fair, wait("a:1")), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s"},
	},
	{
		title: "queue/a sign of life, and the queue would end soon",
		given: slices.Concat(queue("a:1 70 1.9"), taken, []string{"EXPIRE queue 600", "EXPIRE limits 600"}),
		do:    acquire(fair, wait("a:1")), reply: "held 60s",
		state: []string{"N hash b:1=1, TTL 60s", "limits zset a:1+10s, TTL 3600s", "queue list a:1, TTL 3600s", "signs zset a:1+3s, TTL 30s"},
	},
	{
		title: "queue/a sign of life, and the queue would not end soon",
		given: slices.Concat(queue("a:1 70 1.9"), taken, []string{"EXPIRE queue 3000", "EXPIRE limits 3000"}),
		do:    acquire(fair, wait("a:1")), reply: "held 60s",
		state: []string{"N hash b:1=1, TTL 60s", "limits zset a:1+10s, TTL 3000s", "queue list a:1, TTL 3000s", "signs zset a:1+3s, TTL 30s"},
	},
	{
		title: "queue/a sign of life, and a Java waiter has come",
		given: slices.Concat(queue("a:1 70 1.9", "j:7 370 -"), taken, []string{"EXPIRE queue 3600", "EXPIRE limits 3600"}),
		do:    acquire(fair, wait("a:1")), reply: "held 60s",
		state: []string{"N hash b:1=1, TTL 60s", "limits zset a:1+10s j:7+370s", "queue list a:1 j:7", "signs zset a:1+3s, TTL 30s"},
	},
	{
		title: "queue/its turn, and a Java waiter has come",
		given: append(queue("a:1 70 1.9", "j:7 370 -"), "EXPIRE queue 3600", "EXPIRE limits 3600"),
		do:    acquire(fair, wait("a:1")), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s", "limits zset j:7+370s", "queue list j:7"},
	},
	{
		title: "queue/its turn, others behind it",
		given: queue("a:1 70 1.9", "j:7 370 -", "b:1 370 1.9"),
		do:    acquire(fair, wait("a:1")), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s", "limits zset b:1+370s j:7+370s", "queue list j:7 b:1", "signs zset b:1+3s, TTL 30s"},
	},
	{
		title: "queue/its turn, memory full", full: true, // a server lets scripts write that have left a queue before
		given: queue("a:1 70 1.9"),
		do:    acquire(fair, wait("a:1")), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s"},
	},
	{
		title: "queue/memory full", full: true,
		given: taken,
		do:    acquire(fair, wait("a:1")), reply: "OOM",
		state: []string{"N hash b:1=1, TTL 60s"},
	},
	{
		title: "queue/a Java waiter is next",
		given: queue("j:7 300 -", "a:1 300 1.9"),
		do:    acquire(fair, wait("a:1")), reply: "held 300s",
		state: []string{"limits zset a:1+310s j:7+300s", "queue list j:7 a:1", "signs zset a:1+3s, TTL 30s"},
		heard: "0 on channel:j:7", // it may sleep, and no other client wakes it
	},
	{
		title: "sweep/free, but a living one is next, try once",
		given: queue("b:1 70 1.9"),
		do:    acquire(fair, try("a:1")), reply: "held 70s",
		state: []string{"limits zset b:1+70s", "queue list b:1", "signs zset b:1+3s, TTL 30s"},
	},
	{
		title: "sweep/dead head, in time",
		given: queue("b:1 70 -1", "a:1 70 1.9"),
		do:    acquire(fair, wait("a:1")), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s"},
	},
	{
		title: "sweep/dead head, in time, another is next",
		given: queue("b:1 70 -1", "c:1 70 1.9", "a:1 70 1.9"),
		do:    acquire(fair, wait("a:1")), reply: "held 3s", again: "held 70s",
		state: []string{"limits zset a:1+80s c:1+70s, TTL 3600s", "queue list c:1 a:1, TTL 3600s", "signs zset a:1+3s c:1+3s, TTL 30s"},
		heard: "0 on channel:c:1",
	},
	{
		title: "sweep/dead head, in time, held",
		given: append(queue("c:1 70 -1", "a:1 70 1.9"), taken...),
		do:    acquire(fair, wait("a:1")), reply: "held 60s",
		state: []string{"N hash b:1=1, TTL 60s", "limits zset a:1+10s, TTL 3600s", "queue list a:1, TTL 3600s", "signs zset a:1+3s, TTL 30s"},
	},
	{
		title: "sweep/dead behind a living head",
		given: append(queue("c:1 70 1.9", "j:7 -5 -", "a:1 70 1.9"), taken...),
		do:    acquire(fair, wait("a:1")), reply: "held 60s",
		state: []string{"N hash b:1=1, TTL 60s", "limits zset a:1+80s c:1+70s j:7+past", "queue list c:1 j:7 a:1", "signs zset a:1+3s c:1+3s, TTL 30s"},
	},
	{
		title: "sweep/silent head, try once",
		given: queue("b:1 70 -1"),
		do:    acquire(fair, try("a:1")), reply: "held 70s",
		state: []string{"limits zset b:1+70s", "queue list b:1", "signs zset b:1+past, TTL 30s"},
	},
	{
		title: "sweep/silent head, late",
		given: queue("b:1 70 -9", "c:1 70 -9", "a:1 70 -5"),
		do:    acquire(fair, wait("a:1")), reply: "held 70s",
		state: []string{"limits zset a:1+80s b:1+70s c:1+70s, TTL 3600s", "queue list b:1 c:1 a:1, TTL 3600s", "signs zset +3s a:1+3s b:1+past c:1+past, TTL 30s"},
		heard: "0 on channel:b:1", // which may have missed that it is free
	},
	{
		title: "sweep/late, its turn",
		given: queue("a:1 70 -5", "b:1 70 -9"),
		do:    acquire(fair, wait("a:1")), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s", "limits zset b:1+70s", "queue list b:1", "signs zset +3s b:1+past, TTL 30s"},
	},
	{
		title: "sweep/dead Java head, late",
		given: queue("j:7 -1 -", "a:1 70 -5"),
		do:    acquire(fair, wait("a:1")), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s"},
	},
	{
		title: "sweep/dead Java head, try once",
		given: queue("j:7 -1 -"),
		do:    acquire(fair, try("a:1")), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s"},
	},
	{
		title: "sweep/head without a score", // would block Java for ever
		given: queue("j:7 - -", "a:1 70 1.9"),
		do:    acquire(fair, wait("a:1")), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s"},
	},
	{
		title: "sweep/all dead",
		given: queue("j:7 -1 -", "j:8 - -", "b:1 -1 -1"),
		do:    acquire(fair, try("a:1")), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s"},
	},
	{
		title: "sweep/living head from which Java subtracted 300 s, for a newcomer",
		given: queue("b:1 -230 1.9"),
		do:    acquire(fair, try("a:1")), reply: "held 3s",
		state: []string{"limits zset b:1+past", "queue list b:1", "signs zset b:1+3s, TTL 30s"},
	},
}

var fairReleaseRows = []row{
	{
		title: "release/last",
		given: []string{"HSET N a:1 3", "PEXPIRE N 60000"},
		do:    release(fair, "a:1", 0), reply: "1", again: "0",
	},
	{
		title: "release/the next is called",
		given: append(queue("b:1 70 1.9", "c:1 70 1.9"), "HSET N a:1 1", "PEXPIRE N 60000"),
		do:    release(fair, "a:1", 0), reply: "2", again: "0",
		state: []string{"limits zset b:1+70s c:1+70s", "queue list b:1 c:1", "signs zset b:1+3s c:1+3s, TTL 30s"},
		heard: "0 on channel:b:1",
	},
	{
		title: "release/a Java waiter is called",
		given: append(queue("j:7 300 -"), "HSET N a:1 1", "PEXPIRE N 60000"),
		do:    release(fair, "a:1", 0), reply: "2", again: "0",
		state: []string{"limits zset j:7+300s", "queue list j:7"},
		heard: "0 on channel:j:7",
	},
	{
		title: "release/the dead are not called",
		given: append(queue("j:7 -1 -", "j:8 - -", "b:1 70 1.9"), "HSET N a:1 1", "PEXPIRE N 60000"),
		do:    release(fair, "a:1", 0), reply: "2", again: "0",
		state: []string{"limits zset b:1+70s", "queue list b:1", "signs zset b:1+3s, TTL 30s"},
		heard: "0 on channel:b:1",
	},
	{
		title: "release/a silent one is called", // it may still be alive
		given: append(queue("b:1 70 -1"), "HSET N a:1 1", "PEXPIRE N 60000"),
		do:    release(fair, "a:1", 0), reply: "2", again: "0",
		state: []string{"limits zset b:1+70s", "queue list b:1", "signs zset b:1+past, TTL 30s"},
		heard: "0 on channel:b:1",
	},
	{
		title: "release/a living one is called from which Java subtracted 300 s",
		given: append(queue("b:1 -230 1.9"), "HSET N a:1 1", "PEXPIRE N 60000"),
		do:    release(fair, "a:1", 0), reply: "2", again: "0",
		state: []string{"limits zset b:1+past", "queue list b:1", "signs zset b:1+3s, TTL 30s"},
		heard: "0 on channel:b:1",
	},
	{
		title: "release/one of two",
		given: append(queue("b:1 70 1.9"), "HSET N a:1 2", "PEXPIRE N 60000"),
		do:    release(fair, "a:1", 1), reply: "1",
		state: []string{"N hash a:1=1, TTL 60s", "limits zset b:1+70s", "queue list b:1", "signs zset b:1+3s, TTL 30s"},
	},
	{
		title: "release/one of two, without end",
		given: []string{"HSET N a:1 2"},
		do:    release(fair, "a:1", 1), reply: "1",
		state: []string{"N hash a:1=1"},
	},
	{
		title: "release/another's",
		given: taken,
		do:    release(fair, "a:1", 0), reply: "0",
		state: []string{"N hash b:1=1, TTL 60s"},
	},
	{title: "release/not held", do: release(fair, "a:1", 0), reply: "0"},
	{
		title: "release/one of two, but only waiting",
		given: append(queue("a:1 70 1.9"), taken...),
		do:    release(fair, "a:1", 1), reply: "0",
		state: []string{"N hash b:1=1, TTL 60s", "limits zset a:1+70s", "queue list a:1", "signs zset a:1+3s, TTL 30s"},
	},
	{
		title: "leave/held",
		given: append(queue("a:1 70 1.9", "c:1 70 1.9"), taken...),
		do:    release(fair, "a:1", 0), reply: "0",
		state: []string{"N hash b:1=1, TTL 60s", "limits zset c:1+70s", "queue list c:1", "signs zset c:1+3s, TTL 30s"},
	},
	{
		title: "leave/held, and a Java waiter has come",
		given: slices.Concat(queue("a:1 70 1.9", "j:7 370 -"), taken, []string{"EXPIRE queue 3600", "EXPIRE limits 3600"}),
		do:    release(fair, "a:1", 0), reply: "0",
		state: []string{"N hash b:1=1, TTL 60s", "limits zset j:7+370s", "queue list j:7"},
	},
	{
		title: "leave/free, the next is called",
		given: queue("a:1 70 1.9", "j:7 300 -"),
		do:    release(fair, "a:1", 0), reply: "0",
		state: []string{"limits zset j:7+300s", "queue list j:7"},
		heard: "0 on channel:j:7",
	},
	{
		title: "leave/free, the last one",
		given: queue("a:1 70 1.9"),
		do:    release(fair, "a:1", 0), reply: "0",
	},
	{
		title: "leave/dropped by Java",
		given: append(taken, "ZADD signs +2 a:1", "PEXPIRE signs 30000"),
		do:    release(fair, "a:1", 0), reply: "0",
		state: []string{"N hash b:1=1, TTL 60s"},
	},
	{
		title: "leave/in the queue twice",
		given: append(queue("a:1 70 1.9", "c:1 70 -"), append(taken, "RPUSH queue a:1")...),
		do:    release(fair, "a:1", 0), reply: "0",
		state: []string{"N hash b:1=1, TTL 60s", "limits zset c:1+70s", "queue list c:1"},
	},
	{
		title: "leave/memory full", full: true,
		given: queue("a:1 70 1.9", "b:1 70 -"),
		do:    release(fair, "a:1", 0), reply: "0",
		state: []string{"limits zset b:1+70s", "queue list b:1"},
		heard: "0 on channel:b:1",
	},
	{
		title: "release/another type",
		given: []string{"SET N x"},
		do:    release(fair, "a:1", 0), reply: "WRONGTYPE",
		state: []string{"N string x"},
	},
	{
		title: "release/memory full", full: true,
		given: []string{"HSET N a:1 1", "PEXPIRE N 60000"},
		do:    release(fair, "a:1", 0), reply: "1", again: "0",
	},
	{
		title: "release/one of two, memory full", full: true,
		given: []string{"HSET N a:1 2", "PEXPIRE N 60000"},
		do:    release(fair, "a:1", 1), reply: "1",
		state: []string{"N hash a:1=1, TTL 60s"},
	},
}

var fairForceRows = []row{
	{
		title: "force/any holder",
		given: append(queue("j:7 -1 -", "c:1 70 1.9"), taken...),
		do:    forceFair(""), reply: "1", again: "0",
		state: []string{"limits zset c:1+70s", "queue list c:1", "signs zset c:1+3s, TTL 30s"},
		heard: "0 on channel:c:1",
	},
	{
		title: "force/foreign data with a mode",
		given: []string{"HSET N mode read name Ann", "EXPIRE N 60"},
		do:    forceFair(""), reply: "WRONGTYPE",
		state: []string{"N hash mode=read name=Ann, TTL 60s"},
	},
	{
		title: "force/that owner",
		given: taken,
		do:    forceFair("b:1"), reply: "1", again: "0",
	},
	{
		title: "force/another owner",
		given: taken,
		do:    forceFair("a:1"), reply: "0",
		state: []string{"N hash b:1=1, TTL 60s"},
	},
	{
		title: "force/free",
		given: queue("c:1 70 1.9"),
		do:    forceFair(""), reply: "0",
		state: []string{"limits zset c:1+70s", "queue list c:1", "signs zset c:1+3s, TTL 30s"},
	},
	{
		title: "force/another type",
		given: []string{"SET N x"},
		do:    forceFair(""), reply: "WRONGTYPE",
		state: []string{"N string x"},
	},
	{title: "inspect/free", do: inspectFair, reply: "[[-2] []]"},
	{
		title: "inspect/held, others wait",
		given: append(queue("j:7 300 -", "c:1 300 -"), taken...),
		do:    inspectFair, reply: `[[60s "b:1" "1"] ["j:7" "c:1"]]`,
		state: []string{"N hash b:1=1, TTL 60s", "limits zset c:1+300s j:7+300s", "queue list j:7 c:1"},
	},
	{
		title: "inspect/without end",
		given: []string{"HSET N b:1 2"},
		do:    inspectFair, reply: `[[-1 "b:1" "2"] []]`,
		state: []string{"N hash b:1=2"},
	},
	{
		title: "inspect/held by a reader",
		given: []string{"HSET N mode read b:1 1"},
		do:    inspectFair, reply: "WRONGTYPE",
		state: []string{"N hash b:1=1 mode=read"},
	},
	{
		title: "inspect/another type",
		given: []string{"SET N x"},
		do:    inspectFair, reply: "WRONGTYPE",
		state: []string{"N string x"},
	},
}

// ours is an owner of a client of Holdfast, by the version of its UUID.
const ours = "01234567-89ab-8def-8123-456789abcdef:1"

// The clients b and c listen for grants. A * after a time means that the server knows it.
var fairGrantRows = []row{
	{
		title: "grant/listening in the queue",
		given: taken,
		do:    acquire(queuedFair, line("a:1")), reply: "[held 60s 0]", // b:1 may be of Redisson
		state: []string{"N hash b:1=1, TTL 60s", "limits zset a:1+10s, TTL 3600s", "queue list a:1, TTL 3600s", "signs zset a:1*+3s, TTL 30s"},
	},
	{
		title: "grant/only clients of Holdfast",
		given: append(queue("c:1 70 1.9"), "HSET N "+ours+" 1", "PEXPIRE N 60000"),
		do:    acquire(queuedFair, line("a:1")), reply: "[held 60s 1]",
		state: []string{"N hash " + ours + "=1, TTL 60s", "limits zset a:1+70s c:1+70s, TTL 3600s", "queue list c:1 a:1, TTL 3600s", "signs zset a:1*+3s c:1+3s, TTL 30s"},
	},
	{
		title: "grant/a Java waiter ahead",
		given: append(queue("j:7 300 -"), "HSET N "+ours+" 1", "PEXPIRE N 60000"),
		do:    acquire(queuedFair, line("a:1")), reply: "[held 60s 0]",
		state: []string{"N hash " + ours + "=1, TTL 60s", "limits zset a:1+310s j:7+300s", "queue list j:7 a:1", "signs zset a:1*+3s, TTL 30s"},
	},
	{
		title: "grant/listens from now on",
		given: append(queue("a:1 70 2.4"), taken...),
		do:    acquire(queuedFair, line("a:1")), reply: "[held 60s 0]",
		state: []string{"N hash b:1=1, TTL 60s", "limits zset a:1+10s, TTL 3600s", "queue list a:1, TTL 3600s", "signs zset a:1*+3s, TTL 30s"},
	},
	{
		title: "grant/to the next",
		given: append(queue("b:1 70 1.9005", "c:1 70 1.9"), "HSET N a:1 1", "PEXPIRE N 60000"),
		do:    passOf(queuedFair, 1), reply: "2", again: "0",
		state: []string{"limits zset b:1+70s c:1+70s", "queue list b:1 c:1", "signs zset b:1*+3s c:1+3s, TTL 30s"},
		heard: "b:1 on line:b, 0 on channel:b:1",
	},
	{
		title: "grant/to the next, who is granted it already",
		given: []string{"HSET N b:1 1", "PEXPIRE N 2000"},
		do:    acquire(queuedFair, line("b:1")), reply: "token",
		state: []string{"N hash b:1=1, TTL 60s"},
	},
	{
		title: "grant/the next does not listen",
		given: append(queue("d:1 70 1.9005"), "HSET N a:1 1", "PEXPIRE N 60000"),
		do:    passOf(queuedFair, 1), reply: "1", again: "0",
		state: []string{"limits zset d:1+70s", "queue list d:1", "signs zset d:1*+3s, TTL 30s"},
	},
	{
		title: "grant/the next polls",
		given: append(queue("b:1 70 1.9"), "HSET N a:1 1", "PEXPIRE N 60000"),
		do:    passOf(queuedFair, 1), reply: "2", again: "0",
		state: []string{"limits zset b:1+70s", "queue list b:1", "signs zset b:1+3s, TTL 30s"},
		heard: "0 on channel:b:1",
	},
	{
		title: "grant/a Java waiter is next",
		given: append(queue("j:7 300 -", "b:1 70 1.9005"), "HSET N a:1 1", "PEXPIRE N 60000"),
		do:    passOf(queuedFair, 1), reply: "2", again: "0",
		state: []string{"limits zset b:1+70s j:7+300s", "queue list j:7 b:1", "signs zset b:1*+3s, TTL 30s"},
		heard: "0 on channel:j:7",
	},
	{
		title: "grant/after the first in the queue has given up",
		given: queue("a:1 70 1.9005", "b:1 70 1.9005"),
		do:    passOf(queuedFair, 1), reply: "0",
		state: []string{"limits zset b:1+70s", "queue list b:1", "signs zset b:1*+3s, TTL 30s"},
		heard: "b:1 on line:b, 0 on channel:b:1",
	},
	{
		title: "grant/released by a client that grants nothing",
		given: append(queue("b:1 70 1.9005"), "HSET N a:1 1", "PEXPIRE N 60000"),
		do:    release(fair, "a:1", 0), reply: "2", again: "0",
		state: []string{"limits zset b:1+70s", "queue list b:1", "signs zset b:1*+3s, TTL 30s"},
		heard: "b:1 on line:b, 0 on channel:b:1",
	},
}

func TestFair(t *testing.T) { check(t, fairRows) }

// Waiters are served in order of arrival. No keys are left at the end.
func TestFairOrder(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	inAMoment(t, s, d, "N", func(l *lab) {
		l.run("HSET N j:7 1", "PEXPIRE N 60000")
		owners := []string{"a:1", "b:1", "c:1"}
		for _, o := range owners {
			l.call(d, acquire(fair, wait(o)))
		}
		l.run("DEL N") // expired: no waiter is called
		for i, o := range owners {
			for _, other := range owners[i+1:] {
				if got := l.call(d, acquire(fair, wait(other))); got != "held 10s" {
					l.wrong("%s before %s: %s", other, o, got)
				}
			}
			if got := l.call(d, acquire(fair, wait(o))); got != "token" {
				l.wrong("%s: %s", o, got)
			}
			l.hears("")
			l.call(d, release(fair, o, 0))
			if i+1 < len(owners) {
				l.hears("0 on channel:" + owners[i+1])
			}
		}
		l.has()
	})
}

func TestFairInspect(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	l := newLab(t, s, d, "N")
	l.run("HSET N b:1 2", "PEXPIRE N 60000", "RPUSH queue a:1 j:7")
	got, err := script.NewFair("N").Inspect(t.Context(), d)
	if err != nil || got.Owner != "b:1" || got.Count != 2 || !slices.Equal(got.Waiting, []string{"a:1", "j:7"}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got.TTL > time.Minute || got.TTL < 50*time.Second {
		t.Errorf("TTL %v", got.TTL)
	}
}

// After a standstill, the first request may come from a new client. It cannot
// know which waiters are dead. It knows no more a moment later, when it asks
// again because its subscription is confirmed.
func TestFairNewcomer(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	inAMoment(t, s, d, "N", func(l *lab) {
		l.run(queue("b:1 70 -1", "c:1 70 -1")...)
		for range 2 {
			if got := l.call(d, acquire(fair, wait("a:1"))); got == "token" {
				l.wrong("a:1 came last and got it first")
			}
		}
		if got := l.call(d, acquire(fair, wait("b:1"))); got != "token" {
			l.wrong("b:1 came first and got: %s", got)
		}
	})
}

// Java and Holdfast waiters alternate in a queue that is never empty. The limits
// must not grow: no client subtracts what Holdfast adds to a limit.
func TestFairLimitsStay(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	l := newLab(t, s, d, "N")
	l.run("HSET N b:1 1", "PEXPIRE N 30000")
	limit := func(owner string) int64 { return s.Int(t, "ZSCORE", l.long("limits"), owner) }
	last := ""
	for i := range 100 { // a Java waiter and one of ours come, and those before them are through
		java, ours := fmt.Sprint("j:", i), fmt.Sprint("a:", i)
		after := now(t, s) + 30_000
		if last != "" {
			after = limit(last)
		}
		l.run("RPUSH queue "+java, fmt.Sprintf("ZADD limits %d %s", after+300_000, java))
		l.call(d, acquire(fair, wait(ours)))
		if last != "" {
			l.run("LPOP queue", "LPOP queue", "ZREM limits "+last, fmt.Sprintf("ZREM limits j:%d", i-1), "ZREM signs "+last)
			l.run("ZINCRBY limits -300000 "+java, "ZINCRBY limits -300000 "+ours)
		}
		last = ours
	}
	if left := limit(last) - now(t, s); left > 400_000 {
		t.Errorf("after 100 rounds one is waited for %d ms, want about 330,000", left)
	}
}

// A Java waiter adds its waiting time to its limit when it joins the queue, and
// so to the limits behind it. When it gets the lock, it subtracts that time from
// the limits of all other waiters.
// A waiter behind it must not look dead then, because the Java client sweeps the
// queue next.
func TestFairBehindJava(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	l := newLab(t, s, d, "N")
	l.run("HSET N b:1 1", "PEXPIRE N 30000")
	l.run("RPUSH queue j:7", "ZADD limits +200 j:7") // came 100 s ago or more, waits for 300
	l.call(d, acquire(fair, wait("a:1")))
	l.run("DEL N")
	l.run("LPOP queue", "ZREM limits j:7", "ZINCRBY limits -300000 a:1", "HSET N j:7 1", "PEXPIRE N 30000") // j:7 gets it
	if left := s.Int(t, "ZSCORE", l.long("limits"), "a:1") - now(t, s); left <= 0 {
		t.Errorf("a:1 is dead by Redisson's rule since %d ms, and would be swept when j:7 unlocks", -left)
	}
}
