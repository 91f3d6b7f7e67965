package script_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

func forceRead(ctx context.Context, d driver.Driver, name string) error {
	_, err := script.NewRead(name).Force(ctx, d)
	return err
}

func forceWrite(ctx context.Context, d driver.Driver, name string) error {
	_, err := script.NewWrite(name, false).Force(ctx, d)
	return err
}

func inspectRW(ctx context.Context, d driver.Driver, name string) error {
	_, err := script.NewRead(name).Inspect(ctx, d, "")
	return err
}

// renewReads renews the holds of readers for 60 s.
func renewReads(owners ...string) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		var hs []script.LockRef
		for _, o := range owners {
			hs = append(hs, script.NewRead(name).Ref(o))
		}
		_, err := d.Do(ctx, renewEach(time.Minute, hs))
		return err
	}
}

// reads lets one reader read, for as many seconds as each of its holds has,
// and writes one writer write.
func reads(owner string, holds ...int) []string {
	commands := []string{"HSET N mode read", fmt.Sprintf("HSET N %s %d", owner, len(holds)), fmt.Sprintf("EXPIRE N %d", slices.Max(holds))}
	for i, s := range holds {
		if s > 0 { // else it is over
			commands = append(commands, fmt.Sprintf("SET %s#%d 1 EX %d", owner, i+1, s))
		}
	}
	return commands
}

func writes(owner string, count, s int) []string {
	return []string{fmt.Sprintf("HSET N mode write %s:write %d", owner, count), fmt.Sprintf("EXPIRE N %d", s)}
}

// writerWaits keeps readers out.
var writerWaits = []string{"ZADD writers +3 c:1:write", "PEXPIRE writers 3000"}

// ofMutex is the hash of a lock of another kind.
var ofMutex = []string{"HSET N b:1 1", "EXPIRE N 60"}

var rwRows = slices.Concat(readAcquireRows, readReleaseRows, readRenewRows, writeAcquireRows, writeReleaseRows, rwForceRows, rwInspectRows)

