package interop_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/interop"
	goobject "github.com/holdfast-go/holdfast/object"
)

// objects lists the objects that both sides have and that are not locks. fill creates all of
// their keys.
var objects = []struct {
	name   string
	getter string
	since  interop.Release
	keys   int
	first  string // methods of Redisson that handle only the key with the name
	golang func(c *holdfast.Client, n string) *goobject.Object
	fill   func(t *testing.T, java object)
}{
	{
		"semaphore", "getSemaphore", interop.Era, 1, "",
		func(c *holdfast.Client, n string) *goobject.Object { return goobject.Of(c.Semaphore(n)) },
		func(t *testing.T, java object) { java.says(t, true, "trySetPermits", 3) },
	},
	{
		"leased semaphore", "getPermitExpirableSemaphore", interop.Era, 2, " rename renamenx move unlink ",
		func(c *holdfast.Client, n string) *goobject.Object { return goobject.Of(c.LeasedSemaphore(n)) },
		func(t *testing.T, java object) {
			java.says(t, true, "trySetPermits", 3)
			java.do(t, "", "acquire", 1, "HOURS")
		},
	},
	{
		"rate limiter", "getRateLimiter", interop.Current, 3, " rename renamenx copy copyAndReplace move unlink ",
		func(c *holdfast.Client, n string) *goobject.Object { return goobject.Of(c.RateLimiter(n)) },
		func(t *testing.T, java object) {
			java.says(t, true, "trySetRate", "OVERALL", 3, "PT1H")
			java.says(t, true, "tryAcquire")
		},
	},
	{
		"id generator", "getIdGenerator", interop.Current, 2, " move unlink ",
		func(c *holdfast.Client, n string) *goobject.Object { return goobject.NewIDGenerator(c, n).Object() },
		func(t *testing.T, java object) { java.says(t, 1, "nextId") },
	},
	{
		"atomic long", "getAtomicLong", interop.Era, 1, "",
		func(c *holdfast.Client, n string) *goobject.Object { return goobject.NewAtomicLong(c, n).Object() },
		func(t *testing.T, java object) { java.says(t, nil, "set", 7) },
	},
	{
		"bucket", "getBucket", interop.Era, 1, "",
		func(c *holdfast.Client, n string) *goobject.Object {
			return goobject.NewBucket(c, n, goobject.BytesCodec{}).Object()
		},
		func(t *testing.T, java object) { java.says(t, nil, "set", "value") },
	},
}

// An objectAPI calls the object methods of one side.
type objectAPI interface {
	Exists(t *testing.T) bool
	Delete(t *testing.T) bool
	Touch(t *testing.T) bool
	Expire(t *testing.T, d time.Duration) bool
	ExpireAt(t *testing.T, at time.Time) bool
	Persist(t *testing.T) bool
	TTL(t *testing.T) time.Duration
	IdleTime(t *testing.T) time.Duration
	MemoryUse(t *testing.T) int64
}

// javaObject calls Redisson.
type javaObject struct{ object }

func (k javaObject) ask(t *testing.T, method string, args ...any) interop.Answer {
	t.Helper()
	return k.do(t, "", method, args...)
}

func (k javaObject) Exists(t *testing.T) bool { return k.ask(t, "isExists").Bool() }
func (k javaObject) Delete(t *testing.T) bool { return k.ask(t, "delete").Bool() }
func (k javaObject) Touch(t *testing.T) bool  { return k.ask(t, "touch").Bool() }
func (k javaObject) Expire(t *testing.T, d time.Duration) bool {
	return k.ask(t, "expire", d.Milliseconds(), "MILLISECONDS").Bool()
}

func (k javaObject) ExpireAt(t *testing.T, at time.Time) bool {
	return k.ask(t, "expireAt", at.UnixMilli()).Bool()
}
func (k javaObject) Persist(t *testing.T) bool { return k.ask(t, "clearExpire").Bool() }
func (k javaObject) TTL(t *testing.T) time.Duration {
	return time.Duration(k.ask(t, "remainTimeToLive").Int()) * time.Millisecond
}

func (k javaObject) IdleTime(t *testing.T) time.Duration {
	return time.Duration(k.ask(t, "getIdleTime").Int()) * time.Second
}
func (k javaObject) MemoryUse(t *testing.T) int64 { return k.ask(t, "sizeInMemory").Int() }

// goObject calls Holdfast.
type goObject struct{ *goobject.Object }

