package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

const (
	holderAge   = 30 * time.Second // how long what is known about a holder is used
	holderPause = time.Second      // between two looks of a client
	holderTime  = 250 * time.Millisecond
	maxHolders  = 1000
)

// holders remember who held the locks that calls of a client did not get, for the text of
// [ErrNotAcquired]. The client looks in the background, at most once per second: when a call
// with a limit has waited for a second, and when a second call in a row fails. So an error
// costs no request, and the first one may not name the holder.
type holders struct {
	mu     sync.Mutex
	locks  map[string]*holderSight
	looked time.Duration // when a look began last
}

// A holderSight is what is known about the holder of a lock.
type holderSight struct {
	failed  time.Duration // when a call failed last
	looked  time.Duration // when the holder was last seen; 0: never
	first   time.Duration // when this owner was first seen
	owner   string
	who     string
	ttl     time.Duration
	renewed bool
}

// sight returns what is known about a lock. The caller holds h.mu.
func (h *holders) sight(name string) *holderSight {
	s := h.locks[name]
	if s == nil {
		if h.locks == nil || len(h.locks) >= maxHolders {
			h.locks = make(map[string]*holderSight)
		}
		s = new(holderSight)
		h.locks[name] = s
	}
	return s
}

// explainBusy adds to the error of a call that did not get a lock who holds it, as far as it
// is known.
func (c *Client) explainBusy(name string, err error) {
	var busy *engine.Busy
	if !errors.As(err, &busy) || busy.Local || busy.Why != "" || busy.Young || busy.Holder != "" {
		return
	}
	if busy.Key != "" {
		name = busy.Key
	}
	h, now := &c.holders, clock.Early()
	h.mu.Lock()
	s := h.sight(name)
	busy.Holder = s.text(now)
	again := s.failed != 0 && now-s.failed < holderAge && now-max(s.looked, s.failed) >= holderPause
	if s.failed == 0 || again {
		s.failed = now
	}
	h.mu.Unlock()
	if again {
		c.lookAtHolder(name)
	}
}

// text returns the holder in words, or "" if it is not known.
func (s *holderSight) text(now time.Duration) string {
	if s.looked == 0 || now-s.looked > holderAge || s.who == "" {
		return ""
	}
	var about []string
	if held := s.looked - s.first; held >= time.Second {
		about = append(about, fmt.Sprintf("for at least %v", held.Round(time.Second)))
	}
	if s.renewed {
		about = append(about, "renewed")
	}
	if age := now - s.looked; age >= 2*time.Second {
		about = append(about, fmt.Sprintf("seen %v ago", age.Round(time.Second)))
	}
	if len(about) == 0 {
		return s.who
	}
	return s.who + " " + strings.Join(about, ", ")
}

// lookAtHolder looks in the background who holds a lock, unless the client has just looked.
func (c *Client) lookAtHolder(name string) {
	h, now := &c.holders, clock.Early()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.looked != 0 && now-h.looked < holderPause {
		return
	}
	h.looked = now
	c.calls.start(func() {
		ctx, cancel := context.WithTimeout(context.Background(), holderTime)
		defer cancel()
		owners, ttl, err := script.Holders(ctx, c.driver, name)
		if err != nil || len(owners) == 0 {
			return // what is not known is not said
		}
		client, err := inspect.New(c.driver).Client(ctx, owners[0])
		if err == nil && client != nil {
			c.holders.note(name, owners[0], ttl, client.String())
		}
	})
}

// note takes in who holds a lock.
func (h *holders) note(name, owner string, ttl time.Duration, who string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, now := h.sight(name), clock.Early()
	if s.owner != owner {
		*s = holderSight{failed: s.failed, first: now, owner: owner}
	} else if ttl > s.ttl-(now-s.looked)+time.Second {
		s.renewed = true
	}
	s.looked, s.ttl, s.who = now, ttl, who
}
