package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
)

func init() { commands = append(commands, runCommand) }

func runCommand(a *app) *cobra.Command {
	job := &runJob{app: a}
	cmd := &cobra.Command{
		Use:   "run NAME [flags] -- PROGRAM [ARGUMENT...]",
		Short: "Run a program while holding a lock",
		Long: `Run waits for the lock NAME, runs a program while it holds it, and gives it back
when the program has ended. The lock is renewed all the time; if this machine
dies, it is free after --watchdog. With --lease it is not renewed: the program
must be done by then.

Input, output, signals and the exit status are those of the program, which finds
in its environment

  HOLDFAST_LOCK    the name of the lock
  HOLDFAST_OWNER   the owner, as holdfast ls shows it
  HOLDFAST_TOKEN   the fencing token: a number that rises with every holder
  HOLDFAST_URL     as it was, but without user and passwords: the program needs
                   none for the lock. --keep-password leaves it as it is.

When the lock cannot be kept, because the server does not answer any more or the
lease is nearly over, the program gets SIGTERM, and --grace later SIGKILL, so
that it is dead before anybody else can get the lock. If the lock was taken away
by force, it gets SIGTERM at once and SIGKILL at most a second later. So does
what the program has started, unless that has cut all ties with it. Should
holdfast itself be killed, or stopped for longer than the lease, Linux kills the
program, but not what it has started.

Exit status:
  that of the program, or 128+n if signal n killed it
  120  somebody else has the lock, and --wait is over
  121  the lock was lost, or about to be, so that the program was stopped
  122  the server cannot be reached, or refuses
  126  the program cannot be executed; the lock was not taken
  127  there is no such program; the lock was not taken
  128+n  signal n came while holdfast waited for the lock
  2    wrong flags or arguments`,
		Example: `  holdfast run nightly -- ./backup.sh                 # one at a time
  holdfast run nightly --wait 0 -- ./backup.sh        # not if another one runs
  holdfast run import --fair --wait 10m -- ./import   # in the order of arrival
  holdfast run report --lease 1h -- ./report          # an hour at most
  holdfast run deploy -- sh -c 'echo "$HOLDFAST_TOKEN"; make deploy'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f := cmd.Flags()
			job.waits, job.fixed, job.graceGiven = !f.Changed("wait"), f.Changed("lease"), f.Changed("grace")
			if err := job.parse(args, cmd.ArgsLenAtDash()); err != nil {
				return err
			}
			return job.run(cmd.Context())
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if strings.HasPrefix(err.Error(), "unknown") {
			return usage("%w (the program and its arguments come after --)", err)
		}
		return usage("%w", err)
	})
	f := cmd.Flags()
	f.BoolVar(&job.fair, "fair", false, "wait in the order of arrival")
	f.BoolVar(&job.fenced, "fenced", false, "take tokens from a counter that the server keeps, instead of its clock")
	f.DurationVar(&job.wait, "wait", 0, "how long to wait for the lock; 0 tries once (default: for ever)")
	f.DurationVar(&job.lease, "lease", 0, "how long to hold the lock, which is then not renewed (default: as long as the program runs)")
	f.DurationVar(&job.watchdog, "watchdog", 0, "how long the lock outlives a machine that dies (default: 30s, or what --config says)")
	f.DurationVar(&job.grace, "grace", 0, "time between SIGTERM and SIGKILL when the lock cannot be kept\n(default: a sixth of --watchdog or --lease, at most 10s)")
	f.BoolVar(&job.keep, "keep-password", false, "pass HOLDFAST_URL on to the program with its passwords")
	f.BoolVar(&job.verbose, "verbose", false, "say when it waits, holds and releases the lock, and what goes wrong")
	return cmd
}

// A runJob is what the user of `holdfast run` wants.
type runJob struct {
	*app
	name    string
	program []string

	fair, fenced, verbose, keep  bool
	wait, lease, watchdog, grace time.Duration
	waits                        bool // for ever
	fixed                        bool // the lease is
	graceGiven                   bool
}

const (
	// runWatchdog is the library's default.
	runWatchdog = 30 * time.Second
	// runShortest is the shortest lease in which a program can be stopped.
	runShortest = time.Second
	// runGrace is the longest time that a program gets to stop if nobody says
	// otherwise.
	runGrace = 10 * time.Second
	// runReserve is how much of a lease is left when the program is killed. The
	// library needs no more.
	runReserve = 5 * time.Second
)

// parse checks what was said, before anything is done.
func (j *runJob) parse(args []string, dash int) error {
	if dash != 1 || len(args) < 2 {
		return usage("name one lock, and a program after --, as in: holdfast run nightly -- ./backup.sh --full")
	}
	j.name, j.program = args[0], args[1:]
	lease := j.watchdog
	switch {
	case j.fixed:
		lease = j.lease
	case lease == 0 && j.target.config == "":
		lease = runWatchdog
	}
	switch {
	case j.fair && j.fenced:
		return usage("a lock is either --fair or --fenced: give one of them")
	case j.fixed && j.watchdog != 0:
		return usage("with --lease nothing is renewed: leave --watchdog away")
	case j.wait < 0 || j.grace < 0:
		return usage("a time cannot be negative: give --wait and --grace 0 or more")
	case lease < runShortest && (j.fixed || lease != 0):
		return usage("%v is too short to stop a program in time: give --lease or --watchdog at least %v", lease, runShortest)
	case lease != 0 && j.grace > lease/4: // so that renewals have a chance before it
		return usage("--grace is %v, more than a quarter of the time that the lock is taken for, %v: give less, or take it for longer", j.grace, lease)
	}
	return runnable(j.program[0])
}

// runnable returns the error of a program that cannot be run, while nobody
// waits for it yet.
func runnable(program string) error {
	_, err := exec.LookPath(program)
	return runFailure(program, err)
}

// runFailure returns the error of a program that could not be run, with the
// status that a shell would return.
func runFailure(program string, err error) error {
	if err == nil {
		return nil
	}
	var at *exec.Error
	if errors.As(err, &at) {
		err = at.Err // without the name, which may be anything
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	status := cannotRun
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		status = notFound
	}
	return &exit{status, &runError{program, err}}
}

type runError struct {
	program string
	err     error
}

func (e *runError) Error() string {
	return "cannot run " + term.Quote(e.program, 60) + ": " + e.err.Error()
}
func (e *runError) Unwrap() error { return e.err }

// options are those of the client.
func (j *runJob) options() holdfast.Options {
	o := holdfast.Options{WatchdogTimeout: j.watchdog}
	if j.verbose {
		o.Logger = slog.New(slog.NewTextHandler(j.err, nil))
	}
	return o
}

// A runLock is a lock that says who holds it.
type runLock interface {
	holdfast.Locker
	State(context.Context) (holdfast.State, error)
}

func (j *runJob) lock(c *holdfast.Client) runLock {
	var opts []holdfast.Option
	if !j.waits {
		opts = append(opts, holdfast.Wait(j.wait))
	}
	if j.fixed {
		opts = append(opts, holdfast.LeaseTime(j.lease))
	}
	switch {
	case j.fair:
		return c.FairMutex(j.name, opts...)
	case j.fenced:
		return c.FencedMutex(j.name, opts...)
	}
	return c.Mutex(j.name, opts...)
}