var readAcquireRows = []row{
	{
		title: "read/free",
		do:    acquire(read, try("a:1")), reply: "token",
		state: []string{"N hash a:1=1 mode=read, TTL 60s", "a:1#1 string 1, TTL 60s"},
	},
	{
		title: "read/free, with a key of an earlier hold",
		given: []string{"SET a:1#1 1 EX 600"},
		do:    acquire(read, try("a:1")), reply: "token",
		state: []string{"N hash a:1=1 mode=read, TTL 60s", "a:1#1 string 1, TTL 60s"},
	},
	{
		title: "read/beside one who stays longer",
		given: reads("j:7", 600),
		do:    acquire(read, try("a:1")), reply: "token",
		state: []string{"N hash a:1=1 j:7=1 mode=read, TTL 600s", "a:1#1 string 1, TTL 60s", "j:7#1 string 1, TTL 600s"},
	},
	{
		title: "read/beside one who stays shorter",
		given: reads("j:7", 30),
		do:    acquire(read, try("a:1")), reply: "token",
		state: []string{"N hash a:1=1 j:7=1 mode=read, TTL 60s", "a:1#1 string 1, TTL 60s", "j:7#1 string 1, TTL 30s"},
	},
	{
		title: "read/held by a writer",
		given: writes("b:1", 1, 100),
		do:    acquire(read, try("a:1")), reply: "held 100s",
		state: []string{"N hash b:1:write=1 mode=write, TTL 100s"},
	},
	{
		title: "read/held by a Java writer that entered three times", // each time adds the lease
		given: writes("j:7", 3, 90),
		do:    acquire(read, try("a:1")), reply: "held 90s",
		state: []string{"N hash j:7:write=3 mode=write, TTL 90s"},
	},
	{
		title: "read/held by a writer without end",
		given: []string{"HSET N mode write b:1:write 1"},
		do:    acquire(read, try("a:1")), reply: "0",
		state: []string{"N hash b:1:write=1 mode=write"},
	},
	{
		title: "read/held by a mutex",
		given: ofMutex,
		do:    acquire(read, try("a:1")), reply: "held 60s",
		state: []string{"N hash b:1=1, TTL 60s"},
	},
	{
		title: "read/under the writer",
		given: slices.Concat(writes("b:1", 1, 100), writerWaits),
		do:    acquire(read, under("a:1", "b:1")), reply: "token",
		state: []string{"N hash a:1=1 b:1:write=1 mode=write, TTL 100s", "a:1#1 string 1, TTL 60s", "writers zset c:1:write+3s, TTL 3s"},
	},
	{
		title: "read/under the writer, for longer",
		given: writes("b:1", 1, 30),
		do:    acquire(read, under("a:1", "b:1")), reply: "token",
		state: []string{"N hash a:1=1 b:1:write=1 mode=write, TTL 60s", "a:1#1 string 1, TTL 60s"},
	},
	{
		title: "read/under a writer that lost it to another",
		given: writes("j:7", 1, 100),
		do:    acquire(read, under("a:1", "b:1")), reply: "held 100s",
		state: []string{"N hash j:7:write=1 mode=write, TTL 100s"},
	},
	{
		title: "read/under a writer that lost it to readers",
		given: reads("j:7", 60),
		do:    acquire(read, under("a:1", "b:1")), reply: "token",
		state: []string{"N hash a:1=1 j:7=1 mode=read, TTL 60s", "a:1#1 string 1, TTL 60s", "j:7#1 string 1, TTL 60s"},
	},
	{
		title: "read/a writer goes first",
		given: []string{"ZADD writers +20 c:1:write", "EXPIRE writers 20"},
		do:    acquire(read, try("a:1")), reply: "held 20s",
		state: []string{"writers zset c:1:write+20s, TTL 20s"},
	},
	{
		title: "read/a writer goes first, others read",
		given: slices.Concat(reads("j:7", 600), writerWaits),
		do:    acquire(read, try("a:1")), reply: "held 3s",
		state: []string{"N hash j:7=1 mode=read, TTL 600s", "j:7#1 string 1, TTL 600s", "writers zset c:1:write+3s, TTL 3s"},
	},
	{
		title: "read/again, although a writer waits",
		given: slices.Concat(reads("a:1", 60), writerWaits),
		do:    acquire(read, again("a:1", 2, 600)), reply: "token",
		state: []string{"N hash a:1=2 mode=read, TTL 600s", "a:1#1 string 1, TTL 60s", "a:1#2 string 1, TTL 600s", "writers zset c:1:write+3s, TTL 3s"},
	},
	{
		title: "read/again, shorter",
		given: reads("a:1", 600),
		do:    acquire(read, again("a:1", 2, 60)), reply: "token",
		state: []string{"N hash a:1=2 mode=read, TTL 600s", "a:1#1 string 1, TTL 600s", "a:1#2 string 1, TTL 60s"},
	},
	{
		title: "read/again, one of two holds is over",
		given: reads("a:1", 0, 60),
		do:    acquire(read, again("a:1", 3, 60)), reply: "token",
		state: []string{"N hash a:1=3 mode=read, TTL 60s", "a:1#2 string 1, TTL 60s", "a:1#3 string 1, TTL 60s"},
	},
	{
		title: "read/again, dead, but others read",
		given: slices.Concat(reads("j:7", 60), []string{"HSET N a:1 1"}),
		do:    acquire(read, again("a:1", 2, 60)), reply: "held past",
		state: []string{"N hash a:1=1 j:7=1 mode=read, TTL 60s", "j:7#1 string 1, TTL 60s"},
	},
	{title: "read/again, gone", do: acquire(read, again("a:1", 2, 60)), reply: "held past"},
	{
		title: "read/again, taken by a writer",
		given: writes("b:1", 1, 60),
		do:    acquire(read, again("a:1", 2, 60)), reply: "held past",
		state: []string{"N hash b:1:write=1 mode=write, TTL 60s"},
	},
	{
		title: "read/another type",
		given: []string{"SET N x"},
		do:    acquire(read, try("a:1")), reply: "WRONGTYPE",
		state: []string{"N string x"},
	},
	{
		title: "read/foreign data",
		given: []string{"HSET N mode read title x", "EXPIRE N 60"},
		do:    acquire(read, try("a:1")), reply: "WRONGTYPE",
		state: []string{"N hash mode=read title=x, TTL 60s"},
	},
	{
		title: "read/foreign data without end",
		given: []string{"HSET N mode read user:1 5"},
		do:    acquire(read, try("a:1")), reply: "WRONGTYPE",
		state: []string{"N hash mode=read user:1=5"},
	},
	{
		title: "read/a mode and nothing else",
		given: []string{"HSET N mode read", "EXPIRE N 60"},
		do:    acquire(read, try("a:1")), reply: "WRONGTYPE",
		state: []string{"N hash mode=read, TTL 60s"},
	},
	{
		title: "read/beside a count that is none",
		given: []string{"HSET N mode read b:1 9000000000000000000", "EXPIRE N 60"},
		do:    acquire(read, try("a:1")), reply: "WRONGTYPE",
		state: []string{"N hash b:1=9000000000000000000 mode=read, TTL 60s"},
	},
	{
		title: "read/beside one that entered very often", // as a Java thread can
		given: []string{"HSET N mode read j:7 99999", "EXPIRE N 60"},
		do:    acquire(read, try("a:1")), reply: "token",
		state: []string{"N hash a:1=1 j:7=99999 mode=read, TTL 60s", "a:1#1 string 1, TTL 60s"},
	},
	{
		title: "read/again, its count is none",
		given: append(reads("a:1", 60), "HSET N a:1 9000000000000000000"),
		do:    acquire(read, again("a:1", 2, 60)), reply: "WRONGTYPE",
		state: []string{"N hash a:1=9000000000000000000 mode=read, TTL 60s", "a:1#1 string 1, TTL 60s"},
	},
	{
		title: "read/again, too often",
		given: reads("a:1", 60),
		do:    acquire(read, again("a:1", 1001, 60)), reply: "ERR",
		state: []string{"N hash a:1=1 mode=read, TTL 60s", "a:1#1 string 1, TTL 60s"},
	},
	{
		title: "read/a writer went first, and is dead",
		given: []string{"ZADD writers +-1 c:1:write"},
		do:    acquire(read, try("a:1")), reply: "token",
		state: []string{"N hash a:1=1 mode=read, TTL 60s", "a:1#1 string 1, TTL 60s", "writers zset c:1:write+past"},
	},
	{
		title: "read/a writer goes first for ever",
		given: []string{"ZADD writers 9000000000000000 c:1:write"},
		do:    acquire(read, try("a:1")), reply: "token",
		state: []string{"N hash a:1=1 mode=read, TTL 60s", "a:1#1 string 1, TTL 60s", "writers zset c:1:write+never"},
	},
	{title: "read/memory full", full: true, do: acquire(read, try("a:1")), reply: "OOM"},
	{
		title: "read/again, memory full", full: true,
		given: reads("a:1", 60),
		do:    acquire(read, again("a:1", 2, 600)), reply: "OOM",
		state: []string{"N hash a:1=1 mode=read, TTL 60s", "a:1#1 string 1, TTL 60s"},
	},
}

