package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A Mode says when a grant of a server with replicas counts.
type Mode uint8

// The modes.
const (
	Acked  Mode = iota // when one replica has it, if any is connected
	Async              // at once
	Strict             // when Replication.Replicas replicas have it
)

// Replication says how many replicas must have what was granted before it counts.
type Replication struct {
	Mode     Mode
	Replicas int           // for Strict
	Timeout  time.Duration // to wait for them
	Skew     time.Duration // how far the clocks of the servers may be apart
}

// acks is how many replicas a renewal needs.
func (r Replication) acks() int {
	if r.Mode == Strict {
		return r.Replicas
	}
	return 0
}

// claim sends a claim, and sets v to the answer. A grant counts when enough replicas have it.
func (e *Engine) claim(ctx context.Context, k target, t script.Traits, c *script.Claim, v *script.Verdict) error {
	*v = script.Verdict{}
	call := k.Claim(*c)
	need := 0
	if !t.ReadOnly && !t.Unreplicated {
		need = e.replicas(ctx, call.Keys[0])
	}
	var reply driver.Reply
	var acked int
	var err error
	if need == 0 { // as in e.do, whose frame would be on the stacks of all calls that wait
		reply, err = e.d.Do(ctx, call)
	} else {
		reply, acked, err = e.do(ctx, call, need)
	}
	if err != nil {
		return script.NameKeys(call, err)
	}
	script.Done(call)
	return e.decode(ctx, k, c, v, &reply, call.Keys[0], acked, need)
}

// decode sets v to what a reply says, if enough replicas have acknowledged it.
//
// It is not inlined, so the stack of a call that waits for a reply is small. Hundreds of large
// stacks do not fit into the cache of a core.
//
//go:noinline
func (e *Engine) decode(ctx context.Context, k target, c *script.Claim, v *script.Verdict, reply *driver.Reply, key string, acked, need int) (err error) {
	*v, err = k.Decode(*c, *reply)
	if err == nil && v.Granted() && acked < need && !e.replicasGone(ctx, key) {
		*v = script.Verdict{}
		return notReplicated(acked, need)
	}
	return err
}

// do runs a call and waits for that many replicas. It returns how many have acknowledged it.
func (e *Engine) do(ctx context.Context, call driver.Call, need int) (reply driver.Reply, acked int, err error) {
	if need == 0 {
		reply, err = e.d.Do(ctx, call)
		return reply, 0, err
	}
	r := e.d.DoAcked(ctx, []driver.Call{call}, need, e.o.Replication.Timeout)[0]
	if r.Err != nil && e.o.Replication.Mode == Acked && strings.Contains(r.Err.Error(), "unknown command") {
		e.rights.noWait.Store(true) // the call goes through a proxy without WAIT
		reply, err = e.d.Do(ctx, call)
		return reply, need, err
	}
	return r.Reply, r.Acked, r.Err
}

// prolong makes the server keep a lock for at least d from now on. It reports whether the owner
// still holds it. In Strict mode, it counts when enough replicas have it, as a renewal does.
func (e *Engine) prolong(ctx context.Context, ref script.LockRef, d time.Duration) (bool, error) {
	need := e.o.Replication.acks()
	reply, acked, err := e.do(ctx, script.Renew([]time.Duration{d}, []script.LockRef{ref}), need)
	if err != nil {
		return false, err
	}
	held, err := script.Renewed(reply, 1)
	if err != nil || !held[0] {
		return false, err
	}
	if acked < need {
		return false, notReplicated(acked, need)
	}
	return true, nil
}

// notReplicated is the error of a call that was executed, but that too few replicas have.
func notReplicated(acked, need int) error {
	return &driver.Error{Class: driver.Ambiguous, Err: fmt.Errorf("%w: %d of %d replicas acknowledged it in time", ErrNotReplicated, acked, need)}
}

// replicasGone reports whether the master of a key has no replicas any more that Acked mode needs.
func (e *Engine) replicasGone(ctx context.Context, key string) bool {
	if e.o.Replication.Mode != Acked || ctx.Err() != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	f, err := driver.FactsAt(ctx, e.d, key)
	return err == nil && f.Replicas == 0
}

// replicas returns how many replicas must have what is written to a key.
func (e *Engine) replicas(ctx context.Context, key string) int {
	switch o := &e.o.Replication; o.Mode {
	case Strict:
		return o.Replicas
	case Acked:
		if e.rights.noWait.Load() {
			return 0
		}
		n := e.d.Place(key).Replicas
		if n < 0 {
			f, err := driver.FactsAt(ctx, e.d, key)
			if err != nil {
				return 1 // unknown
			}
			n = f.Replicas
		}
		return min(n, 1)
	}
	return 0
}
