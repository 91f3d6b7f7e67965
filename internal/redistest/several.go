package redistest

import (
	"fmt"
	"slices"
	"strings"
)

// do runs a command on the master of its key, or on all masters and merges the
// answers.
func (d *deployment) do(args ...string) (any, error) {
	name := strings.ToUpper(args[0])
	switch name {
	case "EXISTS", "DEL", "UNLINK", "TOUCH":
		return d.each(args)
	case "EVAL", "EVALSHA":
		return d.of(args[min(3, len(args)-1)]).Try(args...)
	case "MEMORY", "OBJECT":
		return d.of(args[min(2, len(args)-1)]).Try(args...)
	case "PUBSUB":
		return d.pubsub(args)
	case "PUBLISH":
		if d.sharded {
			args = slices.Clone(args)
			args[0] = "SPUBLISH"
		}
		return d.of(args[1]).Try(args...)
	case "CONFIG":
		return all(d.nodes, args, first) // a replica may become a master
	case "DBSIZE":
		return all(d.masters, args, sum)
	case "FLUSHALL", "FLUSHDB", "SCRIPT", "CLIENT", "ACL":
		return all(d.masters, args, first)
	case "INFO":
		return all(d.masters, args, join)
	case "SCAN", "KEYS", "RANDOMKEY":
		return nil, fmt.Errorf("redistest: %s on several servers: use Server.Keys", name)
	}
	if len(args) < 2 {
		return d.masters[0].Try(args...) // TIME, PING
	}
	return d.of(args[1]).Try(args...)
}

// of returns the master of a key.
func (d *deployment) of(key string) *Server {
	i := len(d.masters) - 1
	for i > 0 && SlotOf(key) < i*slotCount/len(d.masters) {
		i--
	}
	return d.masters[i]
}

// each runs a command of several keys once for each.
func (d *deployment) each(args []string) (any, error) {
	var total any
	for _, key := range args[1:] {
		reply, err := d.of(key).Try(args[0], key)
		if err != nil {
			return nil, err
		}
		total = sum(total, reply)
	}
	return total, nil
}

// pubsub asks all nodes, also for sharded channels. Tests do not distinguish the
// two families, since clients subscribe to both. The channels of Sentinels are
// left out.
func (d *deployment) pubsub(args []string) (any, error) {
	reply, err := all(d.nodes, args, merge(sum))
	if list, ok := reply.([]any); ok {
		reply = slices.DeleteFunc(list, func(e any) bool { return e == "__sentinel__:hello" })
	}
	if err != nil || len(d.masters) == 1 || !HasSharded() {
		return reply, err
	}
	shard := slices.Clone(args)
	shard[1] = "SHARD" + strings.ToUpper(args[1])
	more, err := all(d.nodes, shard, merge(sum))
	return merge(most)(reply, more), err
}

// all runs a command on every server and merges the answers.
func all(servers []*Server, args []string, one func(a, b any) any) (any, error) {
	var result any
	for _, s := range servers {
		reply, err := s.Try(args...)
		if err != nil {
			return nil, err
		}
		result = one(result, reply)
	}
	return result, nil
}

func first(a, b any) any {
	if a == nil {
		return b
	}
	return a
}

func sum(a, b any) any {
	x, _ := a.(int64)
	y, _ := b.(int64)
	return x + y
}

func join(a, b any) any { return fmt.Sprint(first(a, ""), b) }

func most(a, b any) any {
	x, _ := a.(int64)
	y, _ := b.(int64)
	return max(x, y)
}

// merge returns a function that merges two lists of names, or of names and
// numbers as in PUBSUB NUMSUB. The numbers of one name are combined.
func merge(numbers func(a, b any) any) func(a, b any) any {
	return func(a, b any) any {
		x, _ := a.([]any)
		y, _ := b.([]any)
		for i, e := range y {
			_, isNumber := e.(int64)
			switch at := slices.Index(x, y[max(0, i-1)]); {
			case isNumber && at+1 < len(x):
				x[at+1] = numbers(x[at+1], e)
			case isNumber || !slices.Contains(x, e):
				x = append(x, e)
			}
		}
		return x
	}
}