var readReleaseRows = []row{
	{
		title: "leave read/last",
		given: reads("a:1", 60, 600),
		do:    release(read, "a:1", 0), reply: "2", again: "0",
		heard: "0 on rw",
	},
	{
		title: "leave read/others stay",
		given: slices.Concat(reads("j:7", 60), reads("a:1", 600)),
		do:    release(read, "a:1", 0), reply: "1", again: "0",
		state: []string{"N hash j:7=1 mode=read, TTL 60s", "j:7#1 string 1, TTL 60s"},
	},
	{
		title: "leave read/others stay as long",
		given: slices.Concat(reads("b:1", 60), reads("j:7", 60), reads("a:1", 60)),
		do:    release(read, "a:1", 0), reply: "1", again: "0",
		state: []string{"N hash b:1=1 j:7=1 mode=read, TTL 60s", "b:1#1 string 1, TTL 60s", "j:7#1 string 1, TTL 60s"},
	},
	{
		title: "leave read/others stay longer",
		given: slices.Concat(reads("a:1", 60), reads("j:7", 600)),
		do:    release(read, "a:1", 0), reply: "1", again: "0",
		state: []string{"N hash j:7=1 mode=read, TTL 600s", "j:7#1 string 1, TTL 600s"},
	},
	{
		title: "leave read/its key has another type", // its name says that it belongs to the reader
		given: append(reads("a:1", 60), "DEL a:1#1", "RPUSH a:1#1 x"),
		do:    release(read, "a:1", 0), reply: "2", again: "0",
		heard: "0 on rw",
	},
	{
		title: "leave read/its key has another type, others stay",
		given: append(reads("j:7", 60), "HSET N a:1 1", "RPUSH a:1#1 x"),
		do:    release(read, "a:1", 0), reply: "1", again: "0",
		state: []string{"N hash j:7=1 mode=read, TTL 60s", "j:7#1 string 1, TTL 60s"},
	},
	{
		title: "leave read/others stay, memory full", full: true,
		given: slices.Concat(reads("j:7", 60), reads("a:1", 600)),
		do:    release(read, "a:1", 0), reply: "1", again: "0",
		state: []string{"N hash j:7=1 mode=read, TTL 60s", "j:7#1 string 1, TTL 60s"},
	},
	{
		title: "leave read/a Java reader stays, one of its holds is over",
		given: slices.Concat(reads("j:7", 60, 0), reads("a:1", 600)),
		do:    release(read, "a:1", 0), reply: "1", again: "0",
		state: []string{"N hash j:7=2 mode=read, TTL 60s", "j:7#1 string 1, TTL 60s"},
	},
	{
		title: "leave read/others stay, but Java cut the TTL of all",
		given: slices.Concat(reads("j:7", 600), reads("a:1", 30)),
		do:    release(read, "a:1", 0), reply: "1", again: "0",
		state: []string{"N hash j:7=1 mode=read, TTL 600s", "j:7#1 string 1, TTL 600s"},
	},
	{
		title: "leave read/others are dead",
		given: append(reads("a:1", 600), "HSET N j:7 2"),
		do:    release(read, "a:1", 0), reply: "2", again: "0",
		heard: "0 on rw",
	},
	{
		title: "leave read/others live and die",
		given: slices.Concat(reads("b:1", 60), reads("a:1", 600), []string{"HSET N j:7 2"}),
		do:    release(read, "a:1", 0), reply: "1", again: "0",
		state: []string{"N hash b:1=1 mode=read, TTL 60s", "b:1#1 string 1, TTL 60s"},
	},
	{
		title: "leave read/others stay, without end",
		given: slices.Concat(reads("j:7", 60), reads("a:1", 60), []string{"PERSIST N"}),
		do:    release(read, "a:1", 0), reply: "1", again: "0",
		state: []string{"N hash j:7=1 mode=read, TTL 60s", "j:7#1 string 1, TTL 60s"},
	},
	{
		title: "leave read/others live and die, without end",
		given: slices.Concat(reads("b:1", 60), reads("a:1", 60), []string{"HSET N j:7 2", "PERSIST N"}),
		do:    release(read, "a:1", 0), reply: "1", again: "0",
		state: []string{"N hash b:1=1 mode=read, TTL 60s", "b:1#1 string 1, TTL 60s"},
	},
	{
		title: "leave read/one of two",
		given: reads("a:1", 60, 600),
		do:    release(read, "a:1", 1), reply: "1",
		state: []string{"N hash a:1=1 mode=read, TTL 600s", "a:1#1 string 1, TTL 600s"},
	},
	{
		title: "leave read/one of two, memory full", full: true,
		given: reads("a:1", 60, 600),
		do:    release(read, "a:1", 1), reply: "1",
		state: []string{"N hash a:1=1 mode=read, TTL 600s", "a:1#1 string 1, TTL 600s"},
	},
	{
		title: "leave read/one of two, the other is over",
		given: reads("a:1", 0, 60),
		do:    release(read, "a:1", 1), reply: "1",
		state: []string{"N hash a:1=1 mode=read, TTL 60s", "a:1#1 string 1, TTL 60s"},
	},
	{
		title: "leave read/two of three",
		given: reads("a:1", 60, 600, 100),
		do:    release(read, "a:1", 1), reply: "1",
		state: []string{"N hash a:1=1 mode=read, TTL 600s", "a:1#1 string 1, TTL 600s"},
	},
	{
		title: "leave read/one of three",
		given: reads("a:1", 600, 60, 100),
		do:    release(read, "a:1", 2), reply: "1",
		state: []string{"N hash a:1=2 mode=read, TTL 600s", "a:1#1 string 1, TTL 600s", "a:1#2 string 1, TTL 100s"},
	},
	{
		title: "leave read/one of two, dead, but others read",
		given: append(reads("j:7", 60), "HSET N a:1 2"),
		do:    release(read, "a:1", 1), reply: "1",
		state: []string{"N hash a:1=1 j:7=1 mode=read, TTL 60s", "j:7#1 string 1, TTL 60s"},
	},
	{
		title: "leave read/under a writer",
		given: append(reads("a:1", 60), writes("b:1", 1, 100)...),
		do:    release(read, "a:1", 0), reply: "1", again: "0",
		state: []string{"N hash b:1:write=1 mode=write, TTL 100s"},
	},
	{
		title: "leave read/dead, but others read", // no writer came in since it died
		given: append(reads("j:7", 60), "HSET N a:1 1"),
		do:    release(read, "a:1", 0), reply: "1", again: "0",
		state: []string{"N hash j:7=1 mode=read, TTL 60s", "j:7#1 string 1, TTL 60s"},
	},
	{
		title: "leave read/others read",
		given: reads("j:7", 60),
		do:    release(read, "a:1", 0), reply: "0",
		state: []string{"N hash j:7=1 mode=read, TTL 60s", "j:7#1 string 1, TTL 60s"},
	},
	{
		title: "leave read/its count is none",
		given: append(reads("a:1", 60), "HSET N a:1 9000000000000000000"),
		do:    release(read, "a:1", 0), reply: "WRONGTYPE",
		state: []string{"N hash a:1=9000000000000000000 mode=read, TTL 60s", "a:1#1 string 1, TTL 60s"},
	},
	{
		title: "leave read/another's count is none", // it counts as long as the lock lasts
		given: append(reads("a:1", 60), "HSET N b:1 9000000000000000000"),
		do:    release(read, "a:1", 0), reply: "1", again: "0",
		state: []string{"N hash b:1=9000000000000000000 mode=read, TTL 60s"},
	},
	{
		title: "leave read/others entered very often",
		given: append(reads("a:1", 60), "HSET N j:7 99999"),
		do:    release(read, "a:1", 0), reply: "1", again: "0",
		state: []string{"N hash j:7=99999 mode=read, TTL 60s"},
	},
	{
		title: "leave read/foreign fields in the hash",
		given: append(reads("a:1", 60), "HSET N title x user:1 5"),
		do:    release(read, "a:1", 0), reply: "1", again: "0",
		state: []string{"N hash mode=read title=x user:1=5, TTL 60s"},
	},
	{
		title: "leave read/a hold of another has no end",
		given: slices.Concat(reads("j:7", 60), reads("a:1", 600), []string{"PERSIST j:7#1"}),
		do:    release(read, "a:1", 0), reply: "1", again: "0",
		state: []string{"N hash j:7=1 mode=read, TTL 600s", "j:7#1 string 1"},
	},
	{
		title: "leave read/Java cut the TTL of all, two stay",
		given: slices.Concat(reads("j:7", 900), reads("b:1", 600), reads("a:1", 30)),
		do:    release(read, "a:1", 0), reply: "1", again: "0",
		state: []string{"N hash b:1=1 j:7=1 mode=read, TTL 900s", "b:1#1 string 1, TTL 600s", "j:7#1 string 1, TTL 900s"},
	},
	{title: "leave read/no readers", do: release(read, "a:1", 0), reply: "0"},
	{
		title: "leave read/held by a mutex",
		given: ofMutex,
		do:    release(read, "a:1", 0), reply: "0",
		state: []string{"N hash b:1=1, TTL 60s"},
	},
	{
		title: "leave read/another type",
		given: []string{"SET N x"},
		do:    release(read, "a:1", 0), reply: "WRONGTYPE",
		state: []string{"N string x"},
	},
}

