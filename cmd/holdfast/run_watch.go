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

// A runWatch sees to it that a program is dead before its lock can be somebody
// else's.
//
//	renewed                            SIGTERM            SIGKILL   end
//	───┼──────────────────────────────────┼──────────────────┼───────┤
//	                                      └───── grace ──────┴reserve┘
//
// The end is that of [holdfast.Lease.Deadline], up to which the fuse burns; the
// server keeps the lock a little longer. The reserve is for a busy machine, and
// for a large program to die.
type runWatch struct {
	job     *runJob
	lease   *holdfast.Lease
	program *child.Child
	fuse    *child.Fuse

	grace, reserve time.Duration
	told           bool           // the program, that it must stop
	said           sync.WaitGroup // that to the user, who may not be reading
	gone           bool           // the lease, or the program after it was told
	kill           time.Time      // if gone: when to kill what is left
	killed         bool
}

// newRunWatch returns a watch over a program that is yet to be started. The fuse
// burns already.
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

// runPause is how long a timer is trusted: it stands still while the machine
// sleeps, the lease does not.
const runPause = time.Second

// until watches over the lease until the program has ended. If it was told to
// stop, what it has started is given the same time for it.
func (w *runWatch) until(ended <-chan struct{}, signals <-chan os.Signal) {
	lost := w.lease.Context().Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ended:
			ended = nil
			if w.told && !w.gone {
				w.gone, w.kill = true, time.Now().Add(min(w.grace, w.left()))
			}
		case s := <-signals:
			w.program.Forward(s)
		case <-lost:
			lost = nil
			w.lose(context.Cause(w.lease.Context()))
		case <-timer.C:
		}
		pause := min(max(w.look(), time.Millisecond), runPause)
		if ended == nil {
			if !w.told || w.killed || !w.program.Alive() {
				return
			}
			pause = min(pause, 20*time.Millisecond)
		}
		timer.Reset(pause)
	}
}

// look does what is due and returns when to look again.
func (w *runWatch) look() time.Duration {
	if w.gone {
		if time.Now().After(w.kill) {
			w.program.SignalAll(os.Kill)
			w.fuse.Out()
			w.killed = true
		}
		return time.Until(w.kill)
	}
	end := w.lease.Deadline()
	if end.IsZero() {
		return runPause // it is lost, and we are about to be told
	}
	w.fuse.Set(end)
	left := w.left()
	switch {
	case left <= 0:
		w.lose(nil)
		return 0
	case w.told || w.grace == 0:
		return left
	case left > w.grace:
		return left - w.grace
	}
	why := "no renewal was confirmed for too long"
	if w.job.fixed {
		why = "its lease is nearly over"
	}
	w.tell(why, left)
	return left
}

// left returns how long the program may go on.
func (w *runWatch) left() time.Duration { return time.Until(w.lease.Deadline().Add(-w.reserve)) }

// lose acts on the loss of the lease. If its time is over, the lock will be
// free in a moment; otherwise somebody may have it already.
func (w *runWatch) lose(err error) {
	w.gone, w.kill = true, time.Now()
	var loss *holdfast.LostError
	if errors.As(err, &loss) && (loss.Reason == holdfast.LossNotOwner || loss.Reason == holdfast.LossFailover) {
		grace := min(w.grace, time.Second)
		w.kill = w.kill.Add(grace)
		w.tell("the server says that it is not ours any more", grace)
	}
	w.told = true
}

// tell tells the program to stop.
func (w *runWatch) tell(why string, left time.Duration) {
	if !w.told {
		w.told = true
		w.program.SignalAll(syscall.SIGTERM)
		w.said.Go(func() {
			w.job.say("lock %s: %s: the program is stopped with SIGTERM, and with SIGKILL in %v",
				term.Quote(w.job.name, 60), why, left.Round(100*time.Millisecond))
		})
	}
}
