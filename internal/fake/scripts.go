package fake

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// grantTime is how long an owner gets a lock that has not asked just now.
const grantTime = 3 * time.Second

// A value is a string with an end.
type value struct {
	text  string
	until time.Time
}

// A message is published on a channel.
type message struct{ channel, payload string }

// runBatch runs the calls of a batch, as lua/batch.lua does.
func (d *Driver) runBatch(c driver.Call) (driver.Reply, []message) {
	name, _ := strings.CutSuffix(c.Script.Name, "_batch")
	keys, _ := strconv.Atoi(c.Args[0])
	count, _ := strconv.Atoi(c.Args[1])
	one := driver.Call{Script: &driver.Script{Name: name}, Args: slices.Clone(c.Args[5 : 5+count])}
	differ, rest := c.Args[4], c.Args[5+count:]
	list := []driver.Reply{{Type: driver.List}}
	var published []message
	for i := range len(c.Keys) / keys {
		one.Keys = c.Keys[i*keys : (i+1)*keys]
		for j := range differ {
			if i > 0 {
				one.Args[differ[j]-'1'] = rest[(i-1)*len(differ)+j]
			}
		}
		reply, more := d.run(one)
		list, published = append(list, reply), append(published, more...)
	}
	return driver.Reply{Type: driver.List, List: list}, published
}

func (d *Driver) run(c driver.Call) (reply driver.Reply, published []message) {
	if strings.HasSuffix(c.Script.Name, "_batch") {
		return d.runBatch(c)
	}
	number := func(n int) driver.Reply { return driver.Reply{Type: driver.Int, Int: int64(n)} }
	lease := func(ms string) time.Time {
		n, _ := strconv.Atoi(ms)
		return d.now().Add(time.Duration(n) * time.Millisecond)
	}
	switch c.Script.Name {
	case "mutex_acquire":
		h := d.get(c.Keys[0])
		switch {
		case h == nil && c.Args[2] != "1":
			return number(-1), nil
		case h == nil:
			h = &lock{owner: c.Args[1]}
			d.locks[c.Keys[0]] = h
		case h.owner != c.Args[1]:
			return number(-1 - int(h.until.Sub(d.now()).Milliseconds())), nil
		}
		h.count, _ = strconv.Atoi(c.Args[2])
		if until := lease(c.Args[0]); until.After(h.until) {
			h.until = until
		}
		return driver.Reply{Type: driver.Int, Int: d.now().UnixMicro()}, nil
	case "mutexes_acquire":
		for i, key := range c.Keys {
			if h := d.get(key); h != nil && h.owner != c.Args[1] {
				return driver.Reply{Type: driver.List, List: []driver.Reply{number(i + 1), number(-1 - int(h.until.Sub(d.now()).Milliseconds()))}}, nil
			}
		}
		for _, key := range c.Keys {
			until := lease(c.Args[0])
			if h := d.get(key); h != nil && h.until.After(until) {
				until = h.until
			}
			d.locks[key] = &lock{owner: c.Args[1], count: 1, until: until}
		}
		return driver.Reply{Type: driver.Int, Int: d.now().UnixMicro()}, nil
	case "mutex_release":
		h := d.get(c.Keys[0])
		if h == nil || h.owner != c.Args[0] {
			return number(0), nil
		}
		if c.Args[1] != "0" {
			h.count, _ = strconv.Atoi(c.Args[1])
			return number(1), nil
		}
		delete(d.locks, c.Keys[0])
		return number(1 + d.heard(c.Args[2])), []message{{c.Args[2], "0"}}
	case "mutex_queue":
		h := d.get(c.Keys[0])
		if h != nil && h.owner != c.Args[1] {
			left := number(-1 - int(h.until.Sub(d.now()).Milliseconds()))
			if !slices.Contains(d.queues[c.Keys[1]], c.Args[1]) {
				if most, err := strconv.Atoi(c.Args[3]); err == nil && len(d.queues[c.Keys[1]]) >= most {
					return driver.Reply{Type: driver.List, List: []driver.Reply{left, number(-1)}}, nil
				}
				d.queues[c.Keys[1]] = append(d.queues[c.Keys[1]], c.Args[1])
				d.joined[c.Args[1]] = d.now()
			}
			if short := lease(c.Args[0]).Sub(d.now()); short < grantTime {
				d.short[c.Args[1]] = time.Millisecond << (bits.Len64(uint64(short.Milliseconds())) - 1)
			}
			place := slices.Index(d.queues[c.Keys[1]], c.Args[1]) + 1
			return driver.Reply{Type: driver.List, List: []driver.Reply{left, number(place), number(int(d.joined[c.Args[1]].UnixMicro()))}}, nil
		}
		if h == nil {
			h = &lock{owner: c.Args[1], count: 1}
			d.locks[c.Keys[0]] = h
		}
		if until := lease(c.Args[0]); until.After(h.until) {
			h.until = until
		}
		var told []message
		if slices.Contains(d.queues[c.Keys[1]], c.Args[1]) {
			d.dequeue(c.Keys[1], c.Args[1])
			told = d.tellFirst(c.Keys[1], lease(c.Args[0]).Sub(d.now()))
		}
		return driver.Reply{Type: driver.Int, Int: d.now().UnixMicro()}, told
	case "mutex_grant":
		h := d.get(c.Keys[0])
		if h == nil || h.owner != c.Args[0] {
			queued := slices.Contains(d.queues[c.Keys[1]], c.Args[0])
			first := len(d.queues[c.Keys[1]]) > 0 && d.queues[c.Keys[1]][0] == c.Args[0]
			d.dequeue(c.Keys[1], c.Args[0])
			switch {
			case !queued || len(d.queues[c.Keys[1]]) == 0:
				return number(0), nil
			case h == nil:
				_, published := d.pass(c)
				return number(0), published
			case first:
				return number(0), d.tellFirst(c.Keys[1], h.until.Sub(d.now()))
			}
			return number(0), nil
		}
		delete(d.locks, c.Keys[0])
		left, published := d.pass(c)
		return number(1 + left), published
	case "mutex_force":
		if h := d.get(c.Keys[0]); h == nil || c.Args[1] != "" && h.owner != c.Args[1] {
			return number(0), nil
		}
		delete(d.locks, c.Keys[0])
		return number(1), []message{{c.Args[2], "0"}}
	case "keep":
		h := d.get(c.Keys[0])
		if h == nil || h.owner != c.Args[0] {
			return number(map[bool]int{true: 1}[h != nil && h.owner == strings.Replace(c.Args[0], ":", ":0", 1)]), nil
		}
		h.owner = strings.Replace(h.owner, ":", ":0", 1)
		old := h.until
		h.until = lease(c.Args[1])
		if old.Sub(h.until) > 100*time.Millisecond {
			return number(1), []message{{c.Args[2], "0"}}
		}
		return number(1), nil
	case "renew":
		list := make([]driver.Reply, len(c.Keys))
		for i, key := range c.Keys {
			list[i] = number(0)
			if h := d.get(key); h != nil && h.owner == c.Args[2*i+1] {
				list[i] = number(1)
				if until := lease(c.Args[2*i]); until.After(h.until) {
					h.until = until
				}
			}
		}
		return driver.Reply{Type: driver.List, List: list}, nil
	}
	switch c.Script.Name {
	case "value_set":
		d.values[c.Keys[0]] = value{c.Args[0], lease(c.Args[2])}
		return number(1), nil
	case "client_get":
		if v, ok := d.values[c.Keys[0]]; ok && v.text != "" && v.until.After(d.now()) {
			return driver.Reply{Type: driver.Str, Str: v.text}, nil
		}
		return driver.Reply{}, nil
	case "mutex_inspect":
		h := d.get(c.Keys[0])
		if h == nil {
			return driver.Reply{Type: driver.List, List: []driver.Reply{number(-2)}}, nil
		}
		return driver.Reply{Type: driver.List, List: []driver.Reply{
			number(int(h.until.Sub(d.now()).Milliseconds())), {Type: driver.Str, Str: h.owner}, number(h.count),
		}}, nil
	}
	panic("fake: no script " + c.Script.Name)
}

