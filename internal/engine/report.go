package engine

import "sync/atomic"

// A Way says how a lock was granted.
type Way uint32

// The ways in which a lock is granted.
const (
	ByServer  Way = iota // the server has granted it in an answer
	ByRelease            // the release of another client has granted it
	ByHandoff            // a hold of this process was passed on
)

// A Report says how an acquisition went. It is for observers. A nil Report takes no
// notes.
type Report struct {
	looks atomic.Int64
	way   atomic.Uint32
}

// Looks returns how many requests for the lock were sent.
func (r *Report) Looks() int { return int(r.looks.Load()) }

// Way returns how the lock was granted.
func (r *Report) Way() Way { return Way(r.way.Load()) }

func (r *Report) look() {
	if r != nil {
		r.looks.Add(1)
	}
}

func (r *Report) grant(w Way) {
	if r != nil {
		r.way.Store(uint32(w))
	}
}