var readRenewRows = []row{
	{
		title: "renew read/all holds of one, and no other's",
		given: slices.Concat(reads("j:7", 20), reads("a:1", 10, 20)),
		do:    renewReads("a:1", "b:1"), reply: "[1 0]",
		state: []string{"N hash a:1=2 j:7=1 mode=read, TTL 60s", "a:1#1 string 1, TTL 60s", "a:1#2 string 1, TTL 60s", "j:7#1 string 1, TTL 20s"},
	},
	{
		title: "renew read/never shorter",
		given: reads("a:1", 600),
		do:    renewReads("a:1"), reply: "[1]",
		state: []string{"N hash a:1=1 mode=read, TTL 600s", "a:1#1 string 1, TTL 600s"},
	},
	{
		title: "renew read/one of two holds is over",
		given: reads("a:1", 0, 20),
		do:    renewReads("a:1"), reply: "[1]",
		state: []string{"N hash a:1=2 mode=read, TTL 60s", "a:1#2 string 1, TTL 60s"},
	},
	{
		title: "renew read/dead, but others read",
		given: append(reads("j:7", 20), "HSET N a:1 1"),
		do:    renewReads("a:1"), reply: "[0]",
		state: []string{"N hash a:1=1 j:7=1 mode=read, TTL 20s", "j:7#1 string 1, TTL 20s"},
	},
	{
		title: "renew read/its count is none",
		given: append(reads("a:1", 20), "HSET N a:1 9000000000000000000"),
		do:    renewReads("a:1"), reply: "[1]",
		state: []string{"N hash a:1=9000000000000000000 mode=read, TTL 60s", "a:1#1 string 1, TTL 60s"},
	},
	{
		title: "renew read/memory full", full: true,
		given: reads("a:1", 20),
		do:    renewReads("a:1"), reply: "[1]",
		state: []string{"N hash a:1=1 mode=read, TTL 60s", "a:1#1 string 1, TTL 60s"},
	},
	{
		title: "renew read/held by a mutex",
		given: ofMutex,
		do:    renewReads("a:1"), reply: "[0]",
		state: []string{"N hash b:1=1, TTL 60s"},
	},
	{title: "renew read/gone", do: renewReads("a:1"), reply: "[0]"},
	{
		title: "renew read/another type",
		given: []string{"SET N x"},
		do:    renewReads("a:1"), reply: "[0]",
		state: []string{"N string x"},
	},
}

