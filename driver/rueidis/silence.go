package rueidis

import (
	"math"
	"sync/atomic"
	"time"
)

// A silence ends a connection on which replies are overdue, because rueidis would keep it
// until the next PING. It examines the connection while commands wait for replies.
type silence struct {
	conn  *checkedConn
	limit time.Duration
	on    atomic.Bool  // it examines the connection
	reads atomic.Int64 // how often something was read
	timer *time.Timer

	// Only examine and the call that sets on use these.
	since time.Time // from when on nothing was read; zero: not known yet
	seen  int64     // reads at that time
}

func newSilence(conn *checkedConn, limit time.Duration) *silence {
	s := &silence{conn: conn, limit: limit}
	s.timer = time.AfterFunc(math.MaxInt64, s.examine)
	return s
}

// watch examines the connection until no command waits for a reply.
func (s *silence) watch() {
	if s.on.CompareAndSwap(false, true) {
		s.since = time.Time{}
		s.timer.Reset(s.limit / 2)
	}
}

func (s *silence) examine() {
	if s.conn.unanswered.Load() <= 0 {
		s.on.Store(false)
		if s.conn.unanswered.Load() > 0 { // just now
			s.watch()
		}
		return
	}
	switch reads := s.reads.Load(); {
	case s.since.IsZero() || reads != s.seen:
		s.since, s.seen = time.Now(), reads
	case time.Since(s.since) >= s.limit:
		_ = s.conn.SetDeadline(time.Unix(1, 0)) // the read of rueidis fails, and it closes the connection
		return
	}
	s.timer.Reset(s.limit / 4)
}
