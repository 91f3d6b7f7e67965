package interop_test

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/interop"
	goobject "github.com/holdfast-go/holdfast/object"
)

// long calls a method that returns a long and returns its exact value.
func (o object) long(tb testing.TB, method string, args ...any) int64 {
	tb.Helper()
	text := o.keep(tb, method, args...).do(tb, "", "toString").String()
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// class returns a Java class.
func class(tb testing.TB, p *interop.Peer, name string) object {
	tb.Helper()
	c, err := p.Static("java.lang.Class", "forName", name)
	if err != nil {
		tb.Fatal(err)
	}
	return object{c}
}

// codec returns a codec of Redisson that has a constructor without arguments.
func codec(tb testing.TB, p *interop.Peer, name string) object {
	tb.Helper()
	return class(tb, p, name).keep(tb, "newInstance")
}

// Both sides change the same number, over the whole range of 64 bits.
func TestAtomicLong(t *testing.T) {
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		ctx, r, n := t.Context(), newFixture(t, release), name(t)
		java, golang := r.java.get(t, "getAtomicLong", n), goobject.NewAtomicLong(r.golang, n)
		is := func(want int64) {
			t.Helper()
			gives(t, want)(golang.Load(ctx))
			if got := java.long(t, "get"); got != want {
				t.Errorf("Java sees %d, want %d", got, want)
			}
		}
		is(0)
		gives(t, true)(golang.CompareAndSwap(ctx, 0, 3)) // a missing value counts as zero
		java.says(t, false, "compareAndSet", 0, 9)
		java.says(t, true, "compareAndSet", 3, 4)
		gives(t, false)(golang.CompareAndSwap(ctx, 3, 9))
		java.says(t, 5, "incrementAndGet")
		java.says(t, 5, "getAndIncrement")
		java.says(t, 5, "decrementAndGet")
		java.says(t, 5, "getAndDecrement")
		is(4)
		java.says(t, 14, "addAndGet", 10)
		java.says(t, 14, "getAndAdd", -4)
		gives(t, int64(7))(golang.Add(ctx, -3))
		java.says(t, 7, "getAndSet", 8)
		gives(t, int64(8))(golang.Swap(ctx, 9))
		java.says(t, 9, "getAndDelete")
		gives(t, false)(golang.Object().Exists(ctx))
		java.says(t, true, "compareAndSet", 0, 6)
		gives(t, int64(6))(golang.LoadAndDelete(ctx))
		java.says(t, false, "isExists")

		for _, edge := range []int64{math.MaxInt64, math.MinInt64, 1<<53 + 1, -1<<53 - 1} {
			fails(t, golang.Store(ctx, edge), nil)
			is(edge)
			java.says(t, nil, "set", edge)
			is(edge)
			java.says(t, true, "compareAndSet", edge, edge/2)
			gives(t, true)(golang.CompareAndSwap(ctx, edge/2, edge))
			is(edge)
		}
		java.says(t, nil, "set", int64(math.MaxInt64))
		java.throws(t, "incrementAndGet")
		_, err := golang.Add(ctx, 1)
		fails(t, err, holdfast.ErrRefused)
		is(math.MaxInt64)

		if release == interop.Current {
			java.says(t, nil, "set", 5)
			java.says(t, true, "setIfLess", 6, 7)
			java.says(t, true, "setIfGreater", 6, 1)
			is(1)
		}
	})
}

// A number with a TTL keeps it when it is added to, and loses it when it is set.
func TestAtomicLongTTL(t *testing.T) {
	t.Parallel()
	ctx, r, n := t.Context(), newFixture(t, interop.Current), name(t)
	java, golang := r.java.get(t, "getAtomicLong", n), goobject.NewAtomicLong(r.golang, n)
	for what, test := range map[string]struct {
		do    func() error
		stays bool
	}{
		"Java adds":     {func() error { return java.Do("", "incrementAndGet").Err() }, true},
		"Go adds":       {func() error { _, err := golang.Add(ctx, 1); return err }, true},
		"Java sets":     {func() error { return java.Do("", "set", 1).Err() }, false},
		"Go sets":       {func() error { return golang.Store(ctx, 1) }, false},
		"Java swaps":    {func() error { return java.Do("", "getAndSet", 1).Err() }, false},
		"Go swaps":      {func() error { _, err := golang.Swap(ctx, 1); return err }, false},
		"Java compares": {func() error { return java.Do("", "compareAndSet", 1, 1).Err() }, false},
		"Go compares":   {func() error { _, err := golang.CompareAndSwap(ctx, 1, 1); return err }, false},
	} {
		fails(t, golang.Store(ctx, 1), nil)
		gives(t, true)(golang.Object().Expire(ctx, time.Hour))
		fails(t, test.do(), nil)
		if left := java.do(t, "", "remainTimeToLive").Int(); (left > 0) != test.stays {
			t.Errorf("%s: %d ms are left", what, left)
		}
	}
}

