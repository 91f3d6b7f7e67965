package engine

import (
	"context"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// plain returns the verdict on a claim that has failed because a key has the wrong type. If
// the key is a string with a TTL, a client of another library holds the lock: see
// [script.LookAtPlain]. The TTL is zero if there is no such string. It returns false if a key
// of a lock holds other data.
func (e *Engine) plain(ctx context.Context, k target, c script.Claim) (script.Verdict, bool) {
	keys := plainKeys(k, c)
	v := script.Verdict{Plain: true}
	for _, key := range keys {
		r, err := e.d.Do(ctx, script.LookAtPlain(key))
		if err != nil {
			return script.Verdict{}, false
		}
		ttl, ok, err := script.DecodePlain(r)
		if !ok || err != nil {
			return script.Verdict{}, false
		}
		if ttl > v.TTL {
			v.TTL = ttl
			if len(keys) > 1 {
				v.Key = key
			}
		}
	}
	return v, len(keys) > 0
}

// plainKeys returns the keys that clients of other libraries may hold as strings.
func plainKeys(k target, c script.Claim) (keys []string) {
	if u, ok := k.(*unit); ok {
		for _, w := range u.wants {
			keys = append(keys, plainKeys(w.Kind, c)...)
		}
		return keys
	}
	if k.Traits().Plain {
		keys = append(keys, k.Claim(c).Keys[0])
	}
	return keys
}

// plainTries is how often a claim is sent if a plain lock is gone when it is looked at. Other
// clients may take and release it in between.
const plainTries = 10

// claimPlain goes on with a claim whose request has failed because a key has the wrong type.
// If clients of other libraries hold the lock, claimPlain sets v. Otherwise it returns the
// result of the last request.
func (e *Engine) claimPlain(ctx context.Context, k target, c *script.Claim, v *script.Verdict, call driver.Call, need int, err error) (reply driver.Reply, acked int, _ error) {
	for tries := 1; tries < plainTries && driver.CodeOf(err) == "WRONGTYPE"; tries++ {
		held, ok := e.plain(ctx, k, *c)
		if !ok {
			break
		}
		if held.TTL > 0 {
			*v = held
			return driver.Reply{}, 0, nil
		}
		// A plain lock was released meanwhile, or another key has the wrong type.
		reply, acked, err = e.do(ctx, call, need)
	}
	return reply, acked, err
}

// plainHolder says in words who holds a plain lock.
const plainHolder = "a client of another library (the key is a string with a TTL, as SET NX PX writes it)"