// skips is how many clients that do not listen a release passes over.
const skips = 16

// pass grants a free lock to the first client in the queue that listens. It returns how many
// clients wait that do not queue, or 0 if it was granted.
func (d *Driver) pass(c driver.Call) (int, []message) {
	key, queue, others := c.Keys[0], c.Keys[1], message{c.Args[2], "0"}
	rest := max(d.heard(others.channel)-d.heard(queue), 0)
	channel := func(owner string) string {
		id, _, _ := strings.Cut(owner, ":")
		return queue + ":" + id
	}
	for range skips {
		if len(d.queues[queue]) == 0 {
			break
		}
		owner := d.queues[queue][0]
		if d.heard(channel(owner)) == 0 {
			d.dequeue(queue, owner)
			continue
		}
		lot, _ := strconv.Atoi(c.Args[4])
		all := lot*len(d.queues[queue]) < 300*rest || lot == 0
		if all {
			return rest, []message{others, {channel(owner), ""}}
		}
		d.dequeue(queue, owner)
		now, lease := d.now(), cmp.Or(d.short[owner], grantTime)
		d.locks[key] = &lock{owner: owner, count: 1, until: now.Add(lease)}
		published := []message{{channel(owner), fmt.Sprint(owner, " ", now.UnixMicro(), " ", lease.Milliseconds(), " ", d.joined[owner].UnixMicro())}}
		return 0, append(published, d.tellFirst(queue, lease)...)
	}
	return rest, []message{others}
}

// tellFirst returns the message to the first client in a queue, for how long the lock is
// held. One that has waited for less than a second is told nothing.
func (d *Driver) tellFirst(queue string, left time.Duration) []message {
	if len(d.queues[queue]) == 0 {
		return nil
	}
	owner := d.queues[queue][0]
	if d.now().Sub(d.joined[owner]) < time.Second {
		return nil
	}
	id, _, _ := strings.Cut(owner, ":")
	return []message{{queue + ":" + id, fmt.Sprint("first ", left.Milliseconds())}}
}

// dequeue removes an owner from a queue.
func (d *Driver) dequeue(key, owner string) {
	d.queues[key] = slices.DeleteFunc(d.queues[key], func(o string) bool { return o == owner })
	if len(d.queues[key]) == 0 {
		delete(d.queues, key)
	}
}

// heard returns how many listeners have subscribed to a channel.
func (d *Driver) heard(channel string) int {
	n := 0
	for _, l := range d.listeners {
		l.mu.Lock()
		n += map[bool]int{true: 1}[l.channels[channel]]
		l.mu.Unlock()
	}
	return n
}

// Queue returns the owners that wait, if there is one queue.
func (d *Driver) Queue() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.queues {
		return slices.Clone(q)
	}
	return nil
}

// Waiting returns how many owners wait in queues.
func (d *Driver) Waiting() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, q := range d.queues {
		n += len(q)
	}
	return n
}
