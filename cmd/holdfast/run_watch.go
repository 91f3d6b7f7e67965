package main

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/child"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
)

// A runWatch ensures that a program is dead before another owner can acquire its
// lock.
//
//	renewed                            SIGTERM            SIGKILL   end
//	───┼──────────────────────────────────┼──────────────────┼───────┤
//	                                      └───── grace ──────┴reserve┘
//
// The end is [holdfast.Lease.Deadline], when the fuse kills this process. The
// server keeps the lock a little longer. The reserve covers delays on a busy
// machine and the time that the kernel needs to end a large program.
type runWatch struct {
	job     *runJob
	lease   *holdfast.Lease
	program *child.Child
	fuse    *child.Fuse

	grace, reserve time.Duration
	stopping       bool           // SIGTERM was sent, or the lease is lost
	messages       sync.WaitGroup // waits for the message, whose reader may be slow
	ending         bool           // the lease is lost, or the program ended after SIGTERM
	kill           time.Time      // if ending: when to send SIGKILL
	killed         bool           // SIGKILL was sent
}

// newRunWatch returns a runWatch for a program that is not started yet. It sets the
// fuse.
func newRunWatch(j *runJob, lease *holdfast.Lease) *runWatch {
	w := &runWatch{job: j, lease: lease, fuse: child.NewFuse()}
	end := lease.Deadline()
	w.fuse.Set(end)
	left := time.Until(end)
	w.reserve = min(left/4, runReserve)
	w.grace = min(left/6, runGrace)
	if j.graceGiven {
		w.grace = min(j.grace, left/4)
	}
	return w
}

// runMaxSleep is the longest sleep between two checks. Go timers stop while the
// machine sleeps, but the lease does not.
const runMaxSleep = time.Second

// until watches the lease until the program has ended. If the program got SIGTERM,
// until also waits for the processes that it started, for at most the grace period.
func (w *runWatch) until(ended <-chan struct{}, signals <-chan os.Signal) {
	lost := w.lease.Context().Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ended:
			ended = nil
			if w.stopping && !w.ending {
				w.ending, w.kill = true, time.Now().Add(min(w.grace, w.left()))
			}
		case s := <-signals:
			w.program.Forward(s)
		case <-lost:
			lost = nil
			w.handleLoss(context.Cause(w.lease.Context()))
		case <-timer.C:
		}
		pause := min(max(w.check(), time.Millisecond), runMaxSleep)
		if ended == nil {
			if !w.stopping || w.killed || !w.program.Alive() {
				return
			}
			pause = min(pause, 20*time.Millisecond)
		}
		timer.Reset(pause)
	}
}

// check sends the signals that are due and returns the time until the next check.
func (w *runWatch) check() time.Duration {
	if w.ending {
		if time.Now().After(w.kill) {
			w.program.SignalAll(os.Kill)
			w.fuse.Out()
			w.killed = true
		}
		return time.Until(w.kill)
	}
	end := w.lease.Deadline()
	if end.IsZero() {
		return runMaxSleep // the lease is lost: its context is about to end
	}
	w.fuse.Set(end)
	left := w.left()
	switch {
	case left <= 0:
		w.handleLoss(nil)
		return 0
	case w.stopping || w.grace == 0:
		return left
	case left > w.grace:
		return left - w.grace
	}
	why := "not renewed in time"
	if w.job.fixed {
		why = "the lease is nearly over"
	}
	w.terminate(why, left)
	return left
}

// left returns the time until SIGKILL.
func (w *runWatch) left() time.Duration { return time.Until(w.lease.Deadline().Add(-w.reserve)) }

// handleLoss handles the loss of the lease. If the lease has expired, the program is
// killed at once. If the lock was broken, another owner may already hold it, and
// the program gets at most a second.
func (w *runWatch) handleLoss(err error) {
	w.ending, w.kill = true, time.Now()
	var loss *holdfast.LostError
	if errors.As(err, &loss) && (loss.Reason == holdfast.LossNotOwner || loss.Reason == holdfast.LossFailover) {
		grace := min(w.grace, time.Second)
		w.kill = w.kill.Add(grace)
		w.terminate("it is held by another owner or was deleted", grace)
	}
	w.stopping = true
}

// terminate sends SIGTERM to the program, once.
func (w *runWatch) terminate(why string, left time.Duration) {
	if !w.stopping {
		w.stopping = true
		w.program.SignalAll(syscall.SIGTERM)
		w.messages.Go(func() {
			w.job.say("lock %s: %s: stopping the program with SIGTERM, and with SIGKILL in %v",
				term.Quote(w.job.name, 60), why, left.Round(100*time.Millisecond))
		})
	}
}