var writeAcquireRows = []row{
	{
		title: "write/readers whom the lock outlasts",
		given: append(reads("j:7", 60), "EXPIRE N 600"),
		do:    acquire(write, try("a:1")), reply: "held 60s",
		state: []string{"N hash j:7=1 mode=read, TTL 600s", "j:7#1 string 1, TTL 60s"},
	},
	{
		title: "write/readers that outlast the lock", // as Java leaves it
		given: append(reads("j:7", 600), "EXPIRE N 60"),
		do:    acquire(write, try("a:1")), reply: "held 60s",
		state: []string{"N hash j:7=1 mode=read, TTL 60s", "j:7#1 string 1, TTL 600s"},
	},
	{
		title: "write/free",
		do:    acquire(write, wait("a:1")), reply: "token",
		state: []string{"N hash a:1:write=1 mode=write, TTL 60s"},
	},
	{
		title: "write/free, it waited, and others do",
		given: append(writerWaits, "ZADD writers +3 a:1:write"),
		do:    acquire(writeFirst, wait("a:1")), reply: "token",
		state: []string{"N hash a:1:write=1 mode=write, TTL 60s", "writers zset c:1:write+3s, TTL 3s"},
	},
	{
		title: "write/free, it alone waited",
		given: []string{"ZADD writers +3 a:1:write"},
		do:    acquire(writeFirst, wait("a:1")), reply: "token",
		state: []string{"N hash a:1:write=1 mode=write, TTL 60s"},
	},
	{
		title: "write/held by a reader",
		given: reads("j:7", 100),
		do:    acquire(write, wait("a:1")), reply: "held 100s",
		state: []string{"N hash j:7=1 mode=read, TTL 100s", "j:7#1 string 1, TTL 100s"},
	},
	{
		title: "write/held by readers that are dead",
		given: []string{"HSET N mode read j:7 2 b:1 1", "EXPIRE N 600"},
		do:    acquire(write, wait("a:1")), reply: "token",
		state: []string{"N hash a:1:write=1 mode=write, TTL 60s"},
	},
	{
		title: "write/held by a reader that is alive, and one that is dead",
		given: append(reads("j:7", 100), "HSET N b:1 1"),
		do:    acquire(write, wait("a:1")), reply: "held 100s",
		state: []string{"N hash j:7=1 mode=read, TTL 100s", "j:7#1 string 1, TTL 100s"},
	},
	{
		title: "write/foreign data",
		given: []string{"HSET N mode read title x user:1 5", "EXPIRE N 60"},
		do:    acquire(write, wait("a:1")), reply: "held 60s",
		state: []string{"N hash mode=read title=x user:1=5, TTL 60s"},
	},
	{
		title: "write/held by its own reading",
		given: reads("a:1", 100),
		do:    acquire(write, try("a:1")), reply: "held 100s",
		state: []string{"N hash a:1=1 mode=read, TTL 100s", "a:1#1 string 1, TTL 100s"},
	},
	{
		title: "write/held by a reader, goes first",
		given: reads("j:7", 100),
		do:    acquire(writeFirst, wait("a:1")), reply: "held 100s",
		state: []string{"N hash j:7=1 mode=read, TTL 100s", "j:7#1 string 1, TTL 100s", "writers zset a:1:write+3s, TTL 3s"},
	},
	{
		title: "write/held by a reader, would go first, but does not wait",
		given: reads("j:7", 100),
		do:    acquire(writeFirst, try("a:1")), reply: "held 100s",
		state: []string{"N hash j:7=1 mode=read, TTL 100s", "j:7#1 string 1, TTL 100s"},
	},
	{
		title: "write/held by another",
		given: slices.Concat(writes("b:1", 1, 100), writerWaits, []string{"PEXPIRE writers 1000"}),
		do:    acquire(writeFirst, wait("a:1")), reply: "held 100s",
		state: []string{"N hash b:1:write=1 mode=write, TTL 100s", "writers zset a:1:write+3s c:1:write+3s, TTL 3s"},
	},
	{
		title: "write/held by another without end",
		given: []string{"HSET N mode write b:1:write 1"},
		do:    acquire(write, try("a:1")), reply: "0",
		state: []string{"N hash b:1:write=1 mode=write"},
	},
	{
		title: "write/held by a mutex",
		given: ofMutex,
		do:    acquire(write, try("a:1")), reply: "held 60s",
		state: []string{"N hash b:1=1, TTL 60s"},
	},
	{
		title: "write/again, longer",
		given: writes("a:1", 1, 60),
		do:    acquire(write, again("a:1", 2, 600)), reply: "token",
		state: []string{"N hash a:1:write=2 mode=write, TTL 600s"},
	},
	{
		title: "write/again, shorter", // Java would add them up
		given: writes("a:1", 1, 90),
		do:    acquire(write, again("a:1", 2, 60)), reply: "token",
		state: []string{"N hash a:1:write=2 mode=write, TTL 90s"},
	},
	{title: "write/again, gone", do: acquire(write, again("a:1", 2, 60)), reply: "held past"},
	{
		title: "write/again, taken by another",
		given: writes("b:1", 1, 60),
		do:    acquire(write, again("a:1", 2, 60)), reply: "held 60s",
		state: []string{"N hash b:1:write=1 mode=write, TTL 60s"},
	},
	{
		title: "write/another type",
		given: []string{"SET N x"},
		do:    acquire(writeFirst, wait("a:1")), reply: "WRONGTYPE",
		state: []string{"N string x"},
	},
	{
		title: "write/free, those who wait of another type: nothing is taken",
		given: []string{"SET writers x"},
		do:    acquire(write, try("a:1")), reply: "WRONGTYPE",
		state: []string{"writers string x"},
	},
	{title: "write/memory full", full: true, do: acquire(write, try("a:1")), reply: "OOM"},
	{
		title: "write/again, memory full", full: true,
		given: writes("a:1", 1, 60),
		do:    acquire(write, again("a:1", 2, 600)), reply: "OOM",
		state: []string{"N hash a:1:write=1 mode=write, TTL 60s"},
	},
	{
		title: "write/goes first, memory full", full: true,
		given: writes("b:1", 1, 60),
		do:    acquire(writeFirst, wait("a:1")), reply: "OOM",
		state: []string{"N hash b:1:write=1 mode=write, TTL 60s"},
	},
}

