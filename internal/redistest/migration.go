package redistest

import (
	"slices"
	"strconv"
	"strings"
)

// migrateTimeout is the timeout of MIGRATE in milliseconds.
const migrateTimeout = "5000"

// Migration is the move of a slot from one master to another. Until
// [Migration.Finish], the old master serves the keys that it still has and
// redirects clients to the new one for all others (ASK). Commands with several
// keys fail if only some of the keys have moved (TRYAGAIN).
type Migration struct {
	c        *Cluster
	slot     string
	from, to *Server
}

// Migrate moves a slot with all of its keys to the master to.
func (c *Cluster) Migrate(slot int, to *Server) {
	c.tb.Helper()
	c.BeginMigration(slot, to).Finish()
}

// BeginMigration prepares the move of a slot to the master to. No key moves
// yet.
func (c *Cluster) BeginMigration(slot int, to *Server) *Migration {
	c.tb.Helper()
	m := &Migration{c: c, slot: strconv.Itoa(slot), from: c.MasterOfSlot(slot), to: to}
	if m.from == to {
		c.tb.Fatalf("redistest: slot %d is on the target node already", slot)
	}
	m.set(to, "IMPORTING", c.ids[m.from])
	m.set(m.from, "MIGRATING", c.ids[to])
	return m
}

// set tells a node the state of the slot. Valkey refuses while a replica of the node
// lags behind.
func (m *Migration) set(s *Server, state ...string) {
	m.c.tb.Helper()
	awaitThat(m.c.tb, "enough replicas for a change of a slot", func() bool {
		_, err := s.Try(append([]string{"CLUSTER", "SETSLOT", m.slot}, state...)...)
		if err != nil && !strings.HasPrefix(err.Error(), "NOREPLICAS") {
			m.c.tb.Fatalf("redistest: slot %s: %v", m.slot, err)
		}
		return err == nil
	})
}

// From returns the node that the slot moves from.
func (m *Migration) From() *Server { return m.from }

// Move moves the given keys, those that exist.
func (m *Migration) Move(keys ...string) {
	m.c.tb.Helper()
	if len(keys) == 0 {
		return
	}
	args := []string{"MIGRATE", m.to.front, strconv.Itoa(m.to.port), "", "0", migrateTimeout}
	if m.c.password != "" {
		args = append(args, "AUTH", m.c.password)
	}
	m.from.Do(m.c.tb, slices.Concat(args, []string{"KEYS"}, keys)...)
}

// MoveSome moves up to n keys and returns how many it moved.
func (m *Migration) MoveSome(n int) int {
	m.c.tb.Helper()
	keys := m.from.Strings(m.c.tb, "CLUSTER", "GETKEYSINSLOT", m.slot, strconv.Itoa(n))
	m.Move(keys...)
	return len(keys)
}

// Finish moves all keys that are left, gives the slot to its new node, and
// waits until all nodes that run know it.
func (m *Migration) Finish() {
	m.c.tb.Helper()
	const batch = 100
	awaitThat(m.c.tb, "the old node gives up the slot", func() bool {
		for m.MoveSome(batch) > 0 {
		}
		// The new node comes first. Otherwise the two nodes could redirect a client
		// to each other. The old node refuses if it has received a key meanwhile.
		_, err := m.to.Try("CLUSTER", "SETSLOT", m.slot, "NODE", m.c.ids[m.to])
		if err == nil {
			_, err = m.from.Try("CLUSTER", "SETSLOT", m.slot, "NODE", m.c.ids[m.to])
		}
		return err == nil
	})
	for _, s := range m.c.Masters() {
		m.set(s, "NODE", m.c.ids[m.to])
	}
	slot, _ := strconv.Atoi(m.slot)
	m.c.awaitOwner(slot, m.to)
}

// Cancel ends the migration. The slot stays on its old node. Call it before
// a key has moved: to move one back, the nodes would hide it from clients.
func (m *Migration) Cancel() {
	m.c.tb.Helper()
	if n := m.to.Int(m.c.tb, "CLUSTER", "COUNTKEYSINSLOT", m.slot); n > 0 {
		m.c.tb.Fatalf("redistest: %d keys of slot %s have moved", n, m.slot)
	}
	for _, s := range []*Server{m.from, m.to} {
		m.set(s, "STABLE")
	}
}

// awaitOwner waits until all nodes that run know that a master has a slot.
func (c *Cluster) awaitOwner(slot int, master *Server) {
	c.tb.Helper()
	awaitThat(c.tb, "all nodes know the new master of the slot", func() bool {
		return !slices.ContainsFunc(running(c.nodes), func(s *Server) bool {
			return !c.view(s)[c.ids[master]].has(slot)
		})
	})
}
