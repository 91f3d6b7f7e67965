package deadlock

import (
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A Client is a client whose calls look for deadlocks.
//
// Readers that share a hold have the same owner, and each of them may wait for another lock.
// A client keeps their waits by owner, so that one publication has all of them.
type Client struct {
	Driver driver.Driver
	ID     string
	Who    string // the client in words
	Ends   bool   // its calls can be ended

	number atomic.Uint64 // of the last call

	mu    sync.Mutex
	waits map[string]map[string]script.Wait // by owner and id: what the calls with that owner have published
}

// note notes the wait of a call, and returns those of other calls with the same owner.
func (c *Client) note(owner string, w script.Wait) []script.Wait {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.waits[owner]
	var others []script.Wait
	for _, id := range sortedKeys(all) {
		if id != w.ID {
			others = append(others, all[id])
		}
	}
	if all == nil {
		all = make(map[string]script.Wait)
		if c.waits == nil {
			c.waits = make(map[string]map[string]script.Wait)
		}
		c.waits[owner] = all
	}
	all[w.ID] = w
	return others
}

// forget removes the wait of a call. It reports whether no other call has the same owner.
func (c *Client) forget(owner, id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waits[owner], id)
	if len(c.waits[owner]) > 0 {
		return false
	}
	delete(c.waits, owner)
	return true
}
