package script_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

const request = "c:0:7" // the seventh of client c, in its lane 0

// ordered is a call that is known by its number.
func ordered(call func(name string) driver.Call) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		_, err := d.Do(ctx, call(name))
		return err
	}
}

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
	return ordered(func(name string) driver.Call { return script.NewAtomicLong(name).Add(request, delta) })
}

func swapLong(v int64) op {
	return ordered(func(name string) driver.Call { return script.NewAtomicLong(name).Swap(request, v) })
}

func deleteLong() op {
	return ordered(func(name string) driver.Call { return script.NewAtomicLong(name).Delete(request) })
}

func compareLong(old int64) op {
	return ordered(func(name string) driver.Call { return script.NewAtomicLong(name).Compare(request, old, 1) })
}

// once is what the server remembers of the request.
func once(answer string) string { return "holdfast:once:c:0 string 7 " + answer + ", TTL 600s" }

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
	return ordered(func(name string) driver.Call { return call(script.NewAtomicLong(name), "c:0:"+strconv.Itoa(n), v) })
}

func getBucket(ctx context.Context, d driver.Driver, name string) error {
	_, _, err := script.NewBucket(name).Get(ctx, d)
	return err
}

func sizeBucket(ctx context.Context, d driver.Driver, name string) error {
	_, err := script.NewBucket(name).Size(ctx, d)
	return err
}

func expireBucket(ttl int) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		_, _, err := script.NewBucket(name).Expire(ctx, d, seconds(ttl))
		return err
	}
}

func setBucket(value string, ttl int) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		return script.NewBucket(name).Set(ctx, d, value, seconds(ttl))
	}
}

func keepBucket(value string) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		return script.NewBucket(name).Keep(ctx, d, value)
	}
}

func inBucket(call func(*script.Bucket) driver.Call) op {
	return ordered(func(name string) driver.Call { return call(script.NewBucket(name)) })
}

func tryBucket(value string, ttl int, existing bool) op {
	return inBucket(func(b *script.Bucket) driver.Call { return b.Try(request, value, seconds(ttl), existing) })
}

func swapBucket(ttl int) op {
	return inBucket(func(b *script.Bucket) driver.Call { return b.Swap(request, "b", seconds(ttl)) })
}

func deleteBucket() op {
	return inBucket(func(b *script.Bucket) driver.Call { return b.Delete(request) })
}

func compareBucket(old, value string) op {
	return inBucket(func(b *script.Bucket) driver.Call { return b.CompareSet(request, old, value) })
}

func compareDelete(old string) op {
	return inBucket(func(b *script.Bucket) driver.Call { return b.CompareDelete(request, old) })
}

const kept = "holdfast:once:c:0:old string a, TTL 30s"

