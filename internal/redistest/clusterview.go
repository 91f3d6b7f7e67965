package redistest

import (
	"slices"
	"strconv"
	"strings"
)

// clusterNode is a node as one of the nodes sees it.
type clusterNode struct {
	id     string
	flags  []string
	master string // the id of its master, or ""
	epoch  int
	linked bool
	slots  [][2]int // first and last of each range
}

func (n clusterNode) isMaster() bool { return slices.Contains(n.flags, "master") }

// suspect reports whether the node is marked as failed, or is in handshake.
func (n clusterNode) suspect() bool {
	return len(n.flags) == 0 || slices.ContainsFunc(n.flags, func(f string) bool {
		return strings.HasPrefix(f, "fail") || f == "handshake" || f == "noaddr"
	})
}

func (n clusterNode) has(slot int) bool {
	return slices.ContainsFunc(n.slots, func(r [2]int) bool { return r[0] <= slot && slot <= r[1] })
}

// view returns the nodes by their ids, as one of them sees them. It is empty if
// that node does not run.
func (c *Cluster) view(s *Server) map[string]clusterNode {
	view := make(map[string]clusterNode)
	if !s.Running() {
		return view
	}
	reply, _ := s.Try("CLUSTER", "NODES")
	text, _ := reply.(string)
	for line := range strings.Lines(text) {
		if n, ok := parseNode(line); ok {
			view[n.id] = n
		}
	}
	return view
}

// heardAll reports whether a node knows which node is at the other end of each
// connection. Valkey drops what a node publishes on a connection that is not known.
func (c *Cluster) heardAll(s *Server) bool {
	if s.info("INFO", "SERVER")["server_name"] != "valkey" {
		return true
	}
	known := 0
	links, _ := s.Do(c.tb, "CLUSTER", "LINKS").([]any)
	for _, link := range links {
		if words, _ := link.([]any); len(words) > 1 && words[1] == "from" {
			known++
		}
	}
	return known == len(c.nodes)-1
}

// self returns a node as it sees itself.
func (c *Cluster) self(s *Server) clusterNode { return c.view(s)[c.ids[s]] }

// parseNode reads a line of CLUSTER NODES:
//
//	id ip:port@busport flags master ping pong epoch link slot first-last ...
//
// Migrating slots, in brackets, are left out.
func parseNode(line string) (clusterNode, bool) {
	words := strings.Fields(line)
	if len(words) < 8 {
		return clusterNode{}, false
	}
	n := clusterNode{id: words[0], flags: strings.Split(words[2], ","), linked: words[7] == "connected"}
	if words[3] != "-" {
		n.master = words[3]
	}
	n.epoch, _ = strconv.Atoi(words[6])
	for _, word := range words[8:] {
		first, last, isRange := strings.Cut(word, "-")
		if strings.HasPrefix(word, "[") {
			continue
		}
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil {
			return clusterNode{}, false
		}
		n.slots = append(n.slots, [2]int{from, to})
	}
	return n, true
}
