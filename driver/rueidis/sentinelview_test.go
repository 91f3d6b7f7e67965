package rueidis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// says returns the answer of a sentinel, such as "o1", that lists some others
// and has heard of a failover to a master.
func says(id, peers string, epoch int, master string) sentinelReply {
	t := sentinelReply{from: id + ":1", remote: id + ":1", id: id, addr: master, epoch: epoch}
	for _, p := range strings.Fields(peers) {
		t.peers = append(t.peers, peer{p, p + ":1"})
	}
	return t
}

// by returns the answer with the sentinel asked at another address.
func (t sentinelReply) by(addr string) sentinelReply {
	t.from = addr
	return t
}

// nameless returns the answer of a sentinel that does not say its id.
func (t sentinelReply) nameless() sentinelReply {
	t.id = ""
	return t
}

// Each case is a row of polls, with the answers of each and what becomes of it:
// the address of the master, "past" or "conflict".
func TestSentinelView(t *testing.T) {
	t.Parallel()
	type poll struct {
		answers []sentinelReply
		want    string
	}
	all := []sentinelReply{says("o1", "o2 o3", 5, "b"), says("o2", "o1 o3", 5, "b"), says("o3", "o1 o2", 5, "b")}
	fresh := []sentinelReply{says("n1", "n2 n3", 0, "b"), says("n2", "n1 n3", 0, "b"), says("n3", "n1 n2", 0, "b")}
	for name, polls := range map[string][]poll{
		"one is enough for a start": {{all[:1], "b"}},
		"the latest failover counts, although one knows of it": {
			{all, "b"},
			{[]sentinelReply{says("o1", "o2 o3", 6, "c"), all[1], all[2]}, "c"},
		},
		"one that is cut off has missed it": {
			{all, "b"},
			{[]sentinelReply{says("o1", "o2 o3", 4, "a")}, "past"},
		},
		"who knew of it first is silent": {
			{all, "b"},
			{[]sentinelReply{says("o1", "o2 o3", 6, "c"), all[1], all[2]}, "c"},
			{all[1:], "past"},
			{[]sentinelReply{all[1], says("o3", "o1 o2", 6, "c")}, "c"},
		},
		"one that was deployed anew alone": {
			{all, "b"},
			{[]sentinelReply{says("o1", "", 0, "a")}, "past"},
			{[]sentinelReply{says("n1", "", 0, "a")}, "past"},
		},
		"known by name and by address": {
			{append([]sentinelReply{all[0].by("s1"), all[1].by("s2"), all[2].by("s3")}, all...), "b"},
			{[]sentinelReply{fresh[0].by("s1"), fresh[1].by("s2")}, "b"},
		},
		"without ids": {
			{[]sentinelReply{all[0].nameless().by("s1"), all[0].nameless(), all[1].nameless(), all[2].nameless()}, "b"},
			{[]sentinelReply{fresh[0].nameless().by("s1"), fresh[1].nameless().by("s2")}, "b"},
		},
		"all are deployed anew": {
			{all, "b"},
			{fresh, "b"},
			{[]sentinelReply{says("n1", "n2 n3", 1, "c"), fresh[1], fresh[2]}, "c"},
		},
		"all are deployed anew, and an old one was forgotten": {
			{all, "b"},
			{append(all[:1:1], fresh...), "b"},
			{append([]sentinelReply{says("o1", "o2 o3", 6, "a"), says("n1", "n2 n3", 1, "c")}, fresh[1:]...), "c"},
		},
		"the same ones were told to monitor anew": {
			{all, "b"},
			{[]sentinelReply{says("o1", "o2 o3", 0, "b"), says("o2", "o1 o3", 0, "b"), says("o3", "o1 o2", 0, "b")}, "b"},
		},
		"one by one, and those that are gone stay listed": {
			{all, "b"},
			{[]sentinelReply{says("n1", "o2 o3", 5, "b"), says("o2", "o1 o3 n1", 5, "b"), says("o3", "o1 o2 n1", 5, "b")}, "b"},
			{[]sentinelReply{says("n1", "o2 o3 n2", 5, "b"), says("n2", "o3 n1", 5, "b"), says("o3", "o1 o2 n1 n2", 5, "b")}, "b"},
			{[]sentinelReply{says("n1", "o2 o3 n2 n3", 5, "b"), says("n2", "o3 n1 n3", 5, "b"), says("n3", "n1 n2", 5, "b")}, "b"},
			{[]sentinelReply{says("n1", "n2 n3", 1, "c"), says("n2", "n1 n3", 1, "c"), says("n3", "n1 n2", 1, "c")}, "c"},
		},
		"two groups of one age": {
			{[]sentinelReply{says("o1", "o2", 0, "a"), says("o2", "o1", 0, "a"), says("n1", "n2", 0, "b"), says("n2", "n1", 0, "b")}, "conflict"},
		},
		"two of one group disagree": {
			{[]sentinelReply{says("o1", "o2 o3", 5, "a"), all[1]}, "conflict"},
			{append(all[1:2:2], says("o1", "o2 o3", 5, "a"), all[2]), "b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var c sentinelView
			for i, p := range polls {
				v, err := c.decide(p.answers)
				got := v.master
				switch {
				case errors.As(err, new(*conflict)):
					got = "conflict"
				case errors.Is(err, errStale):
					got = "past"
				case err != nil:
					got = fmt.Sprint(err)
				}
				if got != p.want {
					t.Errorf("poll %d: %s, want %s", i+1, got, p.want)
				}
			}
		})
	}
}

