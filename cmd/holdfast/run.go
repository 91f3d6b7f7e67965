package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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
		Long: `Run waits for the lock NAME, runs a program while it holds the lock, and
releases the lock when the program ends. It renews the lock while the program
runs. If this machine fails, the lock expires after --watchdog. With --lease the
lock is not renewed: the program must end before the lease does. With --at-least
the lock stays for that time even if the program ends earlier, so that a job
that many hosts start runs once. Holdfast ls and show name the holder after the
program, or after --label.

Holdfast passes its input, output and signals to the program, and exits with the
exit status of the program. The environment of the program has

  HOLDFAST_LOCK    the name of the lock
  HOLDFAST_OWNER   the owner, as shown by holdfast ls
  HOLDFAST_TOKEN   the fencing token: a number that rises with every holder
  HOLDFAST_URL     the variable without user and passwords, which the program
                   does not need for the lock; --keep-password keeps them

If the lock cannot be kept, because the server does not answer or the lease is
nearly over, holdfast sends SIGTERM to the program, and SIGKILL after --grace.
The program is dead before another owner can acquire the lock. If the lock was
broken by force, holdfast sends SIGTERM at once, and SIGKILL at most a second
later. Processes that the program has started get the same signals, unless they
have detached from it. If holdfast itself is killed, or stopped for longer than
the lease, Linux kills the program, but not the processes that it has started.

Exit status:
  that of the program, or 128+n if signal n killed it
  120  another owner holds the lock, and --wait is over
  121  the lock was lost or about to be lost, and the program was stopped
  122  the server cannot be reached or rejects the request
  126  the program cannot be executed; the lock was not acquired
  127  the program does not exist; the lock was not acquired
  128+n  signal n arrived while holdfast waited for the lock
  2    wrong flags or arguments`,
		Example: `  holdfast run nightly -- ./backup.sh                 # one at a time
  holdfast run nightly --wait 0 -- ./backup.sh        # fail if another runs
  holdfast run import --fair --wait 10m -- ./import   # in order of arrival
  holdfast run report --lease 1h -- ./report          # for an hour at most
  holdfast run mail --wait 0 --at-least 60s -- ./mail # once, on many hosts
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
			return usage("%w (put the program and its arguments after --)", err)
		}
		return usage("%w", err)
	})
	f := cmd.Flags()
	f.BoolVar(&job.fair, "fair", false, "grant the lock in order of arrival")
	f.BoolVar(&job.fenced, "fenced", false, "take tokens from a counter on the server instead of its clock")
	f.DurationVar(&job.wait, "wait", 0, "how long to wait for the lock; 0 tries once (default: forever)")
	f.DurationVar(&job.lease, "lease", 0, "hold the lock for this long without renewing it (default: renew it while the program runs)")
	f.DurationVar(&job.watchdog, "watchdog", 0, "the lock expires this long after a crash (default: 30s, or the value in --config)")
	f.DurationVar(&job.atLeast, "at-least", 0, "keep the lock for this long, even if the program ends earlier")
	f.DurationVar(&job.grace, "grace", 0, "time between SIGTERM and SIGKILL when the lock cannot be kept\n(default: a sixth of --watchdog or --lease, at most 10s)")
	f.BoolVar(&job.keep, "keep-password", false, "pass HOLDFAST_URL to the program with its passwords")
	f.StringVar(&job.label, "label", "", "name of the holder for operators, for example in holdfast ls (default: the program)")
	f.BoolVar(&job.verbose, "verbose", false, "print a message when the lock is awaited, held or released, and log problems")
	return cmd
}

// A runJob holds the flags and arguments of `holdfast run`.
type runJob struct {
	*app
	name    string
	program []string
	label   string // empty: see options

	fair, fenced, verbose, keep           bool
	wait, lease, watchdog, grace, atLeast time.Duration
	waits                                 bool // without limit: --wait is not set
	fixed                                 bool // --lease is set: the lock is not renewed
	graceGiven                            bool // --grace is set
}

const (
	// runMaxLabel is the maximum length of a label in bytes, see holdfast.Options.
	runMaxLabel = 128
	// runWatchdog is the default watchdog time of the library.
	runWatchdog = 30 * time.Second
	// runMinLease is the shortest lease in which a program can be stopped.
	runMinLease = time.Second
	// runGrace is the maximum of the default grace period.
	runGrace = 10 * time.Second
	// runReserve is the maximum time between SIGKILL and the end of the lease.
	runReserve = 5 * time.Second
)

// parse checks the flags and arguments before anything is done.
func (j *runJob) parse(args []string, dash int) error {
	if dash != 1 || len(args) < 2 {
		return usage("give one lock name, and a program after --, as in: holdfast run nightly -- ./backup.sh --full")
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
	case len(j.label) > runMaxLabel || strings.ContainsFunc(j.label, unprintable):
		return usage("--label is %s: use at most %d bytes of printable text", term.Quote(j.label, 40), runMaxLabel)
	case j.fair && j.fenced:
		return usage("--fair and --fenced exclude each other: give one of them")
	case j.fixed && j.watchdog != 0:
		return usage("--watchdog has no effect with --lease, because the lock is not renewed: give one of them")
	case j.wait < 0 || j.grace < 0 || j.atLeast < 0:
		return usage("--wait, --grace and --at-least must not be negative")
	case lease < runMinLease && (j.fixed || lease != 0):
		return usage("%v is too short to stop a program in time: --lease and --watchdog must be at least %v", lease, runMinLease)
	case lease != 0 && j.grace > lease/4: // leaves time for renewals before SIGTERM
		return usage("--grace is %v, more than a quarter of the lease of %v: lower --grace, or raise --lease or --watchdog", j.grace, lease)
	}
	return runnable(j.program[0])
}

// runnable returns an error if the program cannot be run. It is called before the
// lock is acquired.
func runnable(program string) error {
	_, err := exec.LookPath(program)
	return runFailure(program, err)
}

// runFailure returns the error of a program that could not be run, with the exit
// status of a shell.
func runFailure(program string, err error) error {
	if err == nil {
		return nil
	}
	var at *exec.Error
	if errors.As(err, &at) {
		err = at.Err // drop the program name, which is not escaped
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

// unprintable reports whether a label must not contain a character.
func unprintable(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }

// open connects to the server. Without --label, the label is that of the file in --config, or
// else the name of the program.
func (j *runJob) open(ctx context.Context) (*holdfast.Client, error) {
	o := j.options()
	if j.label == "" {
		o.Label = filepath.Base(j.program[0])
		if len(o.Label) > runMaxLabel || strings.ContainsFunc(o.Label, unprintable) {
			o.Label = ""
		}
	}
	client, err := j.target.open(ctx, o)
	if j.label == "" && j.target.config != "" && errors.Is(err, holdfast.ErrInvalid) { // the file may exclude a label
		o.Label = ""
		client, err = j.target.open(ctx, o)
	}
	return client, err
}

// options returns the options of the client.
func (j *runJob) options() holdfast.Options {
	o := holdfast.Options{WatchdogTimeout: j.watchdog, Label: j.label}
	if j.verbose {
		o.Logger = slog.New(slog.NewTextHandler(j.err, nil))
	}
	return o
}

// A runLock is a lock that can report its holder.
type runLock interface {
	holdfast.Locker
	State(context.Context) (holdfast.State, error)
}

func (j *runJob) lock(c *holdfast.Client) runLock {
	var opts []holdfast.LockOption
	if !j.waits {
		opts = append(opts, holdfast.Wait(j.wait))
	}
	if j.fixed {
		opts = append(opts, holdfast.LeaseTime(j.lease))
	}
	if j.atLeast > 0 {
		opts = append(opts, holdfast.AtLeast(j.atLeast))
	}
	switch {
	case j.fair:
		return c.FairMutex(j.name, opts...)
	case j.fenced:
		return c.FencedMutex(j.name, opts...)
	}
	return c.Mutex(j.name, opts...)
}
