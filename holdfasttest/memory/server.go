// Package memory is a Redis server in memory, for tests and demonstrations. It runs the Lua
// scripts of Holdfast itself, on the data types and commands that they use. So it cannot
// differ from a real server in what a script decides.
//
// A [Server] has drivers for clients in the same process, see [Server.Driver]. It uses no
// network and no clock but that of package time, so it works in a bubble of
// testing/synctest. [Server.Serve] offers it to other programs.
//
// No request ends the process or stops others for long. The server ends a script after 33
// million instructions, 256 MB of memory or one minute. As in Redis 7, a script cannot change
// what other scripts find: its globals and libraries are read-only.
package memory

import (
	cryptorand "crypto/rand"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// A Server is a Redis server in memory. It is safe for concurrent use.
type Server struct {
	mu        sync.Mutex
	id        string
	began     int64
	random    *rand.Rand
	databases [16]map[string]*entry
	meter     meter
	lua       *interpreter                  // nil before the first script
	protos    map[string]*lua.FunctionProto // the scripts, by their hash
	listeners []*listener
	offset    time.Duration // of the clock
	term      uint64
	replicas  int
	cut       error // the error of all requests while the server is cut off
	watchers  map[int]func()
	watches   int
	due       *time.Timer // expires keys for listeners to events of keys
	dueAt     int64
	peers     int64 // the id of the last connection
	monitors  map[*peer]bool
	calls     map[string]int // of commands, by name
	paused    time.Time      // until then, scripts wait
	full      bool           // no command may use more memory
	log       *slog.Logger   // nil: no messages
	warned    time.Time      // when the last message was logged
}

// New returns an empty server.
func New() *Server {
	s := &Server{id: cryptorand.Text(), began: time.Now().UnixMilli(), protos: make(map[string]*lua.FunctionProto), watchers: make(map[int]func()), monitors: make(map[*peer]bool), calls: make(map[string]int)}
	for i := range s.databases {
		s.databases[i] = make(map[string]*entry)
	}
	s.random = rand.New(rand.NewPCG(uint64(s.began), 0)) // in faked time, the same at each run
	s.meter.limit = maxTime
	return s
}

// SetLogger sets the logger for warnings about clients of [Server.Serve]. Without a logger, the
// server logs nothing.
func (s *Server) SetLogger(log *slog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = log
}

// warn logs a warning about a client, at most once per minute: the client could cause many.
func (s *Server) warn(text string, client net.Addr) {
	s.mu.Lock()
	log, now := s.log, time.Now()
	if log == nil || !s.warned.IsZero() && now.Sub(s.warned) < time.Minute {
		s.mu.Unlock()
		return
	}
	s.warned = now
	s.mu.Unlock()
	log.Warn(text, "client", client.String())
}

// A tx runs commands at one moment, without others in between.
type tx struct {
	s           *Server
	db          int
	now, micros int64
	parent      *tx // the transaction that collects the messages
	messages    []message
	dirty       bool // a command has written
	script      bool // the commands are those of a script
}

// A message is to be delivered when the transaction is over.
type message struct {
	to               *listener
	channel, payload string
}

// begin locks the server.
func (s *Server) begin(db int) *tx {
	s.mu.Lock()
	s.meter.reset()
	now := s.clockNow()
	return &tx{s: s, db: db, now: now.UnixMilli(), micros: now.UnixMicro()}
}

// end unlocks the server and delivers the messages.
func (t *tx) end() {
	for _, m := range t.messages {
		m.to.add(len(m.payload), func() { m.to.handler.Message(m.channel, m.payload) })
	}
	t.s.mu.Unlock()
}

// look returns the entry of a key, or nil. It does not count as a use of the key.
func (t *tx) look(key string) *entry {
	e := t.s.databases[t.db][key]
	if e != nil && e.until != 0 && e.until <= t.now {
		t.drop(key, "expired")
		return nil
	}
	return e
}

// find is look for a use.
func (t *tx) find(key string) *entry {
	e := t.look(key)
	if e != nil {
		e.used = t.now
	}
	return e
}

// all returns the keys that exist.
func (t *tx) all() (keys []string) {
	for key := range t.s.databases[t.db] {
		if t.look(key) != nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// put stores an entry.
func (t *tx) put(key string, e *entry) {
	e.used = t.now
	t.s.databases[t.db][key] = e
	if e.until != 0 {
		t.s.dueBy(e.until)
	}
}

// drop deletes a key, and tells those who listen to it.
func (t *tx) drop(key, event string) {
	delete(t.s.databases[t.db], key)
	if event != "" {
		t.event(event, key)
	}
}

// dropEmpty deletes a key whose value has n elements left, if there are none.
func (t *tx) dropEmpty(key string, n int) {
	if n == 0 {
		t.drop(key, "del")
	}
}
