package script

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxName is the longest name of an object, in bytes.
const MaxName = 512

// MaxListed is the longest name of a lock that is listed, in bytes. Redisson accepts longer
// names than Holdfast.
const MaxListed = 1024

// prefixed derives a key in the slot of name, as Redisson does:
// p:{name}, or p:name when the name has a hash tag of its own.
func prefixed(p, name string) string {
	if strings.Contains(name, "{") {
		return p + ":" + name
	}
	return p + ":{" + name + "}"
}

// suffixed derives a key in the slot of name, as Redisson does:
// {name}:s, or name:s when the name has a hash tag of its own.
func suffixed(name, s string) string { return root(name) + ":" + s }

// root returns the prefix of suffixed keys.
func root(name string) string {
	if strings.Contains(name, "{") {
		return name
	}
	return "{" + name + "}"
}

// reserved lists the prefixes of keys that belong to other objects. A lock with
// such a name would corrupt them.
var reserved = []string{
	"redisson_lock__channel:", "redisson_lock_queue:", "redisson_lock_timeout:", "redisson_lock_token:",
	"redisson_unlock_latch:", "redisson_rwlock:", "redisson_sc:", "redisson_countdownlatch__channel__", "holdfast:",
}

// CheckName returns an error if the name of an object is not valid. It refuses
// names whose derived keys would be in another cluster slot or collide with
// those of another object.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case len(name) > MaxName:
		return fmt.Errorf("the name has %d bytes, more than %d: use a shorter one, or a hash of it", len(name), MaxName)
	case !utf8.ValidString(name):
		return errors.New("the name is not valid UTF-8: encode it, for instance in base64")
	}
	if i := strings.IndexFunc(name, unicode.IsControl); i >= 0 {
		return fmt.Errorf("the name has a control character at byte %d", i)
	}
	for _, p := range reserved {
		if strings.HasPrefix(name, p) {
			return fmt.Errorf("names that begin with %q are reserved", p)
		}
	}
	if strings.Contains(name, ":rwlock_timeout:") {
		return errors.New("names that contain \":rwlock_timeout:\" are reserved")
	}
	opening, closing := strings.IndexByte(name, '{'), strings.IndexByte(name, '}')
	switch {
	case opening < 0 && closing < 0:
		return nil
	case closing < 0:
		return fmt.Errorf("the name has a { at byte %d that is not closed: braces may only mark a hash tag, as in order:{42}", opening)
	case opening < 0 || closing < opening:
		return fmt.Errorf("the name has a stray } at byte %d: braces may only mark a hash tag, as in order:{42}", closing)
	case closing == opening+1:
		return errors.New("the name has an empty hash tag {}")
	}
	return nil
}
