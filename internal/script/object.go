package script

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var (
	objectExists  = load("object_exists")
	objectTouch   = load("object_touch")
	objectTTL     = load("object_ttl")
	objectMemory  = load("object_memory")
	objectIdle    = load("object_idle")
	objectDelete  = load("object_delete")
	objectRename  = load("object_rename")
	objectCopy    = load("object_copy")
	objectMove    = load("object_move")
	objectExpire  = load("object_expire")
	objectPersist = load("object_persist")
	objectDump    = load("object_dump")
	objectRestore = load("object_restore")
)

// An Object is the wire format of the operations on an object of any kind. They
// apply to all its keys together.
type Object struct {
	shape func(name string) Parts
	parts Parts
}

// NewObject returns the wire of the object of that kind and name, as the client
// with that id sees it.
func NewObject(kind, name, client string) *Object {
	shape := func(name string) Parts { return KindOf(kind).Shape(name, client) }
	return &Object{shape, shape(name)}
}

// Key returns the key with the name of the object.
func (o *Object) Key() string { return o.parts.Keys[0].Name }

// Shares reports whether this object and the object of the same shape with
// another name have common keys.
func (o *Object) Shares(name string) bool {
	mine := o.names()
	return slices.ContainsFunc(names(o.shape(name).Keys), func(k string) bool { return slices.Contains(mine, k) })
}

func (o *Object) names() []string { return names(o.parts.Keys) }

// Exists reports whether any key of the object exists.
func (o *Object) Exists(ctx context.Context, d driver.Driver) (bool, error) {
	r, err := d.Do(ctx, driver.Call{Script: objectExists, Keys: o.names()})
	return decodeBool(objectExists, r, err)
}

// Touch updates the last access time of the object.
func (o *Object) Touch(ctx context.Context, d driver.Driver) (bool, error) {
	r, err := d.Do(ctx, driver.Call{Script: objectTouch, Keys: o.all()})
	return decodeBool(objectTouch, r, err)
}

// all returns the keys of the object and those beside it.
func (o *Object) all() []string { return append(o.names(), names(o.parts.Beside)...) }

// TTL returns the TTL of the object: -1 ms if it never expires, -2 ms if it does
// not exist.
func (o *Object) TTL(ctx context.Context, d driver.Driver) (time.Duration, error) {
	n, err := o.look(ctx, d, objectTTL, o.names(), -2)
	return remaining(n), err
}

// Memory returns the memory usage of the object in bytes, or -1 if it does not
// exist.
func (o *Object) Memory(ctx context.Context, d driver.Driver) (int64, error) {
	return o.look(ctx, d, objectMemory, o.all(), -1)
}

// Idle returns how long ago the object was used, or -1 s if it does not exist.
func (o *Object) Idle(ctx context.Context, d driver.Driver) (time.Duration, error) {
	n, err := o.look(ctx, d, objectIdle, o.all(), -1)
	return time.Duration(n) * time.Second, err
}

// look runs a script whose reply is a number. The lowest possible number means
// that the object does not exist.
func (o *Object) look(ctx context.Context, d driver.Driver, s *driver.Script, keys []string, least int64) (int64, error) {
	r, err := d.Do(ctx, driver.Call{Script: s, Keys: keys})
	if err == nil && (r.Type != driver.Int || r.Int < least) {
		err = unexpected(s, r)
	}
	return r.Int, err
}

// order returns a call that changes the object.
func (o *Object) order(s *driver.Script, request string, more []string, args ...string) driver.Call {
	key, n := mark(o.Key(), request)
	return driver.Call{
		Script: s,
		Keys:   slices.Concat([]string{key}, o.names(), more),
		Args:   append([]string{o.types(), n, markLife}, args...),
	}
}

// types returns the types of the keys in the form that scripts expect.
func (o *Object) types() string {
	var ts []string
	for _, k := range o.parts.Keys {
		ts = append(ts, k.Type)
	}
	return strings.Join(ts, " ")
}

// Delete returns the call that deletes the object with DEL, or with UNLINK,
// which frees the memory later. The reply says whether the object existed.
func (o *Object) Delete(request string, later bool) driver.Call {
	verb := "DEL"
	if later {
		verb = "UNLINK"
	}
	return o.order(objectDelete, request, nil, verb, publish, o.parts.Message, o.parts.Channel, flag(false))
}

// Keeps reports whether the object, a lock, has keys that outlive its leases.
func (o *Object) Keeps() bool { return len(o.parts.Beside) > 0 }

