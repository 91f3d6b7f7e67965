package behaviour_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/object"
)

func want(tb testing.TB, want bool) func(bool, error) {
	return func(got bool, err error) {
		tb.Helper()
		if got != want || err != nil {
			tb.Fatalf("%v, %v, want %v", got, err, want)
		}
	}
}

func TestBucket(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	ctx, c := t.Context(), locktest.Open(t, s.URL())
	b := object.NewBucket(c, "b", object.StringCodec{})
	has := func(want string, there bool) func(string, bool, error) {
		return func(got string, ok bool, err error) {
			t.Helper()
			if got != want || ok != there || err != nil {
				t.Fatalf("%q, %v, %v, want %q, %v", got, ok, err, want, there)
			}
		}
	}
	lasts := func(want bool) {
		t.Helper()
		if ttl := s.Int(t, "PTTL", "b"); ttl > 0 != want || ttl > 60_000 {
			t.Fatalf("the TTL is %d ms", ttl)
		}
	}
	yes, no := want(t, true), want(t, false)
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	has("", false)(b.Get(ctx))
	no(b.SetIfExists(ctx, "a", 0))
	yes(b.SetIfAbsent(ctx, "a", time.Minute))
	no(b.SetIfAbsent(ctx, "b", 0))
	lasts(true)
	ok(b.SetKeepTTL(ctx, "größer"))
	lasts(true)
	if n := locktest.Must[int](t)(b.Size(ctx)); n != len("größer") {
		t.Errorf("size %d", n)
	}
	has("größer", true)(b.GetAndExpire(ctx, 0))
	lasts(false)
	has("größer", true)(b.GetAndExpire(ctx, time.Minute))
	lasts(true)
	no(b.CompareAndSwap(ctx, "", "x"))
	yes(b.CompareAndSwap(ctx, "größer", ""))
	lasts(false) // as with Redisson
	has("", true)(b.Get(ctx))
	has("", true)(b.Swap(ctx, "c", time.Minute))
	lasts(true)
	ok(b.Set(ctx, "d", 0))
	lasts(false)
	yes(b.SetIfExists(ctx, "e", time.Minute))
	lasts(true)
	no(b.CompareAndDelete(ctx, "d"))
	yes(b.CompareAndDelete(ctx, "e"))
	has("", false)(b.Swap(ctx, "f", 0))
	has("f", true)(b.GetAndDelete(ctx))
	has("", false)(b.GetAndDelete(ctx))
	has("", false)(b.GetAndExpire(ctx, 0))
	if n := locktest.Must[int](t)(b.Size(ctx)); n != 0 {
		t.Errorf("size %d of none", n)
	}
	raw := object.NewBucket(c, "raw", object.BytesCodec{})
	large := []byte(strings.Repeat("\x00\xff\r\n", 1<<20))
	ok(raw.Set(ctx, large, 0))
	if got, found, err := raw.Get(ctx); string(got) != string(large) || !found || err != nil {
		t.Errorf("%d bytes, %v, %v", len(got), found, err)
	}
	s.Do(t, "HSET", "hash", "a", "1")
	if _, _, err := object.NewBucket(c, "hash", object.StringCodec{}).Get(ctx); !errors.Is(err, holdfast.ErrRefused) {
		t.Errorf("another type: %v", err)
	}
}

type order struct {
	Note  string      `json:"note,omitempty"`
	ID    uint64      `json:"id"`
	Lines []line      `json:"lines"`
	Extra any         `json:"extra,omitempty"`
	Big   json.Number `json:"big,omitempty"`
}

type line struct {
	SKU   string `json:"sku"`
	Count int    `json:"count"`
}

// What Jackson writes, with sorted properties, for the same objects.
func TestJSONBytes(t *testing.T) {
	codec := object.JSONCodec[order]{}
	for _, test := range []struct {
		v    order
		want string
	}{
		{order{}, `{"id":0,"lines":null}`},
		{order{ID: math.MaxUint64, Lines: []line{{"b", 2}, {"a", 1}}}, `{"id":18446744073709551615,"lines":[{"count":2,"sku":"b"},{"count":1,"sku":"a"}]}`},
		{
			order{Note: "<a href=\"x\">&'/\\\b\f\n\r\t\x01\x1f\x7f\u2028é😀", Lines: []line{}},
			`{"id":0,"lines":[],"note":"<a href=\"x\">&'/\\\b\f\n\r\t\u0001\u001F` + "\x7f\u2028é" + `\uD83D\uDE00"}`,
		},
		{order{Big: "123456789012345678901234567890"}, `{"big":123456789012345678901234567890,"id":0,"lines":null}`},
		{order{Extra: map[string]any{"z": true, "a": []any{nil, false, json.Number("9007199254740993")}}}, `{"extra":{"a":[null,false,9007199254740993],"z":true},"id":0,"lines":null}`},
	} {
		got := locktest.Must[[]byte](t)(codec.Encode(test.v))
		if string(got) != test.want {
			t.Errorf("encoded as %s, want %s", got, test.want)
		}
		back := locktest.Must[order](t)(codec.Decode(got))
		if again := locktest.Must[[]byte](t)(codec.Encode(back)); string(again) != test.want {
			t.Errorf("read and written again: %s, want %s", again, test.want)
		}
	}
}

