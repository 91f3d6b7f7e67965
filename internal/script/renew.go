package script

import (
	"cmp"
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var (
	renew       = load("renew")
	readRenew   = load("rwmutex_read_renew")
	leasedRenew = load("leased_renew")
)

// A LockRef is a lock and the owner that holds it.
type LockRef struct {
	Key   string
	Owner string // its field in the hash
	Reads string // of a reader, the prefix of all readers' keys

	// For permits, the key is a sorted set that belongs to the semaphore with
	// this name, and these are their concatenated ids.
	Name    string
	Permits string
}

// Called returns the name of the lock for messages.
func (h LockRef) Called() string { return cmp.Or(h.Name, h.Key) }

// Sort returns the sort of the holding. One call renews holdings of one sort.
func (h LockRef) Sort() string { return h.script().Name }

func (h LockRef) script() *driver.Script {
	switch {
	case h.Permits != "":
		return leasedRenew
	case h.Reads != "":
		return readRenew
	}
	return renew
}

// Weight returns the relative cost of a renewal.
func (h LockRef) Weight() int { return max(len(h.Permits)/idSize, 1) }

// Renew returns the call that extends every holding to at least its lease time
// from now. All keys must be in one slot, and all holdings must be of one sort.
func Renew(leases []time.Duration, hs []LockRef) driver.Call {
	c := driver.Call{
		Script: hs[0].script(),
		Keys:   make([]string, 0, 2*len(hs)),
		Args:   make([]string, 0, 2*len(hs)),
	}
	for i, h := range hs {
		c.Keys = append(c.Keys, h.Key)
		c.Args = append(c.Args, millis(leases[i]), cmp.Or(h.Permits, h.Owner))
		if h.Reads != "" {
			c.Keys = append(c.Keys, readerKeys(h.Reads, h.Owner))
		}
	}
	return c
}

// Prolong extends one holding to at least lease from now. It reports whether it
// is still held.
func Prolong(ctx context.Context, d driver.Driver, h LockRef, lease time.Duration) (bool, error) {
	r, err := d.Do(ctx, Renew([]time.Duration{lease}, []LockRef{h}))
	if err != nil {
		return false, err
	}
	held, err := Renewed(r, 1)
	return err == nil && held[0], err
}

// Renewed decodes the reply to a call of Renew for n holdings: whether each is
// still held.
func Renewed(r driver.Reply, n int) ([]bool, error) {
	if r.Type != driver.List || len(r.List) != n {
		return nil, unexpected(renew, r)
	}
	held := make([]bool, n)
	for i, e := range r.List {
		if e.Type != driver.Int {
			return nil, unexpected(renew, r)
		}
		held[i] = e.Int == 1
	}
	return held, nil
}
