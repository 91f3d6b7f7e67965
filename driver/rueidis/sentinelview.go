package rueidis

import (
	"errors"
	"fmt"
	"maps"

	"github.com/holdfast-go/holdfast/driver"
)

// A testimony is what one sentinel says.
type testimony struct {
	from   string // the address at which it was asked
	remote string // the other end of the connection
	id     string // its own; "": it does not say
	peers  []peer // the others that it knows
	addr   string // of the master
	epoch  int    // of the failover that made it the master
	err    error
}

// A sentinelView is what is known of the sentinels as a group. Each sentinel counts
// once, by its id, whatever addresses lead to it.
//
// The latest failover counts, and epochs say which that is. They only grow,
// unless the sentinels are deployed anew: then they begin at zero. So a lower
// epoch than the last one is either the past, told by a few sentinels that are
// cut off from the rest, or the present, told by a new group. It is believed if
// most of the group say it, and if all sentinels that knew the higher epoch have
// taken it back or left the group.
type sentinelView struct {
	members map[string]bool // the group, by ids, when most of it answered last
	epoch   int             // of the latest failover
	heard   map[string]bool // the ids of those that have told of it
}

// A verdict is what a sentinelView makes of some answers.
type verdict struct {
	master string   // the address of the master
	whole  bool     // most of the group has answered
	peers  []string // the addresses of the group; if not whole, of those that may belong to it
}

var errPast = driver.Unsent(errors.New("only sentinels answer that have missed the last failover"))

// judge decides which of some answers counts.
func (c *sentinelView) judge(answers []testimony) (verdict, error) {
	answers = identify(answers)
	// The group is whom most of those list that answer.
	lists := make(map[string]int)
	addrs := make(map[string]string)
	for _, a := range answers {
		said := map[string]bool{a.id: true}
		for _, p := range a.peers {
			said[p.id], addrs[p.id] = true, p.addr
		}
		for id := range said {
			lists[id]++
		}
	}
	group := make(map[string]bool)
	for id, n := range lists {
		if 2*n > len(answers) {
			group[id] = true
		}
	}
	var present []testimony
	for _, a := range answers {
		if group[a.id] {
			present = append(present, a)
		}
	}
	var v verdict
	size := max(len(group), len(c.members))
	if v.whole = 2*len(present) > size; v.whole {
		answers = present // the others belong to a group of the past
	}
	for id := range lists {
		if addrs[id] != "" && (group[id] || !v.whole) {
			v.peers = append(v.peers, addrs[id])
		}
	}
	best, err := latest(answers, size)
	if err != nil {
		return v, err
	}
	if best.epoch < c.epoch && (!v.whole || c.remembers(answers, group)) {
		return v, errPast
	}
	if v.whole {
		c.members = group
		maps.DeleteFunc(c.heard, func(id string, _ bool) bool { return !group[id] })
	}
	if best.epoch != c.epoch || c.heard == nil {
		c.epoch, c.heard = best.epoch, make(map[string]bool)
	}
	for _, a := range answers {
		if a.epoch == best.epoch {
			c.heard[a.id] = true
		}
	}
	v.master = best.addr
	return v, nil
}

// remembers reports whether a sentinel of the group may still know the latest
// failover: it has told of it, and has not answered now.
func (c *sentinelView) remembers(answers []testimony, group map[string]bool) bool {
	silent := make(map[string]bool)
	for id := range c.heard {
		silent[id] = group[id]
	}
	for _, a := range answers {
		silent[a.id] = false
	}
	for _, yes := range silent {
		if yes {
			return true
		}
	}
	return false
}

// latest returns an answer that tells of the latest failover. Of different
// answers, that is the one of most of a group of that size, and otherwise a
// conflict.
func latest(answers []testimony, size int) (testimony, error) {
	best := testimony{epoch: -1}
	votes := make(map[string]int)
	for _, a := range answers {
		if a.epoch > best.epoch {
			best = a
			clear(votes)
		}
		if a.epoch == best.epoch {
			votes[a.addr]++
		}
	}
	for _, a := range answers {
		if a.epoch == best.epoch && 2*votes[a.addr] > max(size, len(answers)) {
			return a, nil
		}
	}
	for _, a := range answers {
		if a.epoch == best.epoch && a.addr != best.addr {
			return testimony{}, driver.Unsent(&conflict{fmt.Sprintf(
				"the sentinels %s and %s name different masters, %s and %s, so none is used: have all of them monitor one master, under one address",
				best.from, a.from, best.addr, a.addr)})
		}
	}
	return best, nil
}

// identify returns one answer of each sentinel. A sentinel that does not say its
// id has the one under which others list its address.
func identify(answers []testimony) []testimony {
	listed := make(map[string]string) // by address
	for _, a := range answers {
		for _, p := range a.peers {
			listed[p.addr] = p.id
		}
	}
	at := make(map[string]int)
	var each []testimony
	for _, a := range answers {
		for _, id := range []string{listed[a.from], listed[a.remote], a.remote, a.from} {
			if a.id == "" {
				a.id = id
			}
		}
		if i, ok := at[a.id]; !ok {
			at[a.id] = len(each)
			each = append(each, a)
		} else if a.epoch > each[i].epoch { // it was asked twice, and has learned something meanwhile
			each[i] = a
		}
	}
	return each
}