func (k goObject) Exists(t *testing.T) bool { return must[bool](t)(k.Object.Exists(t.Context())) }
func (k goObject) Delete(t *testing.T) bool { return must[bool](t)(k.Object.Delete(t.Context())) }
func (k goObject) Touch(t *testing.T) bool  { return must[bool](t)(k.Object.Touch(t.Context())) }
func (k goObject) Expire(t *testing.T, d time.Duration) bool {
	return must[bool](t)(k.Object.Expire(t.Context(), d))
}

func (k goObject) ExpireAt(t *testing.T, at time.Time) bool {
	return must[bool](t)(k.Object.ExpireAt(t.Context(), at))
}

func (k goObject) Persist(t *testing.T) bool {
	return must[bool](t)(k.Object.Persist(t.Context()))
}

func (k goObject) TTL(t *testing.T) time.Duration {
	return must[time.Duration](t)(k.Object.TTL(t.Context()))
}

func (k goObject) IdleTime(t *testing.T) time.Duration {
	return must[time.Duration](t)(k.Object.IdleTime(t.Context()))
}

func (k goObject) MemoryUse(t *testing.T) int64 {
	return must[int64](t)(k.Object.MemoryUse(t.Context()))
}

// keysOf returns the keys of an object: all keys that contain its name.
func (r *fixture) keysOf(t *testing.T, name string) []string {
	t.Helper()
	return slices.DeleteFunc(r.server.Keys(t), func(key string) bool {
		return strings.HasPrefix(key, "holdfast:once:") || strings.Trim(strings.SplitN(key, "}", 2)[0], "{") != name
	})
}

// An operation of one side on an object affects all of its keys, and the other side sees the
// result.
func TestObjects(t *testing.T) {
	releases(t, func(t *testing.T, release interop.Release) {
		r := newFixture(t, release)
		for _, o := range objects {
			if release == interop.Era && o.since == interop.Current {
				continue
			}
			t.Run(o.name, func(t *testing.T) {
				t.Parallel()
				fill := func(t *testing.T, n string) {
					t.Helper()
					o.fill(t, r.java.get(t, o.getter, n))
					if keys := r.keysOf(t, n); len(keys) != o.keys {
						t.Fatalf("the keys are %q, want %d", keys, o.keys)
					}
				}
				java := func(n string) objectAPI { return javaObject{r.java.get(t, o.getter, n)} }
				golang := func(n string) objectAPI { return goObject{o.golang(r.golang, n)} }
				t.Run("Java first", func(t *testing.T) { r.keeps(t, fill, java, golang) })
				t.Run("Go first", func(t *testing.T) { r.keeps(t, fill, golang, java) })
			})
		}
	})
}

func (r *fixture) keeps(t *testing.T, fill func(t *testing.T, n string), one, other func(n string) objectAPI) {
	n := name(t)
	same := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	last := func(name string, d time.Duration) { // negative: no expiry
		t.Helper()
		for _, k := range []objectAPI{one(name), other(name)} {
			if ttl := k.TTL(t); ttl > d || (ttl < 0) != (d < 0) {
				t.Errorf("%T has %v left, want %v", k, ttl, d)
			}
		}
		for _, key := range r.keysOf(t, name) {
			if ttl := time.Duration(r.server.Int(t, "PTTL", key)) * time.Millisecond; ttl > d || (ttl < 0) != (d < 0) {
				t.Errorf("%s has %v left, want %v", key, ttl, d)
			}
		}
	}
	for _, k := range []objectAPI{one(n), other(n)} {
		same("exists", k.Exists(t), false)
		same("deleted", k.Delete(t), false)
		same("touched", k.Touch(t), false)
		same("expires", k.Expire(t, time.Hour), false)
	}
	fill(t, n)
	same("the other sees it", other(n).Exists(t), true)
	same("touched", one(n).Touch(t), true)
	same("idle", one(n).IdleTime(t) < 10*time.Second, true)
	same("has a size", one(n).MemoryUse(t) > 0, true)

	last(n, -time.Millisecond)
	same("expires", one(n).Expire(t, time.Hour), true)
	last(n, time.Hour)
	same("ends no more", other(n).Persist(t), true)
	last(n, -time.Millisecond)
	same("ends no more, again", one(n).Persist(t), false)
	same("expires", one(n).ExpireAt(t, time.Now().Add(time.Minute)), true)
	last(n, time.Minute)

	same("deleted by the other", other(n).Delete(t), true)
	same("the keys that are left", len(r.keysOf(t, n)), 0)
	same("exists", one(n).Exists(t), false)
}

