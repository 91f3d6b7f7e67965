package memory

import (
	"maps"
	"time"
)

// Cut cuts the server off: requests fail, and subscriptions are lost. Its data stay, and
// keys expire. Restore ends it.
func (s *Server) Cut(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = err
	for _, l := range s.listeners {
		l.lose(err)
	}
}

// Restore ends what Cut has begun.
func (s *Server) Restore() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut == nil {
		return
	}
	s.cut = nil
	for _, l := range s.listeners {
		l.restore()
	}
}

// FailOver makes a replica the master. The replica lacks the keys that it has not received.
// Without keys, it lacks nothing.
func (s *Server) FailOver(err error, lacks ...string) {
	s.mu.Lock()
	s.term++
	for _, key := range lacks {
		for _, db := range s.databases {
			delete(db, key)
		}
	}
	for _, l := range s.listeners {
		l.lose(err)
		l.restore()
	}
	var all []func()
	for _, f := range s.watchers {
		all = append(all, f)
	}
	s.mu.Unlock()
	for _, f := range all {
		f()
	}
}

// Copy returns a server with the same data and clock. The two share nothing: the copy is
// what a replica would have at this moment. It has no clients.
func (s *Server) Copy() *Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := New()
	c.offset, c.term, c.replicas, c.protos = s.offset, s.term, s.replicas, maps.Clone(s.protos)
	for i, db := range s.databases {
		for key, e := range db {
			c.databases[i][key] = &entry{clone(e.value), e.until, e.used}
		}
	}
	return c
}

// SetFull sets whether the memory is full: what would use more of it is refused.
func (s *Server) SetFull(full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = full
}

// SetReplicas sets the number of replicas. All of them acknowledge every write.
func (s *Server) SetReplicas(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicas = n
}

// SetClock sets the clock of the server ahead, or back if by is negative.
func (s *Server) SetClock(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset = by
}

// Do runs a command in database 0, such as Do("GET", "key"). Its result is nil, an int64, a
// string or a []any of these.
func (s *Server) Do(args ...string) (any, error) {
	t := s.begin(0)
	defer t.end()
	r, err := t.do(args)
	switch v := r.(type) {
	case status:
		r = string(v)
	case pairs:
		r = []any(v)
	}
	return r, err
}
