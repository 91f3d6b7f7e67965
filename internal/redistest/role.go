package redistest

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// role returns the role that the server reports: "master", "slave" or
// "sentinel". It returns "" if the server does not answer.
func (s *Server) role() string {
	if !s.Running() {
		return ""
	}
	reply, _ := s.Try("ROLE")
	if list, ok := reply.([]any); ok && len(list) > 0 {
		name, _ := list[0].(string)
		return name
	}
	return ""
}

// info returns the fields in the reply to a command such as INFO replication. It
// returns none if the server does not answer.
func (s *Server) info(cmd ...string) map[string]string {
	fields := make(map[string]string)
	if !s.Running() {
		return fields
	}
	reply, _ := s.Try(cmd...)
	text, _ := reply.(string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// attached returns how many of the replicas follow the server and have its
// data.
func (s *Server) attached(replicas []*Server) int {
	if s.role() != "master" {
		return 0
	}
	n := 0
	master := s.info("INFO", "replication")
	for _, r := range replicas {
		if r == s {
			continue
		}
		own := r.info("INFO", "replication")
		online := slices.ContainsFunc(replicaLines(master), func(line string) bool {
			return strings.Contains(line, "ip="+r.front+",port="+strconv.Itoa(r.port)+",state=online")
		})
		follows := net.JoinHostPort(own["master_host"], own["master_port"]) == s.Addr() && own["master_link_status"] == "up"
		if online && follows {
			n++
		}
	}
	return n
}

// awaitReplicas waits until n of the servers follow the current master, which
// may be nil, and have its data. It returns the time that this took.
func awaitReplicas(tb testing.TB, n int, servers []*Server, master func() *Server) time.Duration {
	tb.Helper()
	return awaitThat(tb, strconv.Itoa(n)+" replicas in sync", func() bool {
		m := master()
		return m != nil && m.attached(servers) >= n
	})
}

// replicaLines returns what a master reports about each of its replicas.
func replicaLines(info map[string]string) []string {
	n, _ := strconv.Atoi(info["connected_slaves"])
	var lines []string
	for i := range n {
		lines = append(lines, info["slave"+strconv.Itoa(i)])
	}
	return lines
}

// byAddr returns the server with the address that others use for it, or nil.
func byAddr(servers []*Server, addr string) *Server {
	for _, s := range servers {
		if s.Addr() == addr {
			return s
		}
	}
	return nil
}