// Operations that move or copy an object handle all of its keys in Go, and mostly only the
// first key in Redisson.
func TestObjectsMoved(t *testing.T) {
	r, ctx := newFixture(t, interop.Current), t.Context()
	elsewhere := open(t, "redis://"+r.server.Addr()+"/1")
	for _, op := range []struct {
		java   string // the method
		golang func(o *goobject.Object, to string) error
		stays  bool // the object also remains under the old name
		goes   bool // the object is under the new name afterwards
	}{
		{"rename", func(o *goobject.Object, to string) error { return o.Rename(ctx, to) }, false, true},
		{"renamenx", func(o *goobject.Object, to string) error { _, err := o.RenameIfAbsent(ctx, to); return err }, false, true},
		{"copy", func(o *goobject.Object, to string) error { _, err := o.Copy(ctx, to); return err }, true, true},
		{"copyAndReplace", func(o *goobject.Object, to string) error { return o.CopyReplace(ctx, to) }, true, true},
		{"move", func(o *goobject.Object, _ string) error { _, err := o.Move(ctx, 1); return err }, false, false},
		{"unlink", func(o *goobject.Object, _ string) error { _, err := o.Unlink(ctx); return err }, false, false},
	} {
		for _, o := range objects {
			t.Run(op.java+" "+o.name, func(t *testing.T) {
				t.Parallel()
				is := func(what string, got, want int) {
					t.Helper()
					if got != want {
						t.Errorf("%s: %d keys, want %d", what, got, want)
					}
				}
				check := func(who, n, to string, moved int) {
					t.Helper()
					left, there := o.keys-moved, 0
					if op.stays {
						left = o.keys
					}
					if op.goes {
						there = moved
					}
					is(who+" leaves", len(r.keysOf(t, n)), left)
					is(who+" brings", len(r.keysOf(t, to)), there)
					if op.java == "move" {
						gives(t, true)(o.golang(elsewhere, n).Exists(ctx))
					}
				}
				n, to := name(t), name(t)
				o.fill(t, r.java.get(t, o.getter, n))
				fails(t, op.golang(o.golang(r.golang, n), to), nil)
				check("Go", n, to, o.keys)

				n, to = name(t), name(t)
				java := r.java.get(t, o.getter, n)
				o.fill(t, java)
				moved := o.keys
				if strings.Contains(o.first, " "+op.java+" ") {
					moved = 1
				}
				switch op.java {
				case "unlink":
					java.says(t, true, op.java)
				case "move":
					java.says(t, true, op.java, 1)
				default:
					if op.stays && o.name == "leased semaphore" {
						java.throws(t, op.java, to) // Redisson does not copy it
						return
					}
					java.do(t, "", op.java, to)
				}
				check("Java", n, to, moved)
			})
		}
	}
}

// An object with one key can be dumped by one side and restored by the other.
func TestObjectDump(t *testing.T) {
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		ctx, r, p := t.Context(), newFixture(t, release), peer(t, release)
		encoder := object{must[interop.Object](t)(p.Static("java.util.Base64", "getEncoder"))}
		decoder := object{must[interop.Object](t)(p.Static("java.util.Base64", "getDecoder"))}
		for _, o := range objects {
			if o.keys > 1 {
				continue
			}
			n, n2, n3 := name(t), name(t), name(t)
			o.fill(t, r.java.get(t, o.getter, n))
			byJava := encoder.do(t, "", "encodeToString", r.java.get(t, o.getter, n).keep(t, "dump")).String()
			dump := must[[]byte](t)(base64.StdEncoding.DecodeString(byJava))
			if byGo := must[[]byte](t)(o.golang(r.golang, n).Dump(ctx)); !slices.Equal(byGo, dump) {
				t.Errorf("%s: Java dumps %x, and Go %x", o.name, dump, byGo)
			}
			fails(t, o.golang(r.golang, n2).Restore(ctx, dump, time.Hour), nil)
			restored := r.java.get(t, o.getter, n3)
			restored.says(t, nil, "restore", decoder.keep(t, "decode", byJava), 1, "HOURS")
			want := r.server.Do(t, "GET", n)
			for _, copied := range []string{n2, n3} {
				if got := r.server.Do(t, "GET", copied); got != want || r.server.Int(t, "PTTL", copied) < 1 {
					t.Errorf("%s: %v was restored, want %v", o.name, got, want)
				}
			}
			restored.throws(t, "restore", decoder.keep(t, "decode", byJava))
			fails(t, o.golang(r.golang, n3).Restore(ctx, dump, 0), holdfast.ErrRefused)
			restored.says(t, nil, "restoreAndReplace", decoder.keep(t, "decode", byJava))
			fails(t, o.golang(r.golang, n3).RestoreReplace(ctx, dump, 0), nil)
		}
	})
}