// A value that cannot be decoded, or encoded, is told, and does not show.
func TestCodecErrors(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	ctx, c := t.Context(), locktest.Open(t, s.URL())
	check := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, object.ErrCodec) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "1234567") {
			t.Errorf("%s: %v", what, err)
		}
		for ; err != nil; err = errors.Unwrap(err) {
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "1234567") {
				t.Errorf("%s shows inside: %v", what, err)
			}
		}
	}
	orders := object.NewBucket(c, "b", object.JSONCodec[order]{})
	for _, value := range []string{
		"hunter2", `{"id":"hunter2"}`, `{"id":-1234567}`, `{"id":1} hunter2`, `{"note":"hunter2"`, "", `{"lines":[{"count":1234567890123456789012}]}`,
	} {
		s.Do(t, "SET", "b", value)
		v, ok, err := orders.Get(ctx)
		check(value, err)
		if ok || v.Note != "" {
			t.Errorf("%s: half a value: %v", value, v)
		}
	}
	s.Do(t, "SET", "b", "hunter2\xff")
	check("not UTF-8", fault3(object.NewBucket(c, "b", object.StringCodec{}).Get(ctx)))
	check("not UTF-8", object.NewBucket(c, "b", object.StringCodec{}).Set(ctx, "hunter2\xff", 0))
	check("no JSON", object.NewBucket(c, "b", object.JSONCodec[float64]{}).Set(ctx, math.NaN(), 0))
	if s.Do(t, "GET", "b") != "hunter2\xff" {
		t.Error("overwritten")
	}
}

func fault3[T any](_ T, _ bool, err error) error { return err }

func TestBadValues(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	ctx, c := t.Context(), locktest.Open(t, p.URL())
	p.ResetCounts()
	n, g, id := object.NewAtomicLong(c, "a}b"), object.NewIDGenerator(c, ""), object.NewTimeID(c, "\xff")
	buckets := map[string]*object.Bucket[string]{
		"name":   object.NewBucket(c, "holdfast:x", object.StringCodec{}),
		"codec":  object.NewBucket[string](c, "b", nil),
		"client": object.NewBucket(nil, "b", object.StringCodec{}),
	}
	errs := map[string]error{
		"load": second(n.Load(ctx)), "store": n.Store(ctx, 1), "add": second(n.Add(ctx, 1)), "swap": second(n.Swap(ctx, 1)),
		"compare": second(n.CompareAndSwap(ctx, 1, 2)), "delete": second(n.LoadAndDelete(ctx)),
		"init": second(g.TryInit(ctx, 1, 1)), "next": second(g.Next(ctx)), "time": second(id.Next(ctx)), "times": second(id.NextN(ctx, 2)),
		"no block": second(object.NewIDGenerator(c, "g").TryInit(ctx, 1, 0)), "huge block": second(object.NewIDGenerator(c, "g").TryInit(ctx, 1, math.MaxInt64)),
		"no room": second(object.NewIDGenerator(c, "g").TryInit(ctx, math.MaxInt64, 1)),
		"no ids":  second(object.NewTimeID(c, "t").NextN(ctx, 0)), "many ids": second(object.NewTimeID(c, "t").NextN(ctx, 10_001)),
		"ttl": object.NewBucket(c, "b", object.StringCodec{}).Set(ctx, "a", time.Microsecond),
	}
	for what, b := range buckets {
		errs[what+" get"] = fault3(b.Get(ctx))
		errs[what+" set"] = b.Set(ctx, "a", 0)
		errs[what+" keep"] = b.SetKeepTTL(ctx, "a")
		errs[what+" absent"] = second(b.SetIfAbsent(ctx, "a", 0))
		errs[what+" exists"] = second(b.SetIfExists(ctx, "a", 0))
		errs[what+" swap"] = fault3(b.Swap(ctx, "a", 0))
		errs[what+" delete"] = fault3(b.GetAndDelete(ctx))
		errs[what+" expire"] = fault3(b.GetAndExpire(ctx, -1))
		errs[what+" compare"] = second(b.CompareAndSwap(ctx, "a", "b"))
		errs[what+" compare and delete"] = second(b.CompareAndDelete(ctx, "a"))
		errs[what+" size"] = second(b.Size(ctx))
	}
	for what, err := range errs {
		var e *holdfast.Error
		if !errors.Is(err, holdfast.ErrInvalid) || !errors.As(err, &e) {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		}
	}
	if p.Total() != 0 {
		t.Errorf("sent: %v", p.Commands())
	}
}