// A mixed fleet loses no increment.
func TestAtomicLongFleet(t *testing.T) {
	t.Parallel()
	const rounds = 100
	r, n := newFixture(t, interop.Current), name(t)
	java, golang := r.java.get(t, "getAtomicLong", n), goobject.NewAtomicLong(r.golang, n)
	var f fleet
	f.run(t, peer(t, interop.Current), rounds, func(int) []interop.Call {
		return []interop.Call{java.Call("", "incrementAndGet"), java.Call("", "addAndGet", 2)}
	}, func() (int64, int64, error) {
		_, err := golang.Add(context.Background(), 3)
		return 0, 0, err
	})
	java.says(t, 2*fleetSize*rounds*3, "get")
}

// Values are shared if both sides use the same codec.
func TestBucket(t *testing.T) {
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		ctx, r, n := t.Context(), newFixture(t, release), name(t)
		java := r.java.get(t, "getBucket", n, codec(t, peer(t, release), "org.redisson.client.codec.StringCodec"))
		golang := goobject.NewBucket(r.golang, n, goobject.StringCodec{})
		is := func(want any) {
			t.Helper()
			v, ok, err := golang.Get(ctx)
			if text, isText := want.(string); err != nil || ok != isText || v != text {
				t.Errorf("Go sees %q, %v, %v; want %v", v, ok, err, want)
			}
			java.says(t, want, "get")
		}
		is(nil)
		java.says(t, nil, "set", "größer 🔒")
		is("größer 🔒")
		java.says(t, len("größer 🔒"), "size")
		gives(t, len("größer 🔒"))(golang.Size(ctx))
		fails(t, golang.Set(ctx, "", 0), nil)
		is("")
		java.says(t, false, "trySet", "x")
		gives(t, false)(golang.SetIfAbsent(ctx, "x", 0))
		java.says(t, true, "compareAndSet", "", "a")
		gives(t, true)(golang.CompareAndSwap(ctx, "a", "b"))
		java.says(t, false, "compareAndSet", "a", "c")
		gives(t, false)(golang.CompareAndSwap(ctx, "a", "c"))
		java.says(t, "b", "getAndSet", "c")
		old, ok, err := golang.Swap(ctx, "d", 0)
		if old != "c" || !ok || err != nil {
			t.Error(old, ok, err)
		}
		java.says(t, true, "setIfExists", "e")
		gives(t, true)(golang.SetIfExists(ctx, "f", time.Hour))
		if left := java.do(t, "", "remainTimeToLive").Int(); left < 1 {
			t.Errorf("%d ms are left", left)
		}
		is("f")
		java.says(t, nil, "set", "g", 1, "HOURS")
		fails(t, golang.SetKeepTTL(ctx, "h"), nil)
		if ttl, err := golang.Object().TTL(ctx); ttl <= 0 || err != nil {
			t.Errorf("%v left, %v", ttl, err)
		}
		is("h")
		java.says(t, "h", "getAndDelete")
		is(nil)
		java.says(t, true, "trySet", "i", 1, "HOURS")
		gives(t, false)(golang.CompareAndDelete(ctx, "h"))
		gives(t, true)(golang.CompareAndDelete(ctx, "i"))
		is(nil)
		gives(t, true)(golang.SetIfAbsent(ctx, "j", 0))
		java.says(t, nil, "set", nil) // deletes the value
		is(nil)
	})
}

