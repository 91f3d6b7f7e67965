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

// run acquires the lock, runs the program and releases the lock.
func (j *runJob) run(ctx context.Context) error {
	signals := make(chan os.Signal, 16)
	for _, s := range child.Signals {
		if !signal.Ignored(s) { // such as under nohup: the program inherits the setting
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	// A message to a closed pipe must not end this process: the lock would stay
	// behind.
	if !signal.Ignored(syscall.SIGPIPE) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}

	waiting, received := runUntilSignal(ctx, signals)
	lease, done, err := j.acquire(waiting)
	defer done()
	if s := received(); s != nil {
		return &exit{128 + int(s.(syscall.Signal)), nil}
	}
	if err != nil {
		return err
	}
	return j.work(lease, signals)
}

// runUntilSignal returns a context that a signal cancels. The caller calls received
// when it no longer waits; received returns the signal, or nil. A second signal has
// its default effect.
func runUntilSignal(ctx context.Context, signals chan os.Signal) (_ context.Context, received func() os.Signal) {
	ctx, cancel := context.WithCancel(ctx)
	stop, ended := make(chan struct{}), make(chan struct{})
	var s os.Signal
	go func() {
		defer close(ended)
		select {
		case s = <-signals:
			signal.Stop(signals)
			cancel()
		case <-stop:
		}
	}()
	return ctx, func() os.Signal {
		close(stop)
		<-ended
		return s
	}
}

// acquire waits for the lock. The caller must call done, which closes the client
// and so releases the lock if it is still held.
func (j *runJob) acquire(ctx context.Context) (lease *holdfast.Lease, done func(), err error) {
	client, err := j.open(ctx)
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

// sayWhoHolds prints which owner holds the lock.
func (j *runJob) sayWhoHolds(ctx context.Context, lock runLock) {
	state, err := lock.State(ctx)
	if err != nil || !state.Locked || ctx.Err() != nil { // ctx is done: this process may hold the lock by now
		return
	}
	text := "waiting for lock " + term.Quote(j.name, 60) + ": held by " + term.Quote(state.Owner, 60)
	if state.TTL > 0 {
		text += fmt.Sprintf(", expires in %v unless renewed", state.TTL.Round(time.Second))
	}
	if n := len(state.Waiting); n > 1 {
		text += fmt.Sprintf("; %d waiters", n)
	}
	j.say("%s", text)
}

// say prints a message of holdfast, as opposed to output of the program.
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
	// At a terminal the program stays in the process group of this process, so that
	// it can read from the terminal and pipelines work.
	own := !child.Terminal()
	if j.verbose {
		j.say("holding lock %s, owner %s, token %d", term.Quote(j.name, 60), lease.Owner(), lease.Token())
	}
	w := newRunWatch(j, lease)
	if !lease.Valid() { // this process may have been stopped
		return &exit{lost, fmt.Errorf("lock %s was lost before the program started", term.Quote(j.name, 60))}
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

// environment returns the environment of the program. It removes the secrets from
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

// finish releases the lock. It returns the exit status of the program, or the loss
// of the lock.
func (w *runWatch) finish() error {
	w.fuse.Out()
	err := w.lease.Release(context.Background())
	w.messages.Wait()
	switch {
	case errors.Is(err, holdfast.ErrLost):
		return &exit{lost, fmt.Errorf("%w; %s", err, w.outcome())}
	case w.stopping:
		return &exit{lost, fmt.Errorf("lock %s could not be kept; %s", term.Quote(w.job.name, 60), w.outcome())}
	case err != nil:
		w.job.say("the program ended, but lock %s could not be released; it expires with its lease", term.Quote(w.job.name, 60))
	}
	if w.job.verbose && err == nil {
		w.job.say("released lock %s", term.Quote(w.job.name, 60))
	}
	if status := w.program.Status(); status != 0 {
		return &exit{status, nil}
	}
	return nil
}

// outcome returns a text that says whether the program was stopped.
func (w *runWatch) outcome() string {
	if w.stopping {
		return "the program was stopped before it finished"
	}
	return "the program finished, but another program may have run at the same time"
}
