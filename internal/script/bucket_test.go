package script_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

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
	return calling(func(name string) driver.Call { return call(script.NewBucket(name)) })
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
