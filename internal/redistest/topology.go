package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

const (
	awaitTimeout = 90 * time.Second
	maxServers   = 100 // limit of a group
)

// Option is a choice for [StartWith], [StartReplicated], [StartSentinels] and
// [StartCluster].
type Option func(*setup)

type setup struct {
	args     []string
	masters  int
	replicas int
	password string

	user     string
	userPass string
	rules    []string

	sentinelUser string
	sentinelPass string

	tls        bool
	clock      bool
	partitions bool
	patient    bool // Sentinels do not detect failed servers
}

// Args passes arguments to every data server, as in
// Args("--maxmemory", "10mb"). They override the defaults.
func Args(args ...string) Option { return func(s *setup) { s.args = append(s.args, args...) } }

// WithMasters sets the number of masters of a cluster, by default 3.
func WithMasters(n int) Option { return func(s *setup) { s.masters = n } }

// WithReplicas sets the number of replicas of each master, by default 1 in a
// cluster and 2 under Sentinels.
func WithReplicas(n int) Option { return func(s *setup) { s.replicas = n } }

// WithPassword sets the password of the data servers. URLs contain it.
func WithPassword(password string) Option { return func(s *setup) { s.password = password } }

// WithUser adds an ACL user to every data server. URLs contain it. The rules are
// those of ACL SETUSER. Without rules, the user has all rights.
func WithUser(name, password string, rules ...string) Option {
	return func(s *setup) {
		s.user, s.userPass, s.rules = name, password, rules
		if len(rules) == 0 {
			s.rules = []string{"~*", "&*", "+@all"}
		}
	}
}

// WithSentinelPassword sets the password of the Sentinels. If name is not empty,
// it is the password of that ACL user, and other users have no rights.
func WithSentinelPassword(name, password string) Option {
	return func(s *setup) { s.sentinelUser, s.sentinelPass = name, password }
}

// topology is the common part of all groups of servers.
type topology struct {
	setup
	*Network
	tb    testing.TB
	block [2]int // the second and third byte of all addresses
	given int    // number of addresses in use
	files *TLSFiles
}

func newTopology(tb testing.TB, opts []Option) *topology {
	tb.Helper()
	t := &topology{tb: tb, block: [2]int{1 + rand.IntN(254), rand.IntN(256)}}
	for _, opt := range opts {
		opt(&t.setup)
	}
	t.Network = newNetwork(tb, t.partitions)
	if t.tls {
		t.files = newTLSFiles(tb, t.addresses())
	}
	return t
}

// address returns a loopback address of the group. The network distinguishes the
// servers by these addresses. Only Linux has more than one.
func (t *topology) address(n int) string {
	if runtime.GOOS != "linux" {
		return localhost
	}
	return fmt.Sprintf("127.%d.%d.%d", t.block[0], t.block[1], n)
}

// addresses returns all addresses that servers of the group may have.
func (t *topology) addresses() []net.IP {
	list := []net.IP{net.ParseIP(localhost)}
	for n := range 255 {
		list = append(list, net.ParseIP(t.address(n)))
	}
	return list
}

// plain returns the spec of a single data server.
func (t *topology) plain() spec {
	sp := spec{host: localhost, front: localhost, tls: t.files, args: slices.Clone(t.args)}
	if t.password != "" {
		sp.args = append(sp.args, "--requirepass", t.password, "--masterauth", t.password)
		sp.login = url.UserPassword("", t.password)
	}
	if t.user != "" {
		sp.args = append(sp.args, "--user", t.user, "on", ">"+t.userPass)
		sp.args = append(sp.args, t.rules...)
		sp.login = url.UserPassword(t.user, t.userPass)
	}
	if t.clock {
		sp.clock, sp.env = newClock(t.tb)
	}
	return sp
}

// member returns the spec of a data server with an address of its own.
func (t *topology) member(args ...string) spec {
	sp := t.plain()
	sp.host, sp.front = t.newAddress()
	defaults := []string{"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}
	if sp.front != sp.host {
		defaults = append(defaults, "--replica-announce-ip", sp.front, "--cluster-announce-ip", sp.front)
	}
	sp.args = slices.Concat(defaults, args, sp.args)
	return sp
}

// newAddress returns an address for a server of the group, and the address that
// others use for it.
func (t *topology) newAddress() (host, front string) {
	t.given++
	host = t.address(t.given)
	if t.partitions {
		t.reserve(host)
		return host, t.address(t.given + maxServers)
	}
	return host, host
}

// start starts servers at the same time and ends them in the cleanup of the
// test.
func (t *topology) start(specs []spec) []*Server {
	t.tb.Helper()
	servers, errs := make([]*Server, len(specs)), make([]error, len(specs))
	var wg sync.WaitGroup
	for i, sp := range specs {
		dir := t.tb.TempDir()
		wg.Go(func() { servers[i], errs[i] = start(dir, sp) })
	}
	wg.Wait()
	t.tb.Cleanup(func() {
		for _, s := range servers {
			if s != nil {
				s.process().kill()
				s.admin.close()
				s.claim.Close()
			}
		}
	})
	for i, s := range servers {
		if errs[i] != nil {
			giveUp(t.tb, errs[i])
		}
		s.tb = t.tb
		if s.front != s.host {
			t.serve(s)
		}
	}
	return servers
}

// awaitThat waits until the condition holds and returns the time it took.
func awaitThat(tb testing.TB, what string, ok func() bool) time.Duration {
	tb.Helper()
	begin := time.Now()
	if !Poll(awaitTimeout, ok) {
		tb.Fatalf("redistest: %s: not within %v", what, awaitTimeout)
	}
	return time.Since(begin)
}

// running returns the servers that have neither ended nor been paused.
func running(servers []*Server) []*Server {
	return slices.DeleteFunc(slices.Clone(servers), func(s *Server) bool { return !s.Running() })
}
