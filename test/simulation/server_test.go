package simulation_test

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/holdfasttest/memory"
)

// A server is a master with one replica, which may lack the last writes. It runs the scripts.
type server struct {
	network  *network
	data     *memory.Server
	replicas int // that clients know of
	ahead    time.Duration

	// Guarded by network.mu.
	state     state
	stopped   time.Time // from when to when the server does nothing
	resumes   time.Time
	cut       time.Time // until when the replica receives nothing
	wasCut    bool      // it was so at some time
	cutOff    bool      // for ever: another server is the master
	writes    int       // so far
	has       int       // how many of them the replica has for certain
	snapshots []*memory.Server
	contents  map[*object]*content
}

// The state of a server that another one has replaced is one of these.
type state int

const (
	serving  state = iota // also if clients are not told that it was replaced
	readOnly              // it is a replica now
	dead
)

const maxSnapshots = 40

func newServer(data *memory.Server, replicas int) *server {
	s := &server{data: data, replicas: replicas, contents: make(map[*object]*content)}
	s.keep()
	return s
}

func (s *server) Do(call driver.Call) (driver.Reply, error) {
	return s.data.Driver().Do(context.Background(), call)
}

// keep keeps the state for a replica, if there is one.
func (s *server) keep() {
	if s.replicas == 0 {
		return
	}
	if s.snapshots = append(s.snapshots, s.data.Copy()); len(s.snapshots) > maxSnapshots {
		s.snapshots = slices.Delete(s.snapshots, 0, 1)
	}
}

// wrote notes a write and returns its number.
func (s *server) wrote() int {
	s.writes++
	s.keep()
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
	if s.replicas == 0 {
		return newServer(s.data.Copy(), 0)
	}
	lacks = min(lacks, s.writes-s.has, len(s.snapshots)-1)
	next := newServer(s.snapshots[len(s.snapshots)-1-lacks].Copy(), s.replicas)
	next.step(s.ahead)
	return next
}

// step sets the clock of the server forward, or back.
func (s *server) step(by time.Duration) {
	s.ahead += by
	s.data.SetClock(s.ahead)
	s.forgetAll()
}

func (s *server) now() time.Time { return time.Now().Add(s.ahead) }

// text returns the reply of a command that returns texts.
func (s *server) texts(args ...string) []string {
	r, _ := s.data.Do(args...)
	all, _ := r.([]any)
	texts := make([]string, len(all))
	for i, v := range all {
		texts[i], _ = v.(string)
	}
	return texts
}

func (s *server) number(args ...string) int64 {
	r, _ := s.data.Do(args...)
	switch v := r.(type) {
	case int64:
		return v
	case string:
		return integer(v)
	}
	return 0
}
