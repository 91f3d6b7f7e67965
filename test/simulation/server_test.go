package simulation_test

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/fake"
)

// A server is a master with one replica, which may lack the last writes.
type server struct {
	*fake.Driver
	replicas int // that clients know of

	// Guarded by network.mu.
	state     state
	holder    string    // after the last call
	stopped   time.Time // from when to when the server does nothing
	resumes   time.Time
	cut       time.Time      // until when the replica receives nothing
	wasCut    bool           // the replica has ever received nothing
	cutOff    bool           // for ever: another server is the master
	writes    int            // so far
	has       int            // how many of them the replica has for certain
	snapshots []*fake.Driver // the state after each of the last writes
}

// The state of a server that another one has replaced is one of these.
type state int

const (
	serving  state = iota // also if clients are not told that it was replaced
	readOnly              // it is a replica now
	dead
)

const maxSnapshots = 40

func newServer(d *fake.Driver, replicas int) *server {
	return &server{Driver: d, replicas: replicas, holder: d.Holder(name), snapshots: []*fake.Driver{d.Replica()}}
}

// wrote notes a write and returns its number.
func (s *server) wrote() int {
	s.writes++
	if s.snapshots = append(s.snapshots, s.Replica()); len(s.snapshots) > maxSnapshots {
		s.snapshots = slices.Delete(s.snapshots, 0, 1)
	}
	return s.writes
}

// connected returns how many replicas receive writes.
func (s *server) connected() int {
	if s.cutOff || time.Now().Before(s.cut) {
		return 0
	}
	return s.replicas
}

// replicate sends a write to the replica. It reports whether the replica has it.
func (s *server) replicate(write int) bool {
	if s.connected() > 0 {
		s.has = max(s.has, write)
	}
	return write <= s.has
}

// promote returns the server that the replica becomes. The replica lacks so many of the
// last writes, at most, that it has not acknowledged.
func (s *server) promote(lacks int) *server {
	lacks = min(lacks, s.writes-s.has, len(s.snapshots)-1)
	d := s.snapshots[len(s.snapshots)-1-lacks].Replica()
	d.Step(s.Now().Sub(d.Now()))
	return newServer(d, s.replicas)
}