var writeReleaseRows = []row{
	{
		title: "leave write/last",
		given: writes("a:1", 3, 60),
		do:    release(write, "a:1", 0), reply: "2", again: "0",
		heard: "1 on rw, 0 on rw",
	},
	{
		title: "leave write/what it read stays", // and others may read: Java would not tell them
		given: append(reads("b:1", 60), writes("a:1", 1, 600)...),
		do:    release(write, "a:1", 0), reply: "2", again: "0",
		state: []string{"N hash b:1=1 mode=read, TTL 60s", "b:1#1 string 1, TTL 60s"},
		heard: "1 on rw, 0 on rw",
	},
	{
		title: "leave write/what it read stays longer",
		given: append(reads("b:1", 600), writes("a:1", 1, 60)...),
		do:    release(write, "a:1", 0), reply: "2", again: "0",
		state: []string{"N hash b:1=1 mode=read, TTL 600s", "b:1#1 string 1, TTL 600s"},
		heard: "1 on rw, 0 on rw",
	},
	{
		title: "leave write/what it read stays, memory full", full: true,
		given: append(reads("b:1", 60), writes("a:1", 1, 600)...),
		do:    release(write, "a:1", 0), reply: "2", again: "0",
		state: []string{"N hash b:1=1 mode=read, TTL 60s", "b:1#1 string 1, TTL 60s"},
		heard: "1 on rw, 0 on rw",
	},
	{
		title: "leave write/what it read is over",
		given: append(writes("a:1", 1, 60), "HSET N b:1 1"),
		do:    release(write, "a:1", 0), reply: "2", again: "0",
		heard: "1 on rw, 0 on rw",
	},
	{
		title: "leave write/one of two",
		given: writes("a:1", 2, 60),
		do:    release(write, "a:1", 1), reply: "1",
		state: []string{"N hash a:1:write=1 mode=write, TTL 60s"},
	},
	{
		title: "leave write/one of two, without end",
		given: []string{"HSET N mode write a:1:write 2"},
		do:    release(write, "a:1", 1), reply: "1",
		state: []string{"N hash a:1:write=1 mode=write"},
	},
	{
		title: "leave write/one of two, memory full", full: true,
		given: writes("a:1", 2, 60),
		do:    release(write, "a:1", 1), reply: "1",
		state: []string{"N hash a:1:write=1 mode=write, TTL 60s"},
	},
	{
		title: "leave write/another's",
		given: writes("b:1", 1, 60),
		do:    release(write, "a:1", 0), reply: "0",
		state: []string{"N hash b:1:write=1 mode=write, TTL 60s"},
	},
	{title: "leave write/not held", do: release(write, "a:1", 0), reply: "0"},
	{
		title: "leave write/held by a mutex",
		given: ofMutex,
		do:    release(write, "b:1", 0), reply: "0",
		state: []string{"N hash b:1=1, TTL 60s"},
	},
	{
		title: "leave write/another type",
		given: []string{"SET N x", "ZADD writers +3 a:1:write"},
		do:    release(write, "a:1", 0), reply: "WRONGTYPE",
		state: []string{"N string x", "writers zset a:1:write+3s"},
	},
	{
		title: "stop waiting/readers may come",
		given: append(reads("j:7", 60), "ZADD writers +3 a:1:write"),
		do:    release(writeFirst, "a:1", 0), reply: "0",
		state: []string{"N hash j:7=1 mode=read, TTL 60s", "j:7#1 string 1, TTL 60s"},
		heard: "1 on rw",
	},
	{
		title: "stop waiting/free",
		given: []string{"ZADD writers +3 a:1:write"},
		do:    release(writeFirst, "a:1", 0), reply: "0",
		heard: "1 on rw",
	},
	{
		title: "stop waiting/others wait",
		given: append(writerWaits, "ZADD writers +3 a:1:write"),
		do:    release(writeFirst, "a:1", 0), reply: "0",
		state: []string{"writers zset c:1:write+3s, TTL 3s"},
	},
	{
		title: "stop waiting/others have died",
		given: []string{"ZADD writers +-1 c:1:write", "ZADD writers +3 a:1:write", "PEXPIRE writers 3000"},
		do:    release(writeFirst, "a:1", 0), reply: "0",
		heard: "1 on rw",
	},
	{
		title: "stop waiting/others wait, others have died",
		given: append(writerWaits, "ZADD writers +-1 d:1:write", "ZADD writers +3 a:1:write"),
		do:    release(writeFirst, "a:1", 0), reply: "0",
		state: []string{"writers zset c:1:write+3s, TTL 3s"},
	},
	{
		title: "stop waiting/a writer holds it",
		given: append(writes("b:1", 1, 60), "ZADD writers +3 a:1:write"),
		do:    release(writeFirst, "a:1", 0), reply: "0",
		state: []string{"N hash b:1:write=1 mode=write, TTL 60s"},
	},
}

