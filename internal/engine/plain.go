package engine

import (
	"context"

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

// plainHolder says in words who holds a plain lock.
const plainHolder = "a client of another library (the key is a string with a TTL, as SET NX PX writes it)"
