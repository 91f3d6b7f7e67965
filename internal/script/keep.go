package script

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var keep = load("keep")

// CanKeep reports whether the server can keep the lock for a time after its release. It
// cannot keep a read lock or permits.
func (h LockRef) CanKeep() bool { return h.script() == renew }

// Keep returns the call that makes the server keep a lock for a time from now on, and
// tells the clients that wait on the channel to ask again.
func Keep(h LockRef, d time.Duration, channel string) driver.Call {
	return driver.Call{Script: keep, Keys: []string{h.Key}, Args: []string{h.Owner, millis(d), channel, publish}}
}

// Kept decodes the reply to a call of Keep: whether the owner held the lock.
func Kept(r driver.Reply, err error) (bool, error) { return decodeBool(keep, r, err) }
