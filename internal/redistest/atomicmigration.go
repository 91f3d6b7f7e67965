package redistest

import (
	"fmt"
	"strconv"
	"testing"
)

// AtomicMigration is the move of a slot by CLUSTER MIGRATESLOTS, which Valkey has
// since 9.0. The old master serves the slot, and sends its contents and all
// changes to the new one. At the end it blocks all writes, of all slots, until
// the new master has the slot.
//
// The server ends a migration that goes wrong. It is then begun again: Valkey
// 9.1 sometimes fails to move a slot that is written meanwhile.
type AtomicMigration struct {
	c        *Cluster
	slot     int
	from, to *Server
	name     string // of the last attempt
}

// NeedAtomicMigration skips the test if the server cannot move slots atomically.
func NeedAtomicMigration(tb testing.TB) {
	tb.Helper()
	if !StartWith(tb, Args("--cluster-enabled", "yes")).movesAtomically(tb) {
		tb.Skip("the server has no CLUSTER MIGRATESLOTS: it needs Valkey 9.0")
	}
}

// movesAtomically reports whether the server can move slots atomically.
func (s *Server) movesAtomically(tb testing.TB) bool {
	tb.Helper()
	info, _ := s.Do(tb, "COMMAND", "INFO", "cluster|migrateslots").([]any)
	return len(info) == 1 && info[0] != nil
}

// Migrations returns the ways to move a slot with all of its keys to a master:
// key by key, and atomically if the servers can.
func (c *Cluster) Migrations() []func(slot int, to *Server) {
	c.tb.Helper()
	ways := []func(int, *Server){c.Migrate}
	if c.nodes[0].movesAtomically(c.tb) {
		ways = append(ways, func(slot int, to *Server) {
			c.tb.Helper()
			c.BeginAtomicMigration(slot, to).Finish()
		})
	}
	return ways
}

// BeginAtomicMigration moves a slot to the master to, up to the moment before
// the old master blocks writes.
func (c *Cluster) BeginAtomicMigration(slot int, to *Server) *AtomicMigration {
	c.tb.Helper()
	m := &AtomicMigration{c: c, slot: slot, from: c.MasterOfSlot(slot), to: to}
	if m.from == to {
		c.tb.Fatalf("redistest: slot %d is on the target node already", slot)
	}
	m.hold(m.from, "PREVENT-PAUSE", "1")
	m.reach("waiting-to-pause")
	return m
}

// From returns the node that the slot moves from.
func (m *AtomicMigration) From() *Server { return m.from }

// BlockWrites lets the old master block all writes, and keeps the new one from
// taking the slot. The old master ends the migration, and serves again, after
// ten seconds.
func (m *AtomicMigration) BlockWrites() {
	m.c.tb.Helper()
	m.hold(m.to, "PREVENT-FAILOVER", "1")
	m.hold(m.from, "PREVENT-PAUSE", "0")
	m.reach("failover-granted")
}

// AwaitBlocked waits until the old master has blocked a write.
func (m *AtomicMigration) AwaitBlocked() {
	m.c.tb.Helper()
	awaitThat(m.c.tb, "a write is blocked", func() bool {
		n := m.from.info("INFO", "clients")["blocked_clients"]
		return n != "" && n != "0"
	})
}

// Finish gives the slot to its new node, and waits until all nodes that run know
// it.
func (m *AtomicMigration) Finish() {
	m.c.tb.Helper()
	m.free()
	m.reach("success")
	m.c.awaitOwner(m.slot, m.to)
}

// Cancel ends the migration as an operator does. The slot stays on its old node.
func (m *AtomicMigration) Cancel() {
	m.c.tb.Helper()
	m.from.Do(m.c.tb, "CLUSTER", "CANCELSLOTMIGRATIONS")
	m.AwaitEnd()
}

// Fail makes the migration fail, by flushing the new node.
func (m *AtomicMigration) Fail() {
	m.c.tb.Helper()
	m.to.Do(m.c.tb, "FLUSHALL")
	m.AwaitEnd()
}

// AwaitEnd waits until both nodes have given up the migration.
func (m *AtomicMigration) AwaitEnd() {
	m.c.tb.Helper()
	for _, s := range []*Server{m.from, m.to} {
		awaitThat(m.c.tb, "the migration ends", func() bool {
			state, _ := m.state(s)
			return state == "failed" || state == "cancelled"
		})
	}
	m.free()
	if m.c.MasterOfSlot(m.slot) != m.from {
		m.c.tb.Fatalf("redistest: slot %d has moved", m.slot)
	}
}

// begin starts the migration. It logs why it cannot, for example because the new
// node does not yet know who has the slot.
func (m *AtomicMigration) begin() {
	m.c.tb.Helper()
	slot := strconv.Itoa(m.slot)
	if _, err := m.from.Try("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", m.c.ids[m.to]); err != nil {
		m.c.tb.Logf("redistest: slot %d: %v", m.slot, err)
		return
	}
	m.name = m.jobs(m.from)[0]["name"] // the last comes first
}

// reach waits for a state of the migration on the old node. A migration that has
// failed begins again.
func (m *AtomicMigration) reach(want string) {
	m.c.tb.Helper()
	awaitThat(m.c.tb, "the migration is "+want, func() bool {
		state, message := m.state(m.from)
		if state == "failed" {
			m.c.tb.Logf("redistest: slot %d: the migration has failed: %s", m.slot, message)
		}
		if state == "" || state == "failed" {
			m.begin()
		}
		return state == want
	})
}

// state returns the state of the migration, as a node sees it, and what the node
// says about it.
func (m *AtomicMigration) state(s *Server) (state, message string) {
	m.c.tb.Helper()
	for _, job := range m.jobs(s) {
		if job["name"] == m.name {
			return job["state"], job["message"]
		}
	}
	return "", ""
}

// jobs returns the migrations that a node knows.
func (m *AtomicMigration) jobs(s *Server) []map[string]string {
	m.c.tb.Helper()
	list, _ := s.Do(m.c.tb, "CLUSTER", "GETSLOTMIGRATIONS").([]any)
	jobs := make([]map[string]string, len(list))
	for i, e := range list {
		jobs[i] = make(map[string]string)
		words, _ := e.([]any)
		for k := 0; k+1 < len(words); k += 2 {
			jobs[i][fmt.Sprint(words[k])] = fmt.Sprint(words[k+1])
		}
	}
	return jobs
}

// hold tells a node to stop before a step of a migration, or to take it.
func (m *AtomicMigration) hold(s *Server, step, on string) {
	m.c.tb.Helper()
	s.Do(m.c.tb, "DEBUG", "SLOTMIGRATION", step, on)
}

// free lets the migration take all steps.
func (m *AtomicMigration) free() {
	m.c.tb.Helper()
	m.hold(m.from, "PREVENT-PAUSE", "0")
	m.hold(m.to, "PREVENT-FAILOVER", "0")
}