// Forget returns the call that deletes the keys that a lock keeps between
// leases, if the lock is free. See [DecodeMoved] for the reply: sound is false
// if the lock is not free.
func (o *Object) Forget(request string) driver.Call {
	kept := &Object{parts: Parts{Keys: o.parts.Beside}}
	c := kept.order(objectDelete, request, []string{o.Key()}, "UNLINK", publish, "", "", flag(true))
	c.Keys[0], _ = mark(o.Key(), request)
	return c
}

// Rename returns the call that renames the object, optionally also if the target
// exists. See [DecodeMoved] for the reply.
func (o *Object) Rename(request, name string, replace bool) driver.Call {
	return o.order(objectRename, request, names(o.shape(name).Keys), flag(replace))
}

// Copy returns the call that copies the object, optionally also if the target
// exists. See [DecodeMoved] for the reply.
func (o *Object) Copy(request, name string, replace bool) driver.Call {
	return o.order(objectCopy, request, names(o.shape(name).Keys), flag(replace))
}

// DecodeMoved decodes the reply to Rename, Copy and Restore. It returns whether
// the object existed, or its dump was valid, and whether the call was executed.
func DecodeMoved(r driver.Reply) (sound, done bool, err error) {
	if r.Type != driver.Int || r.Int < -1 || r.Int > 1 {
		return false, false, unexpected(objectRename, r)
	}
	return r.Int >= 0, r.Int == 1, nil
}

// Move returns the call that moves the object from one database to another. The
// reply says whether it did.
func (o *Object) Move(request string, from, to int) driver.Call {
	return o.order(objectMove, request, nil, strconv.Itoa(from), strconv.Itoa(to))
}

// Expire returns the call that sets the TTL of the object if all of the
// conditions hold: NX, XX, GT, LT, as in Redis. The reply says whether it did.
func (o *Object) Expire(request string, after time.Duration, conditions []string) driver.Call {
	return o.order(objectExpire, request, nil, "PEXPIRE", millis(after), strings.Join(conditions, " "))
}

// ExpireAt is Expire with an absolute time.
func (o *Object) ExpireAt(request string, at time.Time, conditions []string) driver.Call {
	return o.order(objectExpire, request, nil, "PEXPIREAT", strconv.FormatInt(at.UnixMilli(), 10), strings.Join(conditions, " "))
}

// Persist returns the call that removes the expiry of the object. The reply says
// whether it had one.
func (o *Object) Persist(request string) driver.Call { return o.order(objectPersist, request, nil) }

// Dump returns a dump of the object, or nil if it does not exist. It is the
// reply of DUMP if the object has one key, and else a package of these replies.
func (o *Object) Dump(ctx context.Context, d driver.Driver, kind string) ([]byte, error) {
	r, err := d.Do(ctx, driver.Call{Script: objectDump, Keys: o.names(), Args: []string{o.types()}})
	if err != nil {
		return nil, err
	}
	if r.Type != driver.List || len(r.List) != len(o.parts.Keys) {
		return nil, unexpected(objectDump, r)
	}
	dumps := make([]string, len(r.List))
	for i, e := range r.List {
		if e.Type != driver.Str {
			return nil, unexpected(objectDump, r)
		}
		dumps[i] = e.Str
	}
	switch {
	case strings.Join(dumps, "") == "":
		return nil, nil
	case len(dumps) == 1:
		return []byte(dumps[0]), nil
	}
	return pack(kind, dumps), nil
}

// Dumps returns the dumps of the keys in a dump by Dump, or an error if the dump
// is not valid.
func (o *Object) Dumps(dump []byte, kind string) ([]string, error) {
	if len(o.parts.Keys) > 1 {
		return unpack(kind, dump, len(o.parts.Keys))
	}
	if len(dump) == 0 {
		return nil, errEmpty
	}
	return []string{string(dump)}, nil
}

// Restore returns the call that restores the result of Dumps, with a TTL or for
// ever, optionally also over an existing object. See [DecodeMoved] for the reply.
func (o *Object) Restore(request string, dumps []string, ttl time.Duration, replace bool) driver.Call {
	var fresh []string
	for i := range dumps {
		fresh = append(fresh, restoring(o.Key(), strconv.Itoa(i)))
	}
	return o.order(objectRestore, request, fresh, append([]string{flag(replace), millis(ttl)}, dumps...)...)
}

// restoring returns the temporary key of a part until all parts are restored.
func restoring(name, part string) string { return prefixed("holdfast:restore", name) + ":" + part }
