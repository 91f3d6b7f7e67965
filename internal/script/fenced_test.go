package script_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

func inspectFenced(ctx context.Context, d driver.Driver, name string) error {
	_, err := script.NewFenced(name).Inspect(ctx, d)
	return err
}

var fencedRows = []row{
	{
		title: "acquire/free",
		do:    acquire(fenced, try("a:1")), reply: "1",
		state: []string{"N hash a:1=1, TTL 60s", "token string 1"},
	},
	{
		title: "acquire/not the first",
		given: []string{"SET token 41"},
		do:    acquire(fenced, try("a:1")), reply: "42",
		state: []string{"N hash a:1=1, TTL 60s", "token string 42"},
	},
	{
		title: "acquire/counter with the TTL that a Java multi lock gave it",
		given: []string{"SET token 41 EX 100"},
		do:    acquire(fenced, try("a:1")), reply: "42",
		state: []string{"N hash a:1=1, TTL 60s", "token string 42"},
	},
	{
		title: "acquire/held",
		given: []string{"HSET N b:1 1", "PEXPIRE N 100000", "SET token 41"},
		do:    acquire(fenced, try("a:1")), reply: "held 100s",
		state: []string{"N hash b:1=1, TTL 100s", "token string 41"},
	},
	{
		title: "acquire/held without end",
		given: []string{"HSET N b:1 1"},
		do:    acquire(fenced, try("a:1")), reply: "0",
		state: []string{"N hash b:1=1"},
	},
	{
		title: "acquire/held by a reader",
		given: []string{"HSET N mode read b:1 1", "PEXPIRE N 60000"},
		do:    acquire(fenced, try("a:1")), reply: "held 60s",
		state: []string{"N hash b:1=1 mode=read, TTL 60s"},
	},
	{
		title: "acquire/again, longer",
		given: []string{"HSET N a:1 1", "PEXPIRE N 60000", "SET token 41"},
		do:    acquire(fenced, again("a:1", 2, 600)), reply: "41",
		state: []string{"N hash a:1=2, TTL 600s", "token string 41"},
	},
	{
		title: "acquire/again, shorter",
		given: []string{"HSET N a:1 1", "PEXPIRE N 600000", "SET token 41"},
		do:    acquire(fenced, again("a:1", 2, 60)), reply: "41",
		state: []string{"N hash a:1=2, TTL 600s", "token string 41"},
	},
	{
		title: "acquire/again, gone",
		given: []string{"SET token 41"},
		do:    acquire(fenced, again("a:1", 2, 60)), reply: "held past",
		state: []string{"token string 41"},
	},
	{
		title: "acquire/again, taken by another",
		given: []string{"HSET N b:1 1", "PEXPIRE N 60000", "SET token 41"},
		do:    acquire(fenced, again("a:1", 2, 60)), reply: "held 60s",
		state: []string{"N hash b:1=1, TTL 60s", "token string 41"},
	},
	{
		title: "acquire/again, counter deleted",
		given: []string{"HSET N a:1 1", "PEXPIRE N 60000"},
		do:    acquire(fenced, again("a:1", 2, 60)), reply: "1",
		state: []string{"N hash a:1=2, TTL 60s", "token string 1"},
	},
	{
		title: "acquire/negative counter",
		given: []string{"SET token -5"},
		do:    acquire(fenced, try("a:1")), reply: "ERR",
		state: []string{"token string -5"},
	},
	{
		title: "acquire/again, negative counter",
		given: []string{"HSET N a:1 1", "PEXPIRE N 60000", "SET token -5"},
		do:    acquire(fenced, again("a:1", 2, 600)), reply: "ERR",
		state: []string{"N hash a:1=1, TTL 60s", "token string -5"},
	},
	{
		title: "acquire/the last token that Lua knows",
		given: []string{"SET token 9007199254740990"},
		do:    acquire(fenced, try("a:1")), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s", "token string 9007199254740991"},
	},
	{
		title: "acquire/the counter is at 2^53 - 1",
		given: []string{"SET token 9007199254740991"},
		do:    acquire(fenced, try("a:1")), reply: "ERR",
		state: []string{"token string 9007199254740991"},
	},
	{
		title: "acquire/the counter is at 2^63 - 2",
		given: []string{"SET token 9223372036854775806"},
		do:    acquire(fenced, try("a:1")), reply: "ERR",
		state: []string{"token string 9223372036854775806"},
	},
	{
		title: "acquire/again, the counter is at 2^53 - 1",
		given: []string{"HSET N a:1 1", "PEXPIRE N 60000", "SET token 9007199254740991"},
		do:    acquire(fenced, again("a:1", 2, 60)), reply: "token",
		state: []string{"N hash a:1=2, TTL 60s", "token string 9007199254740991"},
	},
	{
		title: "acquire/again, the counter is above 2^53",
		given: []string{"HSET N a:1 1", "PEXPIRE N 60000", "SET token 9007199254740993"},
		do:    acquire(fenced, again("a:1", 2, 60)), reply: "ERR",
		state: []string{"N hash a:1=1, TTL 60s", "token string 9007199254740993"},
	},
	{
		title: "acquire/the counter is not written as a number is",
		given: []string{"SET token 1e3"},
		do:    acquire(fenced, try("a:1")), reply: "ERR",
		state: []string{"token string 1e3"},
	},
	{
		title: "acquire/counter is no number",
		given: []string{"SET token x"},
		do:    acquire(fenced, try("a:1")), reply: "ERR",
		state: []string{"token string x"},
	},
	{
		title: "acquire/again, counter is no number",
		given: []string{"HSET N a:1 1", "PEXPIRE N 60000", "SET token x"},
		do:    acquire(fenced, again("a:1", 2, 600)), reply: "ERR",
		state: []string{"N hash a:1=1, TTL 60s", "token string x"},
	},
	{
		title: "acquire/counter of another type",
		given: []string{"RPUSH token x"},
		do:    acquire(fenced, try("a:1")), reply: "WRONGTYPE",
		state: []string{"token list x"},
	},
	{
		title: "acquire/another type",
		given: []string{"SET N x"},
		do:    acquire(fenced, try("a:1")), reply: "WRONGTYPE",
		state: []string{"N string x"},
	},
	{
		title: "acquire/memory full", full: true,
		do: acquire(fenced, try("a:1")), reply: "OOM",
	},
	{
		title: "acquire/again, memory full", full: true,
		given: []string{"HSET N a:1 1", "PEXPIRE N 60000", "SET token 41"},
		do:    acquire(fenced, again("a:1", 2, 600)), reply: "OOM",
		state: []string{"N hash a:1=1, TTL 60s", "token string 41"},
	},
	{
		title: "release/the counter stays",
		given: []string{"HSET N a:1 1", "PEXPIRE N 60000", "SET token 41"},
		do:    release(fenced, "a:1", 0), reply: "2", again: "0",
		state: []string{"token string 41"},
		heard: "0 on channel",
	},
	{title: "inspect/none", do: inspectFenced, reply: `[[-2] "0"]`},
	{title: "inspect/free", given: []string{"SET token 41"}, do: inspectFenced, reply: `[[-2] "41"]`, state: []string{"token string 41"}},
	{
		title: "inspect/held",
		given: []string{"HSET N a:1 2", "SET token 41"},
		do:    inspectFenced, reply: `[[-1 "a:1" "2"] "41"]`,
		state: []string{"N hash a:1=2", "token string 41"},
	},
	{title: "inspect/above 2^53", given: []string{"SET token 9007199254740993"}, do: inspectFenced, reply: `[[-2] "9007199254740993"]`, state: []string{"token string 9007199254740993"}},
	{title: "inspect/no number", given: []string{"SET token x"}, do: inspectFenced, reply: "ERR", state: []string{"token string x"}},
	{title: "inspect/another type", given: []string{"RPUSH token x"}, do: inspectFenced, reply: "WRONGTYPE", state: []string{"token list x"}},
	{
		title: "inspect/no lock",
		given: []string{"HSET N name Ann"},
		do:    inspectFenced, reply: "WRONGTYPE",
		state: []string{"N hash name=Ann"},
	},
}

func TestFenced(t *testing.T) { check(t, fencedRows) }
