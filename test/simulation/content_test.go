package simulation_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A content is what a server has under the name of an object. The judge needs it many times, so
// it reads it again only after a call that concerns the object, or when a key has expired. All
// times are those of the server's clock, in ms since 1970.
type content struct {
	stored      []hold // as they were read
	storedUntil int64  // when the first key of them expires; zero: they must be read
	holds       []hold // the same now
	at          time.Time
	mode        string // of a read/write lock

	line, queue []string
	queuedUntil int64
}

// A hold is what an owner has of an object, or a permit of it.
type hold struct {
	id     string
	end    time.Time     // by the server's clock
	left   time.Duration // until then
	count  int64         // how often the owner has entered it
	ttl    int64         // when it was read
	expiry int64         // if its ttl was positive, or if it is a permit
}

// has returns what an owner has, or nil.
func has(holds []hold, id string) *hold {
	for i := range holds {
		if holds[i].id == id {
			return &holds[i]
		}
	}
	return nil
}

func (s *server) content(o *object) *content {
	c := s.contents[o]
	if c == nil {
		c = new(content)
		s.contents[o] = c
	}
	return c
}

// forget lets an object be read again.
func (s *server) forget(o *object) { s.content(o).storedUntil, s.content(o).queuedUntil = 0, 0 }

func (s *server) forgetAll() { clear(s.contents) }

// expiry returns when a key expires: its ttl is that of now.
func expiry(now, ttl int64) int64 {
	if ttl <= 0 {
		return math.MaxInt64
	}
	return now + ttl
}

// line returns the owners that wait for a fair lock, in their order at the server.
func (s *server) line(o *object) []string { return s.queued(o).line }

// queue returns the entries in the queue of an object, in their order at the server.
func (s *server) queue(o *object) []string { return s.queued(o).queue }

func (s *server) queued(o *object) *content {
	c, now := s.content(o), s.now().UnixMilli()
	if now >= c.queuedUntil {
		line, queue := "redisson_lock_queue:{"+o.name+"}", "holdfast:queue:{"+o.name+"}"
		c.line, c.queue = s.texts("LRANGE", line, "0", "-1"), s.texts("ZRANGE", queue, "0", "-1")
		c.queuedUntil = math.MaxInt64
		if len(c.line) > 0 {
			c.queuedUntil = expiry(now, s.number("PTTL", line))
		}
		if len(c.queue) > 0 {
			c.queuedUntil = min(c.queuedUntil, expiry(now, s.number("PTTL", queue)))
		}
	}
	return c
}

// holds returns what is held under a name, by owner or by the id of a permit.
func (s *server) holds(o *object) []hold {
	c, now := s.content(o), s.now()
	ms := now.UnixMilli()
	if ms >= c.storedUntil {
		c.stored, c.storedUntil, c.mode = nil, math.MaxInt64, ""
		if o.capacity > 0 {
			s.readPermits(c, o, ms)
		} else {
			s.readLock(c, o, ms)
		}
		slices.SortFunc(c.stored, func(a, b hold) int { return cmp.Compare(a.id, b.id) })
	} else if c.at.Equal(now) {
		return c.holds
	}
	c.at, c.holds = now, nil
	for _, h := range c.stored {
		switch {
		case o.capacity > 0 && h.expiry <= ms:
			continue
		case o.capacity > 0:
			h.end = time.UnixMilli(h.expiry)
		case h.ttl > 0:
			h.end = now.Add(time.Duration(h.expiry-ms) * time.Millisecond)
		default:
			h.end = now.Add(time.Duration(h.ttl) * time.Millisecond)
		}
		h.left = h.end.Sub(now)
		c.holds = append(c.holds, h)
	}
	return c.holds
}

func (s *server) readPermits(c *content, o *object, now int64) {
	key := "{" + o.name + "}:timeout"
	permits := s.texts("ZRANGE", key, "0", "-1", "WITHSCORES")
	for i := 0; i < len(permits); i += 2 {
		ms, _ := strconv.ParseFloat(permits[i+1], 64)
		c.stored = append(c.stored, hold{id: permits[i], count: 1, expiry: int64(ms)})
	}
	if len(permits) > 0 {
		c.storedUntil = expiry(now, s.number("PTTL", key))
	}
}

func (s *server) readLock(c *content, o *object, now int64) {
	pairs := s.texts("HGETALL", o.name)
	if len(pairs) == 0 {
		return
	}
	fields := make(map[string]string, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		fields[pairs[i]] = pairs[i+1]
	}
	mode, shared := fields["mode"]
	c.mode = mode
	whole := s.number("PTTL", o.name)
	c.storedUntil = expiry(now, whole)
	for i := 0; i < len(pairs); i += 2 {
		field := pairs[i]
		if field == "mode" || field == "leader" {
			continue
		}
		id := strings.Replace(strings.TrimSuffix(field, ":write"), ":0", ":", 1) // the lock may stay: see lua/keep.lua
		h := has(c.stored, id)
		if h == nil {
			c.stored = append(c.stored, hold{id: id, count: 1})
			h = &c.stored[len(c.stored)-1]
			if !o.votes {
				h.count = max(integer(fields[id]), integer(fields[id+":write"]))
			}
		}
		h.ttl = whole
		if field == id && shared { // a reader has a time for each hold
			h.ttl = 0
			for j := range integer(pairs[i+1]) {
				ttl := s.number("PTTL", fmt.Sprintf("{%s}:%s:rwlock_timeout:%d", o.name, id, j+1))
				h.ttl = max(h.ttl, ttl)
				c.storedUntil = min(c.storedUntil, expiry(now, ttl))
			}
		}
		h.expiry = now + h.ttl
	}
}

// integer returns the number that a text has, or 0.
func integer(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
