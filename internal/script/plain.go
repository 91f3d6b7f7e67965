package script

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var plainLook = load("plain_look")

// LookAtPlain returns the call that reads for how long a plain lock is held: a string with
// a TTL, as other libraries write it with SET NX PX. DecodePlain decodes the reply.
func LookAtPlain(key string) driver.Call {
	return driver.Call{Script: plainLook, Keys: []string{key}}
}

// DecodePlain decodes the reply to LookAtPlain. It returns zero if there is no plain lock,
// and false if the key holds other data than a lock.
func DecodePlain(r driver.Reply) (ttl time.Duration, ok bool, err error) {
	switch {
	case r.Type == driver.Nil:
		return 0, false, nil
	case r.Type == driver.Int && r.Int < 0:
		return verdict(r.Int).TTL, true, nil
	default:
		return 0, false, unexpected(plainLook, r)
	}
}

// PlainWalk is the walk that finds strings whose names match a pattern. Only names that a lock
// can have are found, so not the keys that Holdfast and Redisson derive from names.
func PlainWalk(pattern string) Walk {
	return Walk{kind: "string", pattern: pattern, names: func(key string) []string {
		if CheckName(key) != nil {
			return nil
		}
		return itself(key)
	}}
}