// Of views of a cluster, the one is believed that belongs to a majority, knows
// the latest epoch, and has made the latest change.
func TestBestView(t *testing.T) {
	t.Parallel()
	rising := []clusterView{{rank: -1, epoch: 9, own: 9}, {epoch: 9, own: 9}, {rank: 1, epoch: 7, own: 7}, {rank: 1, epoch: 8, own: 3}, {rank: 1, epoch: 8, own: 8}}
	for i, v := range rising {
		for j, w := range rising {
			if got := v.compare(w); cmp.Compare(got, 0) != cmp.Compare(i, j) {
				t.Errorf("view %d compared with view %d: %d", i, j, got)
			}
		}
	}
}

// array returns words as the servers write them.
func array(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

// While a sentinel leads a failover, its description of the master still has the
// old address. The one that it gives to clients counts, with the new epoch.
func TestFailoverGoingOn(t *testing.T) {
	t.Parallel()
	described := 0
	addr := redistest.Answer(t, func(words []string) string {
		command := strings.ToUpper(strings.Join(words, " "))
		switch {
		case command == "SENTINEL MASTER M":
			described++
			epoch := "5"
			if described > 1 { // it was chosen after the first question
				epoch = "6"
			}
			return array("ip", "10.0.0.1", "port", "1", "config-epoch", epoch)
		case command == "SENTINEL GET-MASTER-ADDR-BY-NAME M":
			return array("10.0.0.2", "2")
		case command == "SENTINEL MYID":
			return "+me\r\n"
		case command == "SENTINEL SENTINELS M":
			return "*0\r\n"
		case strings.HasPrefix(command, "PING"):
			return "+PONG\r\n"
		}
		return "+OK\r\n"
	})
	d := &Driver{
		c:    Config{Mode: Sentinel, Network: "tcp", Addrs: []string{addr}, MasterName: "m", DialTimeout: patient, Timeout: patient, RESP2: true},
		life: context.Background(),
	}
	s := newSentinels(d)
	defer s.close()
	a := s.askSentinel(t.Context(), s.nodes[addr])
	if a.err != nil || a.addr != "10.0.0.2:2" || a.epoch != 6 || a.id != "me" {
		t.Errorf("the sentinel says %+v, %v, want 10.0.0.2:2 in epoch 6", a, a.err)
	}
}
