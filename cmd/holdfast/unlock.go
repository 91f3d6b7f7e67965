package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	xterm "golang.org/x/term"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
	"github.com/holdfast-go/holdfast/inspect"
)

func init() { commands = append(commands, unlockCommand) }

// unlockFlags is how the user wants a lock to be broken.
type unlockFlags struct {
	force, yes, json bool
	owners           []string
}

func unlockCommand(a *app) *cobra.Command {
	var f unlockFlags
	cmd := &cobra.Command{
		Use:   "unlock NAME --force",
		Short: "Break a lock whose holder does not release it",
		Long: `Unlock frees a lock that others hold. It shows who they are, asks, and then
breaks the lock only if the same owners still hold it. Those who wait are woken.

Every acquisition by Go has an owner of its own, so one that is newer than what
was shown is not broken. (Goroutines of one process that hand a lock on to each
other are one owner.) In Java the owner is the thread: a thread that has
released the lock and taken it again since is the same owner, and its new hold
is broken.

A holder that still works learns of it when it renews its lease, within ten
seconds as a rule. Until then two of them may believe to hold the lock: prefer
to stop the holder, whose lock expires by itself soon after.

Without a terminal nobody can be asked. Then give --yes, or name the owner that
you have seen with --owner, which is safer.

The exit status is 0 if the lock is free now, which it may have been before, and
1 if it is not: the answer was no, or others hold it than those that were shown.

` + lsSchema + `

Unlock prints one document on one line:

  {"broken": true, "lock": LOCK}

lock is what it was before; broken is false if it was free, or was left alone.`,
		Example: `  holdfast unlock orders --force
  holdfast unlock orders --force --owner 285475da-9152-4c83-822a-67ee2f116a79:52`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := showName(cmd, args); err != nil {
				return err
			}
			return f.check(a)
		},
		ValidArgsFunction: a.completeLocks,
		RunE: interruptible(func(ctx context.Context, args []string) error {
			client, err := a.target.open(ctx, holdfast.Options{})
			if err != nil {
				return err
			}
			defer client.Close()
			return a.unlock(ctx, inspect.New(client.Driver()), args[0], f)
		}),
	}
	cmd.Flags().BoolVar(&f.force, "force", false, "break the lock, which is all that this command can do")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	cmd.Flags().StringArrayVar(&f.owners, "owner", nil, "do not ask, and break the lock only if `OWNER` holds it; give it again for\neach of several")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON, as described above")
	return cmd
}

func (f *unlockFlags) check(a *app) error {
	sure := f.yes || len(f.owners) > 0
	switch {
	case !f.force:
		return usage("a lock is released by its holder, or ends by itself when that one is gone; to break it all the same, add --force")
	case f.json && !sure:
		return usage("with --json nobody is asked: add --owner OWNER, as holdfast show has it, or --yes")
	case !sure && !a.interactive():
		return usage("there is no terminal to ask at: add --owner OWNER, as holdfast show has it, or --yes")
	}
	return nil
}

// interactive reports whether there is somebody who sees a question and can
// answer.
func (a *app) interactive() bool {
	f, ok := a.in.(*os.File)
	return ok && xterm.IsTerminal(int(f.Fd())) && a.screen().Terminal()
}

func (a *app) unlock(ctx context.Context, i *inspect.Inspector, name string, f unlockFlags) error {
	seen, err := showLook(ctx, i, name)
	if err != nil {
		return err
	}
	switch {
	case lsFree(seen):
		return a.unlocked(f, seen, false, lsName(name, 60)+" is free: there is nothing to break.")
	case len(seen.Holders) == 0:
		return a.left(f, seen, "it may be held by %s", unlockOwners(seen))
	}
	if !f.json {
		_, _ = fmt.Fprint(a.out, showText(a.screen(), seen))
	}
	if len(f.owners) > 0 && !unlockSame(seen, f.owners) {
		return a.left(f, seen, "it is held by %s, not by whom --owner says", unlockOwners(seen))
	}
	if !f.yes && len(f.owners) == 0 {
		yes, err := a.ask(ctx, "Break it? [y/N] ")
		if err != nil {
			return err
		}
		if !yes {
			return a.left(f, seen, "you did not say yes")
		}
	}
	broken, err := i.Break(ctx, seen)
	if err != nil {
		return err
	}
	if broken {
		return a.unlocked(f, seen, true, "It is broken. Its holder learns of it when it renews its lease.")
	}
	now, err := showLook(ctx, i, name)
	if err != nil {
		return err
	}
	if lsFree(now) {
		return a.unlocked(f, seen, false, "It has become free meanwhile: there was nothing to break.")
	}
	return a.left(f, seen, "it is held by %s now", unlockOwners(now))
}

// unlocked ends the command when the lock is free.
func (a *app) unlocked(f unlockFlags, seen inspect.Lock, broken bool, text string) error {
	if f.json {
		return a.printJSON(unlockDocument{broken, lsLockOf(seen)})
	}
	_, err := fmt.Fprintln(a.out, text)
	return err
}

// left ends the command when the lock was left alone.
func (a *app) left(f unlockFlags, seen inspect.Lock, format string, args ...any) error {
	if f.json {
		if err := a.printJSON(unlockDocument{false, lsLockOf(seen)}); err != nil {
			return err
		}
	}
	return &exit{failed, fmt.Errorf("nothing was broken: "+format, args...)}
}

// unlockDocument is what unlock prints for machines.
type unlockDocument struct {
	Broken bool   `json:"broken"`
	Lock   lsLock `json:"lock"`
}

// unlockSame reports whether these owners hold the lock, and no others.
func unlockSame(lock inspect.Lock, owners []string) bool {
	held := make([]string, len(lock.Holders))
	for i, h := range lock.Holders {
		held[i] = h.Owner
	}
	slices.Sort(held)
	owners = slices.Sorted(slices.Values(owners))
	return lock.More == 0 && slices.Equal(slices.Compact(held), slices.Compact(owners))
}

func unlockOwners(lock inspect.Lock) string {
	if len(lock.Holders) == 0 {
		return "others than those that were looked at"
	}
	text := term.Quote(lock.Holders[0].Owner, 100)
	if n := len(lock.Holders) - 1; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// ask asks a question. The end of the input is a no.
func (a *app) ask(ctx context.Context, question string) (yes bool, err error) {
	_, _ = fmt.Fprint(a.out, question)
	answer := make(chan string, 1)
	go func() {
		line, err := bufio.NewReader(a.in).ReadString('\n')
		if err == io.EOF {
			_, _ = fmt.Fprintln(a.out) // where the user would have pressed Return
		}
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		_, _ = fmt.Fprintln(a.out)
		return false, ctx.Err()
	case text := <-answer:
		return text == "y" || text == "yes", nil
	}
}
