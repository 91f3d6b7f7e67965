package redistest

import (
	"slices"
	"strconv"
)

// migrateTimeout bounds how long two nodes may take to pass on some keys, in
// milliseconds.
const migrateTimeout = "5000"

// Migration is a slot on its way from one master to another. Until
// [Migration.Finish] the old one answers for the keys that it still has, and
// sends clients to the new one for all others (ASK); commands with several keys
// of which some have moved fail (TRYAGAIN).
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
		c.tb.Fatalf("redistest: slot %d is where it is to go", slot)
	}
	to.Do(c.tb, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", c.ids[m.from])
	m.from.Do(c.tb, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", c.ids[to])
	return m
}

// From returns the node that gives the slot away.
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
	awaitThat(m.c.tb, "the old node lets the slot go", func() bool {
		for m.MoveSome(batch) > 0 {
		}
		// The new node comes first: with the old one first, a client could be
		// sent to and fro. The old one refuses if it was given a key meanwhile.
		_, err := m.to.Try("CLUSTER", "SETSLOT", m.slot, "NODE", m.c.ids[m.to])
		if err == nil {
			_, err = m.from.Try("CLUSTER", "SETSLOT", m.slot, "NODE", m.c.ids[m.to])
		}
		return err == nil
	})
	slot, _ := strconv.Atoi(m.slot)
	for _, s := range m.c.Masters() {
		s.Do(m.c.tb, "CLUSTER", "SETSLOT", m.slot, "NODE", m.c.ids[m.to])
	}
	awaitThat(m.c.tb, "all nodes know who has the slot", func() bool {
		return !slices.ContainsFunc(running(m.c.nodes), func(s *Server) bool {
			return !m.c.view(s)[m.c.ids[m.to]].has(slot)
		})
	})
}