// A bucket without a client says so, whatever is asked of it.
func TestBucketWithoutClient(t *testing.T) {
	t.Parallel()
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("panic: %v", r)
		}
	}()
	b := object.NewBucket(nil, "x", object.StringCodec{})
	if err := b.Object().Rename(t.Context(), "y"); !errors.Is(err, holdfast.ErrInvalid) {
		t.Error(err)
	}
}

// A key that holds something else is refused, as the documentation says, and
// not overwritten: it may be a lock.
func TestValuesLeaveLocksAlone(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Shared(t).URL())
	ctx := t.Context()
	for title, write := range map[string]func(string) error{
		"AtomicLong.Store":  func(n string) error { return object.NewAtomicLong(c, n).Store(ctx, 1) },
		"Bucket.Set":        func(n string) error { return object.NewBucket(c, n, object.StringCodec{}).Set(ctx, "x", 0) },
		"Bucket.SetKeepTTL": func(n string) error { return object.NewBucket(c, n, object.StringCodec{}).SetKeepTTL(ctx, "x") },
		"Bucket.SetIfExists": func(n string) error {
			_, err := object.NewBucket(c, n, object.StringCodec{}).SetIfExists(ctx, "x", 0)
			return err
		},
		"TimeID.Next": func(n string) error {
			_, err := object.NewTimeID(c, n).Next(ctx)
			return err
		},
		"RateLimiter.TrySetRate": func(n string) error {
			_, err := c.RateLimiter(n).TrySetRate(ctx, holdfast.Rate{Permits: 1, Per: 60e9})
			return err
		},
	} {
		t.Run(title, func(t *testing.T) {
			m := c.Mutex(locktest.Name(t))
			l := locktest.Lock(t, ctx, m)
			if err := write(m.Name()); !errors.Is(err, holdfast.ErrRefused) {
				t.Errorf("error %v", err)
			}
			state, err := m.State(ctx)
			if err != nil || state.Owner != l.Owner() {
				t.Errorf("the lock is %+v, %v", state, err)
			}
			if err := l.Release(ctx); err != nil {
				t.Error(err)
			}
			if held, err := m.IsLocked(ctx); held || err != nil {
				t.Errorf("still held: %v, %v", held, err)
			}
		})
	}
}

// Updates by many clients are not lost, from the first one on.
func TestBucketUpdate(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, name := redistest.Shared(t), locktest.Name(t)
	const clients, rounds = 8, 20
	var wg sync.WaitGroup
	for range clients {
		b := object.NewBucket(locktest.Open(t, locktest.Enduring(s.URL())), name, object.JSONCodec[map[string]int]{})
		wg.Go(func() {
			for range rounds {
				_, err := b.Update(ctx, func(old map[string]int, ok bool) (map[string]int, error) {
					if ok != (old != nil) {
						t.Errorf("%v, %v", old, ok)
					}
					return map[string]int{"a": old["a"] + 1, "b": old["b"] + 2}, nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b := object.NewBucket(locktest.Open(t, locktest.Enduring(s.URL())), name, object.JSONCodec[map[string]int]{})
	if v, _, err := b.Get(ctx); err != nil || v["a"] != clients*rounds || v["b"] != 2*clients*rounds {
		t.Errorf("%v, %v, want %d", v, err, clients*rounds)
	}
	no := errors.New("no")
	if _, err := b.Update(ctx, func(map[string]int, bool) (map[string]int, error) { return nil, no }); !errors.Is(err, no) {
		t.Errorf("an error of the function: %v", err)
	}
	if _, err := b.Update(ctx, nil); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("no function: %v", err)
	}
	s.Do(t, "SET", name, `{ "a": 1 }`) // not as the codec writes it
	short, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	if v, err := b.Update(short, func(old map[string]int, _ bool) (map[string]int, error) {
		return map[string]int{"a": old["a"] + 1}, nil
	}); err != nil || v["a"] != 2 {
		t.Errorf("a value that another client has written: %v, %v", v, err)
	}
	// A value that changes all the time ends the update with its context.
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	n := 0
	_, err := b.Update(ctx, func(old map[string]int, _ bool) (map[string]int, error) {
		n++
		s.Do(t, "SET", name, fmt.Sprintf(`{"c":%d}`, n))
		return old, nil
	})
	if !errors.Is(err, context.DeadlineExceeded) || n < 2 {
		t.Errorf("%d calls: %v", n, err)
	}
}