var rwForceRows = []row{
	{
		title: "force read/all readers",
		given: slices.Concat(reads("j:7", 60, 0, 60), reads("a:1", 600)),
		do:    forceRead, reply: "1", again: "0",
		heard: "0 on rw",
	},
	{
		title: "force read/a writer and what it read",
		given: append(reads("b:1", 60), writes("a:1", 1, 60)...),
		do:    forceRead, reply: "0",
		state: []string{"N hash a:1:write=1 b:1=1 mode=write, TTL 60s", "b:1#1 string 1, TTL 60s"},
	},
	{
		title: "force read/foreign data",
		given: []string{"HSET N mode read title x", "EXPIRE N 60"},
		do:    forceRead, reply: "WRONGTYPE",
		state: []string{"N hash mode=read title=x, TTL 60s"},
	},
	{
		title: "force write/foreign data",
		given: []string{"HSET N mode write x:write 1 title x", "EXPIRE N 60"},
		do:    forceWrite, reply: "WRONGTYPE",
		state: []string{"N hash mode=write title=x x:write=1, TTL 60s"},
	},
	{title: "force read/free", do: forceRead, reply: "0"},
	{title: "force read/held by a mutex", given: ofMutex, do: forceRead, reply: "0", state: []string{"N hash b:1=1, TTL 60s"}},
	{title: "force read/another type", given: []string{"SET N x"}, do: forceRead, reply: "WRONGTYPE", state: []string{"N string x"}},
	{
		title: "force write/a writer",
		given: writes("j:7", 3, 90),
		do:    forceWrite, reply: "1", again: "0",
		heard: "1 on rw, 0 on rw",
	},
	{
		title: "force write/what it read stays",
		given: append(reads("b:1", 60), writes("a:1", 1, 600)...),
		do:    forceWrite, reply: "1", again: "0",
		state: []string{"N hash b:1=1 mode=read, TTL 60s", "b:1#1 string 1, TTL 60s"},
		heard: "1 on rw, 0 on rw",
	},
	{
		title: "force write/what it read is over",
		given: append(writes("a:1", 1, 60), "HSET N b:1 1"),
		do:    forceWrite, reply: "1", again: "0",
		heard: "1 on rw, 0 on rw",
	},
	{
		title: "force write/readers",
		given: reads("j:7", 60),
		do:    forceWrite, reply: "0",
		state: []string{"N hash j:7=1 mode=read, TTL 60s", "j:7#1 string 1, TTL 60s"},
	},
	{title: "force write/free", do: forceWrite, reply: "0"},
	{title: "force write/held by a mutex", given: ofMutex, do: forceWrite, reply: "0", state: []string{"N hash b:1=1, TTL 60s"}},
	{title: "force write/another type", given: []string{"SET N x"}, do: forceWrite, reply: "WRONGTYPE", state: []string{"N string x"}},
}