// Redisson's default codecs differ from those of Holdfast: Go cannot decode their text, or sees
// additional bytes before it. Bytes and numbers are compatible.
func TestBucketCodecs(t *testing.T) {
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		ctx, r, p := t.Context(), newFixture(t, release), peer(t, release)
		t.Run("default", func(t *testing.T) {
			n := name(t)
			java := r.java.get(t, "getBucket", n)
			java.says(t, nil, "set", "text of Java")
			got, ok, err := goobject.NewBucket(r.golang, n, goobject.StringCodec{}).Get(ctx)
			if release == interop.Current {
				fails(t, err, goobject.ErrCodec)
			} else if want := "\x04>\ftext of Java"; got != want || !ok || err != nil {
				t.Errorf("Go reads %q, %v, %v; want %q", got, ok, err, want)
			}
			raw, ok, err := goobject.NewBucket(r.golang, n, goobject.BytesCodec{}).Get(ctx)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			// Go can store bytes for Java that it cannot decode.
			fails(t, goobject.NewBucket(r.golang, n+":copy", goobject.BytesCodec{}).Set(ctx, raw, 0), nil)
			r.java.get(t, "getBucket", n+":copy").says(t, "text of Java", "get")
			fails(t, goobject.NewBucket(r.golang, n, goobject.StringCodec{}).Set(ctx, "text of Go", 0), nil)
			if a := java.Do("", "get"); a.Err() == nil && a.Value == "text of Go" {
				t.Error("Java can read it after all")
			}
		})
		t.Run("long", func(t *testing.T) {
			n := name(t)
			java := r.java.get(t, "getBucket", n, codec(t, p, "org.redisson.client.codec.LongCodec"))
			java.says(t, nil, "set", 42)
			gives(t, int64(43))(goobject.NewAtomicLong(r.golang, n).Add(ctx, 1))
			java.says(t, 43, "get")
		})
		t.Run("bytes", func(t *testing.T) {
			n := name(t)
			java := r.java.get(t, "getBucket", n, codec(t, p, "org.redisson.client.codec.ByteArrayCodec"))
			golang := goobject.NewBucket(r.golang, n, goobject.BytesCodec{})
			fails(t, golang.Set(ctx, []byte{0, 255, 10}, 0), nil)
			java.says(t, true, "compareAndSet", java.keep(t, "get"), java.keep(t, "get"))
			got, _, err := golang.Get(ctx)
			if string(got) != "\x00\xff\x0a" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
	})
}

// JSON has the same bytes on both sides, so that both can compare values.
func TestBucketJSON(t *testing.T) {
	t.Parallel()
	const release = interop.Era // the current release needs Jackson, which is not installed here
	type order struct {
		Text  string   `json:"text"`
		Items []string `json:"items"`
		Count int64    `json:"count"`
		Paid  bool     `json:"paid"`
	}
	value := order{"<größer> & \u0001 🔒 \"\\/\u2028", []string{"a", ""}, math.MaxInt64, true}
	ctx, r, n, p := t.Context(), newFixture(t, release), name(t), peer(t, release)
	tree := class(t, p, "java.util.TreeMap")
	typed := class(t, p, "org.redisson.codec.TypedJsonJacksonCodec").
		keep(t, "getConstructor", []any{class(t, p, "java.lang.Class")}).keep(t, "newInstance", []any{tree})
	java, golang := r.java.get(t, "getBucket", n, typed), goobject.NewBucket(r.golang, n, goobject.JSONCodec[order]{})
	entries := tree.keep(t, "newInstance")
	for key, v := range map[string]any{"text": value.Text, "count": value.Count, "paid": value.Paid, "items": value.Items} {
		entries.do(t, "", "put", key, v)
	}
	is := func() {
		t.Helper()
		got, ok, err := golang.Get(ctx)
		if err != nil || !ok || fmt.Sprint(got) != fmt.Sprint(value) {
			t.Errorf("Go sees %+v, %v, %v", got, ok, err)
		}
		if got, want := java.do(t, "", "get").Value, entries.do(t, "", "toString").Value; got != want {
			t.Errorf("Java sees %v, want %v", got, want)
		}
	}
	java.says(t, nil, "set", entries)
	is()
	written := r.server.Do(t, "GET", n)
	gives(t, true)(golang.CompareAndSwap(ctx, value, value))
	fails(t, golang.Set(ctx, value, 0), nil)
	is()
	if got := r.server.Do(t, "GET", n); got != written {
		t.Errorf("Java writes %q, and Go %q", written, got)
	}
	java.says(t, true, "compareAndSet", entries, entries)
}
