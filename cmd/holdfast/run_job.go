package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/child"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
)

// run waits for the lock, runs the program, and gives the lock back.
func (j *runJob) run(ctx context.Context) error {
	signals := make(chan os.Signal, 16)
	for _, s := range child.Signals {
		if !signal.Ignored(s) { // as with nohup: the program is to ignore it, too
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	// A message that nobody reads must not end us: the lock would stay behind.
	if !signal.Ignored(syscall.SIGPIPE) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}

	waiting, heard := runUntilSignal(ctx, signals)
	lease, done, err := j.acquire(waiting)
	defer done()
	if s := heard(); s != nil {
		return &exit{128 + int(s.(syscall.Signal)), nil}
	}
	if err != nil {
		return err
	}
	return j.work(lease, signals)
}

// runUntilSignal returns a context that a signal ends, until heard is called,
// which returns the signal if there was one. A second signal has its usual
// effect.
func runUntilSignal(ctx context.Context, signals chan os.Signal) (_ context.Context, heard func() os.Signal) {
	ctx, cancel := context.WithCancel(ctx)
	enough, ended := make(chan struct{}), make(chan struct{})
	var s os.Signal
	go func() {
		defer close(ended)
		select {
		case s = <-signals:
			signal.Stop(signals)
			cancel()
		case <-enough:
		}
	}()
	return ctx, func() os.Signal {
		close(enough)
		<-ended
		return s
	}
}

// acquire waits for the lock. What it has got is given back by done at the
// latest.
func (j *runJob) acquire(ctx context.Context) (lease *holdfast.Lease, done func(), err error) {
	client, err := j.target.open(ctx, j.options())
	if err != nil {
		return nil, func() {}, err
	}
	lock := j.lock(client)
	if j.verbose || j.notices().Terminal() {
		waiting, cancel := context.WithCancel(ctx)
		defer cancel()
		defer time.AfterFunc(time.Second, func() { j.sayWhoHolds(waiting, lock) }).Stop()
	}
	lease, err = lock.Lock(ctx)
	return lease, func() { _ = client.Close() }, err
}

// sayWhoHolds tells somebody at a terminal why nothing happens.
func (j *runJob) sayWhoHolds(ctx context.Context, lock runLock) {
	state, err := lock.State(ctx)
	if err != nil || !state.Locked || ctx.Err() != nil { // or it is us who hold it by now
		return
	}
	text := "waiting for lock " + term.Quote(j.name, 60) + ", held by " + term.Quote(state.Owner, 60)
	if state.TTL > 0 {
		text += fmt.Sprintf(" for %v, or longer if it is renewed", state.TTL.Round(time.Second))
	}
	if n := len(state.Waiting); n > 1 {
		text += fmt.Sprintf("; %d wait", n)
	}
	j.say("%s", text)
}

// say writes a line that is not the program's.
func (j *runJob) say(format string, args ...any) {
	fmt.Fprintf(j.err, "holdfast: "+format+"\n", args...)
}

// work runs the program under the lock.
func (j *runJob) work(lease *holdfast.Lease, signals <-chan os.Signal) error {
	cmd := exec.Command(j.program[0], j.program[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = j.in, j.out, j.err
	cmd.Env = append(j.environment(os.Environ()),
		"HOLDFAST_LOCK="+lease.Name(),
		"HOLDFAST_OWNER="+lease.Owner(),
		"HOLDFAST_TOKEN="+strconv.FormatInt(lease.Token(), 10))
	// At a terminal the program shares our group, so that it can read from there
	// and pipelines stay together.
	own := !child.Terminal()
	if j.verbose {
		j.say("holding lock %s, owner %s, token %d", term.Quote(j.name, 60), lease.Owner(), lease.Token())
	}
	w := newRunWatch(j, lease)
	if !lease.Valid() { // we may have been stopped for long
		return &exit{lost, fmt.Errorf("lock %s was lost before the program could be started", term.Quote(j.name, 60))}
	}
	var err error
	if w.program, err = child.Start(cmd, own); err != nil {
		w.fuse.Out()
		_ = lease.Release(context.Background())
		return runFailure(j.program[0], err)
	}
	w.until(w.program.Exited(), signals)
	return w.finish()
}

// environment returns that of the program: ours, but for the secrets in
// HOLDFAST_URL.
func (j *runJob) environment(ours []string) []string {
	if j.keep {
		return ours
	}
	var env []string
	for _, e := range ours {
		if url, ok := strings.CutPrefix(e, "HOLDFAST_URL="); ok {
			if url = withoutSecrets(url); url == "" {
				continue
			}
			e = "HOLDFAST_URL=" + url
		}
		env = append(env, e)
	}
	return env
}

// finish gives the lock back and returns the program's status, or the loss.
func (w *runWatch) finish() error {
	w.fuse.Out()
	err := w.lease.Release(context.Background())
	w.said.Wait()
	switch {
	case errors.Is(err, holdfast.ErrLost):
		return &exit{lost, fmt.Errorf("%w; %s", err, w.fate())}
	case w.told:
		return &exit{lost, fmt.Errorf("lock %s could not be kept; %s", term.Quote(w.job.name, 60), w.fate())}
	case err != nil:
		w.job.say("the program has ended, but lock %s could not be given back; it frees itself when its lease is over", term.Quote(w.job.name, 60))
	}
	if w.job.verbose && err == nil {
		w.job.say("released lock %s", term.Quote(w.job.name, 60))
	}
	if status := w.program.Status(); status != 0 {
		return &exit{status, nil}
	}
	return nil
}

// fate says what has become of the program.
func (w *runWatch) fate() string {
	if w.told {
		return "the program was stopped, and has not done all of its work"
	}
	return "the program has done its work, but another one may have run beside it"
}
