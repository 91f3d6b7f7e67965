package script_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

func loadLong(ctx context.Context, d driver.Driver, name string) error {
	_, err := script.NewAtomicLong(name).Load(ctx, d)
	return err
}

func storeLong(v int64) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		return script.NewAtomicLong(name).Store(ctx, d, v)
	}
}

func addLong(delta int64) op {
	return calling(func(name string) driver.Call { return script.NewAtomicLong(name).Add(request, delta) })
}

func swapLong(v int64) op {
	return calling(func(name string) driver.Call { return script.NewAtomicLong(name).Swap(request, v) })
}

func deleteLong() op {
	return calling(func(name string) driver.Call { return script.NewAtomicLong(name).Delete(request) })
}

func compareLong(old int64) op {
	return calling(func(name string) driver.Call { return script.NewAtomicLong(name).Compare(request, old, 1) })
}

const (
	most  = 1<<63 - 1
	least = -1 << 63
)

var atomicLongRows = []row{
	{title: "long/load none", do: loadLong, reply: "nil"},
	{title: "long/load", given: []string{"SET N 9223372036854775807"}, do: loadLong, reply: `"9223372036854775807"`, state: []string{"N string 9223372036854775807"}},
	{title: "long/load what is none", given: []string{"SET N 1.5"}, do: loadLong, reply: "fatal", state: []string{"N string 1.5"}},
	{title: "long/load another type", given: []string{"HSET N a 1"}, do: loadLong, reply: "WRONGTYPE", state: []string{"N hash a=1"}},
	{title: "long/store", given: []string{"SET N 5 EX 100"}, do: storeLong(least), reply: "1", state: []string{"N string -9223372036854775808"}},
	{title: "long/add to none", do: addLong(3), reply: `"3"`, state: []string{"N string 3", once("3")}},
	{
		title: "long/add beyond 53 bits, keeping the TTL", given: []string{"SET N 9223372036854775000 EX 100"},
		do: addLong(807), reply: `"9223372036854775807"`, state: []string{"N string 9223372036854775807, TTL 100s", once("9223372036854775807")},
	},
	{title: "long/add too much", given: []string{"SET N 9223372036854775807"}, do: addLong(1), reply: "ERR", state: []string{"N string 9223372036854775807"}},
	{title: "long/take the most", given: []string{"SET N 0"}, do: addLong(least), reply: `"-9223372036854775808"`, state: []string{"N string -9223372036854775808", once("-9223372036854775808")}},
	{title: "long/take too much", given: []string{"SET N -1"}, do: addLong(least), reply: "ERR", state: []string{"N string -1"}},
	{title: "long/add to what is none", given: []string{"SET N a"}, do: addLong(1), reply: "ERR", state: []string{"N string a"}},
	{title: "long/add out of memory", given: []string{"SET N 1"}, full: true, do: addLong(1), reply: "OOM", state: []string{"N string 1"}},
	{title: "long/swap none", do: swapLong(most), reply: `"0"`, state: []string{"N string 9223372036854775807", once("0")}},
	{title: "long/swap", given: []string{"SET N -9223372036854775808 EX 100"}, do: swapLong(2), reply: `"-9223372036854775808"`, state: []string{"N string 2", once("-9223372036854775808")}},
	{title: "long/swap what is none", given: []string{"SET N 007"}, do: swapLong(2), reply: "ERR", state: []string{"N string 007"}},
	{title: "long/swap what is too much", given: []string{"SET N 9223372036854775808"}, do: swapLong(2), reply: "ERR", state: []string{"N string 9223372036854775808"}},
	{title: "long/delete none", do: deleteLong(), reply: `"0"`, state: []string{once("0")}},
	{title: "long/delete", given: []string{"SET N 41"}, do: deleteLong(), reply: `"41"`, state: []string{once("41")}},
	{title: "long/delete out of memory", given: []string{"SET N 41"}, full: true, do: deleteLong(), reply: `"41"`, state: []string{once("41")}},
	{title: "long/compare none", do: compareLong(0), reply: "1", state: []string{"N string 1", once("set")}},
	{title: "long/compare", given: []string{"SET N 9007199254740993 EX 100"}, do: compareLong(9007199254740993), reply: "1", state: []string{"N string 1", once("set")}},
	{
		title: "long/compare with its neighbour", given: []string{"SET N 9007199254740993 EX 100"},
		do: compareLong(9007199254740992), reply: "0", state: []string{"N string 9007199254740993, TTL 100s", once("other")},
	},
	{title: "long/compare what is none", given: []string{"SET N a"}, do: compareLong(0), reply: "ERR", state: []string{"N string a"}},
}

func TestAtomicLongScripts(t *testing.T) { check(t, atomicLongRows) }

var atomicLongWire = []step{
	{"add to a new number", addLong(5)},
	{"look at it", loadLong},
	{"set it", storeLong(7)},
	{"send the first request again", addLong(5)},
	{"swap it", wireLong(8, (*script.AtomicLong).Swap, 9)},
	{"swap it if it is 9", func(ctx context.Context, d driver.Driver, name string) error {
		_, err := d.Do(ctx, script.NewAtomicLong(name).Compare("c:0:9", 9, 10))
		return err
	}},
	{"delete it", func(ctx context.Context, d driver.Driver, name string) error {
		_, err := d.Do(ctx, script.NewAtomicLong(name).Delete("c:0:10"))
		return err
	}},
}

func wireLong(n int, call func(*script.AtomicLong, string, int64) driver.Call, v int64) op {
	return calling(func(name string) driver.Call { return call(script.NewAtomicLong(name), "c:0:"+strconv.Itoa(n), v) })
}