var bucketRows = []row{
	{title: "bucket/get none", do: getBucket, reply: "nil"},
	{title: "bucket/get", given: []string{"SET N a"}, do: getBucket, reply: `"a"`, state: []string{"N string a"}},
	{title: "bucket/get another type", given: []string{"HSET N a 1"}, do: getBucket, reply: "WRONGTYPE", state: []string{"N hash a=1"}},
	{title: "bucket/size of none", do: sizeBucket, reply: "0"},
	{title: "bucket/size", given: []string{"SET N abc"}, do: sizeBucket, reply: "3", state: []string{"N string abc"}},
	{title: "bucket/expire none", do: expireBucket(60), reply: "nil"},
	{title: "bucket/expire", given: []string{"SET N a"}, do: expireBucket(60), reply: `"a"`, state: []string{"N string a, TTL 60s"}},
	{title: "bucket/expire never", given: []string{"SET N a EX 60"}, do: expireBucket(0), reply: `"a"`, state: []string{"N string a"}},
	{title: "bucket/set", given: []string{"SET N a EX 60"}, do: setBucket("b", 0), reply: "1", state: []string{"N string b"}},
	{title: "bucket/set for a while", given: []string{"SET N a"}, do: setBucket("b", 60), reply: "1", state: []string{"N string b, TTL 60s"}},
	{title: "bucket/set for as long", given: []string{"SET N a EX 60"}, do: keepBucket("b"), reply: "1", state: []string{"N string b, TTL 60s"}},
	{title: "bucket/set out of memory", full: true, do: setBucket("b", 0), reply: "OOM"},
	{title: "bucket/absent", do: tryBucket("b", 0, false), reply: "1", state: []string{"N string b", once("set")}},
	{title: "bucket/absent, for a while", do: tryBucket("b", 60, false), reply: "1", state: []string{"N string b, TTL 60s", once("set")}},
	{title: "bucket/not absent", given: []string{"SET N a EX 60"}, do: tryBucket("b", 0, false), reply: "0", state: []string{"N string a, TTL 60s", once("not")}},
	{title: "bucket/present", given: []string{"SET N a EX 60"}, do: tryBucket("b", 0, true), reply: "1", state: []string{"N string b", once("set")}},
	{title: "bucket/present, for a while", given: []string{"SET N a"}, do: tryBucket("b", 60, true), reply: "1", state: []string{"N string b, TTL 60s", once("set")}},
	{title: "bucket/not present", do: tryBucket("b", 60, true), reply: "0", state: []string{once("not")}},
	{title: "bucket/swap none", do: swapBucket(0), reply: "nil", state: []string{"N string b", once("none")}},
	{title: "bucket/swap", given: []string{"SET N a EX 60"}, do: swapBucket(0), reply: `"a"`, state: []string{"N string b", once("old"), kept}},
	{title: "bucket/swap, for a while", given: []string{"SET N a"}, do: swapBucket(60), reply: `"a"`, state: []string{"N string b, TTL 60s", once("old"), kept}},
	{title: "bucket/swap another type", given: []string{"HSET N a 1"}, do: swapBucket(0), reply: "WRONGTYPE", state: []string{"N hash a=1"}},
	{title: "bucket/delete none", do: deleteBucket(), reply: "nil", state: []string{once("none")}},
	{title: "bucket/delete", given: []string{"SET N a"}, do: deleteBucket(), reply: `"a"`, state: []string{once("old"), kept}},
	{title: "bucket/delete out of memory", given: []string{"SET N a"}, full: true, do: deleteBucket(), reply: `"a"`, state: []string{once("old"), kept}},
	{title: "bucket/compare none", do: compareBucket("", "b"), reply: "0", state: []string{once("other")}},
	{title: "bucket/compare", given: []string{"SET N a EX 60"}, do: compareBucket("a", "b"), reply: "1", state: []string{"N string b", once("done")}},
	{title: "bucket/compare another", given: []string{"SET N a EX 60"}, do: compareBucket("A", "b"), reply: "0", state: []string{"N string a, TTL 60s", once("other")}},
	{title: "bucket/compare and delete", given: []string{"SET N a"}, do: compareDelete("a"), reply: "1", state: []string{once("done")}},
	{title: "bucket/compare and delete another", given: []string{"SET N a"}, do: compareDelete("b"), reply: "0", state: []string{"N string a", once("other")}},
	{title: "bucket/compare and delete out of memory", given: []string{"SET N a"}, full: true, do: compareDelete("a"), reply: "1", state: []string{once("done")}},
	{title: "bucket/compare another out of memory", given: []string{"SET N a"}, full: true, do: compareDelete("b"), reply: "0", state: []string{"N string a", once("other")}},
}

func TestBucketScripts(t *testing.T) { check(t, bucketRows) }

// The old value is kept for those who ask again, and not for as long as their
// request is remembered: who comes later yet must not be told that there was
// none.
func TestBucketSwapAgainTooLate(t *testing.T) {
	l, d := lonely(t)
	l.run("SET N a")
	if got := l.call(d, deleteBucket()); got != `"a"` {
		t.Fatal(got)
	}
	l.s.Do(t, "DEL", "holdfast:once:{N}:c:0:old")
	if got := l.call(d, deleteBucket()); got != "ERR" {
		t.Errorf("reply %s", got)
	}
}

var bucketWire = []step{
	{"set a value", setBucket("a", 60)},
	{"set it and keep its TTL", keepBucket("b")},
	{"look at it", getBucket},
	{"measure it", sizeBucket},
	{"look at it and end its TTL", expireBucket(0)},
	{"set it if there is none", tryBucket("c", 60, false)},
	{"swap it", func(ctx context.Context, d driver.Driver, name string) error {
		_, err := d.Do(ctx, script.NewBucket(name).Swap("c:0:8", "d", time.Minute))
		return err
	}},
	{"compare and swap it", func(ctx context.Context, d driver.Driver, name string) error {
		_, err := d.Do(ctx, script.NewBucket(name).CompareSet("c:0:9", "d", "e"))
		return err
	}},
	{"delete it", func(ctx context.Context, d driver.Driver, name string) error {
		_, err := d.Do(ctx, script.NewBucket(name).Delete("c:0:10"))
		return err
	}},
}
