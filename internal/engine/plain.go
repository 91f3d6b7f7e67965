package engine

import (
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// plainTries is how often a claim is sent if the lock of another library is gone when it is
// looked at. Other clients may take and release it in between.
const plainTries = 10

// plainHolder says in words who holds a plain lock.
const plainHolder = "a client of another library (the key is a string with a TTL, as SET NX PX writes it)"

// claimPlain goes on with a claim that has failed because a key has the wrong type. If clients
// of other libraries hold the lock, it sets v. Otherwise it returns the error of the last
// request.
func (a *acquisition) claimPlain(err error, v *script.Verdict) error {
	for tries := 1; tries < plainTries && driver.CodeOf(err) == "WRONGTYPE"; tries++ {
		held, ok := a.lookAtPlain()
		if !ok {
			break
		}
		if held.TTL > 0 {
			*v = held
			return nil
		}
		// A plain lock was released meanwhile, or another key has the wrong type.
		err = a.e.claim(a.asking, a.k, a.traits, &a.claim.Claim, v)
	}
	return err
}

// lookAtPlain returns the verdict on a claim if a key is a string with a TTL, so that a
// client of another library holds the lock: see [script.LookAtPlain]. The TTL is zero if there
// is no such string. It returns false if a key of a lock holds other data.
func (a *acquisition) lookAtPlain() (script.Verdict, bool) {
	keys := a.plainKeys()
	v := script.Verdict{Plain: true}
	for _, key := range keys {
		r, err := a.e.d.Do(a.asking, script.LookAtPlain(key))
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
func (a *acquisition) plainKeys() (keys []string) {
	if a.traits.Plain {
		return []string{a.key()}
	}
	for _, w := range a.group {
		if w.Kind.Traits().Plain {
			keys = append(keys, w.Kind.Claim(a.claim.Claim).Keys[0])
		}
	}
	return keys
}
