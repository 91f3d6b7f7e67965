package rueidis

import (
	"errors"
	"fmt"
	"maps"

	"github.com/holdfast-go/holdfast/driver"
)

// A sentinelReply is the answer of one sentinel.
type sentinelReply struct {
	from   string // the address at which it was asked
	remote string // the other end of the connection
	id     string // its own id; empty if it does not report one
	peers  []peer // the sentinels that it lists
	addr   string // of the master
	epoch  int    // of the failover that made it the master
	err    error
}

// A sentinelView is what is known about the sentinels as a group. Each sentinel
// counts once, by its id, even if it has several addresses.
//
// The latest failover counts, which is the one with the highest epoch. Epochs
// only grow, except when the sentinels are redeployed: then they restart at
// zero. So an epoch below the last known one is either outdated, reported by a
// few partitioned sentinels, or current, reported by a new group. It is accepted
// if a majority of the group has answered, and if each sentinel that reported
// the higher epoch now reports another one or has left the group.
type sentinelView struct {
	members   map[string]bool // ids of the group when a majority last answered
	epoch     int             // epoch of the latest failover
	confirmed map[string]bool // ids of the sentinels that have reported it
}

// A decision is the result of sentinelView.decide.
type decision struct {
	master   string   // the address of the master
	majority bool     // a majority of the group has answered
	peers    []string // addresses of the group; without a majority, of all sentinels that may belong to it
}

var errStale = driver.Unsent(errors.New("all sentinels that answered have missed the last failover"))

// decide decides which answer counts.
func (c *sentinelView) decide(answers []sentinelReply) (decision, error) {
	answers = dedupe(answers)
	// The group consists of the sentinels that most answers list.
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
	var present []sentinelReply
	for _, a := range answers {
		if group[a.id] {
			present = append(present, a)
		}
	}
	var v decision
	size := max(len(group), len(c.members))
	if v.majority = 2*len(present) > size; v.majority {
		answers = present // the others belong to an old group
	}
	for id := range lists {
		if addrs[id] != "" && (group[id] || !v.majority) {
			v.peers = append(v.peers, addrs[id])
		}
	}
	best, err := latest(answers, size)
	if err != nil {
		return v, err
	}
	if best.epoch < c.epoch && (!v.majority || c.mayKnowLatest(answers, group)) {
		return v, errStale
	}
	if v.majority {
		c.members = group
		maps.DeleteFunc(c.confirmed, func(id string, _ bool) bool { return !group[id] })
	}
	if best.epoch != c.epoch || c.confirmed == nil {
		c.epoch, c.confirmed = best.epoch, make(map[string]bool)
	}
	for _, a := range answers {
		if a.epoch == best.epoch {
			c.confirmed[a.id] = true
		}
	}
	v.master = best.addr
	return v, nil
}

// mayKnowLatest reports whether a sentinel of the group may still know the
// latest failover: it has reported it before and has not answered now.
func (c *sentinelView) mayKnowLatest(answers []sentinelReply, group map[string]bool) bool {
	silent := make(map[string]bool)
	for id := range c.confirmed {
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

// latest returns an answer with the highest epoch. If such answers differ, it
// returns the one that a majority of a group of the given size has given. If
// there is none, it returns a conflict.
func latest(answers []sentinelReply, size int) (sentinelReply, error) {
	best := sentinelReply{epoch: -1}
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
			return sentinelReply{}, driver.Unsent(&conflict{fmt.Sprintf(
				"the sentinels %s and %s report different masters, %s and %s, so neither is used: configure all sentinels to monitor the same master under the same address",
				best.from, a.from, best.addr, a.addr)})
		}
	}
	return best, nil
}

// dedupe returns one answer per sentinel. A sentinel that does not report its id
// gets the id under which other sentinels list its address.
func dedupe(answers []sentinelReply) []sentinelReply {
	listed := make(map[string]string) // by address
	for _, a := range answers {
		for _, p := range a.peers {
			listed[p.addr] = p.id
		}
	}
	at := make(map[string]int)
	var each []sentinelReply
	for _, a := range answers {
		for _, id := range []string{listed[a.from], listed[a.remote], a.remote, a.from} {
			if a.id == "" {
				a.id = id
			}
		}
		if i, ok := at[a.id]; !ok {
			at[a.id] = len(each)
			each = append(each, a)
		} else if a.epoch > each[i].epoch { // asked at two addresses: the later epoch counts
			each[i] = a
		}
	}
	return each
}
