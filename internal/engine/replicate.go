package engine

import (
	"context"
	"errors"
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
	Acked  Mode = iota // when one of those that are connected has it
	Async              // at once
	Strict             // when so many have it
)

// Replication says how many replicas must have what was granted before it
// counts.
type Replication struct {
	Mode     Mode
	Replicas int           // of Strict
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

// An unacked is the error of a request that the server has carried out, but too
// few replicas have heard of.
type unacked struct {
	reply     driver.Reply
	got, need int
}

func (u *unacked) Error() string {
	return fmt.Sprintf("%v: %d of %d replicas have acknowledged it in time", ErrNotReplicated, u.got, u.need)
}

func (u *unacked) Unwrap() error { return ErrNotReplicated }

// granting is the driver for what counts only once replicas have it.
type granting struct {
	driver.Driver
	e *Engine
}

// Do runs a script and waits for as many replicas as the mode asks for.
func (g granting) Do(ctx context.Context, call driver.Call) (driver.Reply, error) {
	need := g.e.need(ctx, call.Keys[0])
	if need == 0 {
		return g.Driver.Do(ctx, call)
	}
	r := g.DoAcked(ctx, []driver.Call{call}, need, g.e.o.Replication.Timeout)[0]
	switch {
	case r.Err == nil && r.Acked >= need:
		return r.Reply, nil
	case r.Err != nil && g.e.o.Replication.Mode == Acked && strings.Contains(r.Err.Error(), "unknown command"):
		g.e.waitless.Store(true) // as some proxies are
		return g.Driver.Do(ctx, call)
	case r.Err != nil:
		return r.Reply, r.Err
	}
	if g.e.o.Replication.Mode == Acked && ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		if f, err := driver.FactsAt(ctx, g.e.d, call.Keys[0]); err == nil && f.Replicas == 0 {
			return r.Reply, nil // there are none any more
		}
	}
	return driver.Reply{}, &driver.Error{Class: driver.Ambiguous, Err: &unacked{r.Reply, r.Acked, need}}
}

// need is how many replicas must have what is written to a key.
func (e *Engine) need(ctx context.Context, key string) int {
	switch o := &e.o.Replication; o.Mode {
	case Strict:
		return o.Replicas
	case Acked:
		if e.waitless.Load() {
			return 0
		}
		n := e.d.Place(key).Replicas
		if n < 0 {
			f, err := driver.FactsAt(ctx, e.d, key)
			if err != nil {
				return 1 // nobody knows
			}
			n = f.Replicas
		}
		return min(n, 1)
	}
	return 0
}

// acquire asks for a claim. What was granted counts when enough replicas have
// it; that somebody else holds the lock needs no witness.
func (e *Engine) claim(ctx context.Context, k target, c script.Claim) (script.Verdict, error) {
	if t := k.Traits(); t.ReadOnly || t.Unreplicated || e.o.Replication.Mode == Async {
		return k.Acquire(ctx, e.d, c)
	}
	v, err := k.Acquire(ctx, e.granting, c)
	if err != nil {
		return e.read(ctx, k, c, err)
	}
	return v, nil
}

// read returns what a server has said although too few replicas have heard it, if
// it was a no.
func (e *Engine) read(ctx context.Context, k target, c script.Claim, err error) (script.Verdict, error) {
	var u *unacked
	if errors.As(err, &u) {
		if said, wrong := k.Acquire(ctx, answered{e.d, u.reply}, c); wrong == nil && !said.Granted() {
			return said, nil
		}
	}
	return script.Verdict{}, err
}

// answered is a driver that has the answer already.
type answered struct {
	driver.Driver
	reply driver.Reply
}

func (a answered) Do(context.Context, driver.Call) (driver.Reply, error) { return a.reply, nil }

// prolonging is the driver for what moves the end of a lease: like a renewal.
func (e *Engine) prolonging() driver.Driver {
	if e.o.Replication.Mode == Strict {
		return e.granting
	}
	return e.d
}
