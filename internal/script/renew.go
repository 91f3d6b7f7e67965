package script

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var (
	renew     = load("renew")
	readRenew = load("read_renew")
)

// A Holding is a lock and the owner that holds it.
type Holding struct {
	Key   string
	Owner string // its field in the hash
	Reads string // of a reader, the beginning of the names of its own keys
}

// Renew returns the call that gives every holding the whole lease time again.
// All keys must share a slot, and all holdings be of readers or none.
func Renew(lease time.Duration, hs []Holding) driver.Call {
	c := driver.Call{
		Script: renew,
		Keys:   make([]string, 0, 2*len(hs)),
		Args:   make([]string, 1, 1+len(hs)),
	}
	c.Args[0] = millis(lease)
	for _, h := range hs {
		c.Keys = append(c.Keys, h.Key)
		c.Args = append(c.Args, h.Owner)
		if h.Reads != "" {
			c.Script = readRenew
			c.Keys = append(c.Keys, h.Reads)
		}
	}
	return c
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