var rwInspectRows = []row{
	{title: "inspect rw/free", do: inspectRW, reply: `[-2 ""]`},
	{
		title: "inspect rw/readers, one is dead",
		given: append(reads("j:7", 60, 600), "HSET N b:1 1"),
		do:    inspectRW, reply: `[600s "read" "j:7" 2 600s "b:1" 1 -2]`,
		state: []string{"N hash b:1=1 j:7=2 mode=read, TTL 600s", "j:7#1 string 1, TTL 60s", "j:7#2 string 1, TTL 600s"},
	},
	{
		title: "inspect rw/a writer without end that reads",
		given: append(reads("b:1", 60), "HSET N mode write a:1:write 2", "PERSIST N"),
		do:    inspectRW, reply: `[-1 "write" "b:1" 1 60s "a:1:write" 2 -2]`,
		state: []string{"N hash a:1:write=2 b:1=1 mode=write", "b:1#1 string 1, TTL 60s"},
	},
	{
		title: "inspect rw/foreign data",
		given: []string{"HSET N mode read title x", "EXPIRE N 60"},
		do:    inspectRW, reply: "WRONGTYPE",
		state: []string{"N hash mode=read title=x, TTL 60s"},
	},
	{title: "inspect rw/held by a mutex", given: ofMutex, do: inspectRW, reply: "WRONGTYPE", state: []string{"N hash b:1=1, TTL 60s"}},
	{title: "inspect rw/another type", given: []string{"SET N x"}, do: inspectRW, reply: "WRONGTYPE", state: []string{"N string x"}},
}

func TestReadWrite(t *testing.T) { check(t, rwRows) }

func TestReadWriteInspect(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	l := newLab(t, s, d, "N")
	inspect := func() script.RWState {
		t.Helper()
		got, err := script.NewRead("N").Inspect(t.Context(), d, "")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	near := func(got, want time.Duration) bool { return got <= want && got > want-10*time.Second }
	if got := inspect(); got.Writer.Owner != "" || len(got.Readers) != 0 || got.TTL != 0 {
		t.Errorf("free: %+v", got)
	}
	l.run(append(reads("b:1", 60, 30), "HSET N j:7 1", "HSET N mode write a:1:write 2", "EXPIRE N 100")...)
	got := inspect()
	if w := got.Writer; w.Owner != "a:1" || w.Count != 2 || !near(w.TTL, 100*time.Second) || !near(got.TTL, 100*time.Second) {
		t.Errorf("writer: %+v", got)
	}
	if r := got.Readers; len(r) != 1 || r[0].Owner != "b:1" || r[0].Count != 2 || !near(r[0].TTL, time.Minute) {
		t.Errorf("readers, of which j:7 is dead: %+v", got)
	}
}

// Two grants of the write lock, and one to read between them, have tokens in
// that order.
func TestReadWriteTokens(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	var last int64
	for i, k := range []kind{write("N"), read("N"), write("N")} {
		v, err := script.Acquire(t.Context(), d, k, try("a:1"))
		if err != nil || v.Token <= last {
			t.Fatalf("grant %d: %+v after %d, %v", i, v, last, err)
		}
		last = v.Token
		if f, err := k.Release(t.Context(), d, "a:1", 0); !f.Held || err != nil {
			t.Fatalf("release %d: %+v, %v", i, f, err)
		}
	}
}

// The clock goes on between two commands of a script, so the lock may seem to
// outlast its last reader by a moment. That is no other reader: with none alive
// the lock is free when that one leaves, and not a lease time later.
func TestReadOutlastedByAMoment(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	l := newLab(t, s, d, "N")
	l.run(append(reads("a:1", 600), "HSET N j:7 1")...) // j:7 is dead
	s.Do(t, "EVAL", `local now = redis.call('time')[1] * 1000
		redis.call('pexpireat', KEYS[1], now + 600005)
		return redis.call('pexpireat', KEYS[2], now + 600000)`, "2", l.long("N"), l.long("a:1#1"))
	if got := l.call(d, release(read, "a:1", 0)); s.Int(t, "EXISTS", "N") == 1 {
		t.Errorf("released: %s, and the lock lasts for another %d ms", got, s.Int(t, "PTTL", "N"))
	}
}
