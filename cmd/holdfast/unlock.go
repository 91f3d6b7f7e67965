package main

import (
	"bufio"
	"cmp"
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
	"github.com/holdfast-go/holdfast/internal/lockjson"
)

func init() { commands = append(commands, unlockCommand) }

// unlockFlags holds the flags of unlock.
type unlockFlags struct {
	force, yes, json bool
	owners           []string
}

func unlockCommand(a *app) *cobra.Command {
	var f unlockFlags
	cmd := &cobra.Command{
		Use:   "unlock NAME --force",
		Short: "Break a lock that its holder does not release",
		Long: `Unlock breaks a lock: it takes the lock away from its holders. It shows the
holders, asks for confirmation, and breaks the lock only if the same owners
still hold it. Waiters are woken.

In Go every acquisition has its own owner, so a hold that began after the
holders were shown is not broken. (Goroutines of one process that hand the lock
to each other share one owner.) In Java the owner is the thread: if a thread has
released the lock and acquired it again, it is the same owner, and its new hold
is broken.

A running holder that uses Holdfast notices the loss when it next renews its
lease, or verifies it if its length is fixed: within Options.RenewEvery, by
default ten seconds. A Redisson client notices only when it releases the lock.
Until then two processes may both believe that they hold the lock. If possible,
stop the holder instead: its lock then expires by itself.

Unlock does not delete the lock of another library (a string with a TTL, see
holdfast show --help), because it may be other data.

Without a terminal, unlock cannot ask. Give --yes, or name the owner that you
have seen with --owner, which is safer.

The exit status is 0 if the lock is free now, even if it was free before. It is
1 if the lock is still held: the answer was no, the holders have changed, or it
is the lock of another library. It is 123 if the server knows no lock of that
name: the name is wrong, or the lock is free. Unlock then suggests similar
names.

` + lsSchema + `

Unlock prints one document on one line:

  {"broken": true, "lock": LOCK}

lock is the state before the command. broken is false if the lock was free or
was not broken. If the server knows no lock of that name, the document has the
field similar: a list of similar names of locks.`,
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
	cmd.Flags().BoolVar(&f.force, "force", false, "required: confirm that the lock may be broken")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	cmd.Flags().StringArrayVar(&f.owners, "owner", nil, "do not ask, and break the lock only if `OWNER` holds it; repeat the flag\nfor several owners")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON, as described above")
	return cmd
}

func (f *unlockFlags) check(a *app) error {
	sure := f.yes || len(f.owners) > 0
	switch {
	case !f.force:
		return usage("a lock is released by its holder, or expires after its holder is gone: add --force to break it anyway")
	case f.json && !sure:
		return usage("--json does not ask for confirmation: add --owner OWNER, as shown by holdfast show, or --yes")
	case !sure && !a.interactive():
		return usage("no terminal to ask for confirmation: add --owner OWNER, as shown by holdfast show, or --yes")
	}
	return nil
}

// interactive reports whether input and output are a terminal.
func (a *app) interactive() bool {
	f, ok := a.in.(*os.File)
	return ok && xterm.IsTerminal(int(f.Fd())) && a.screen().Terminal()
}

func (a *app) unlock(ctx context.Context, i *inspect.Inspector, name string, f unlockFlags) error {
	seen, err := showState(ctx, i, name)
	if err != nil {
		return err
	}
	switch {
	case absentLock(seen):
		similar := similar(ctx, i, name)
		if f.json {
			err = a.printJSON(unlockDocument{Lock: lockjson.Of(seen), Similar: similar})
		}
		return cmp.Or(err, absentError(name, similar))
	case seen.Kind == plainKind:
		return hint(a.notBroken(f, seen, "%s is the lock of another library (a string with a TTL), or other data", lsName(name, 60)),
			"It expires in "+lsDuration(seen.Holders[0].TTL)+" unless it is extended. If its owner is gone, you can delete the key with DEL in redis-cli.")
	case lsFree(seen) && seen.Kind == inspect.Semaphore:
		return a.unlocked(f, seen, false, "No permits of "+lsName(name, 60)+" are taken: nothing to break.")
	case lsFree(seen):
		return a.unlocked(f, seen, false, lsName(name, 60)+" is free: nothing to break.")
	case len(seen.Holders) == 0:
		return a.notBroken(f, seen, "it may be held by %s", unlockOwners(seen))
	}
	if !f.json {
		_, _ = fmt.Fprint(a.out, showText(a.screen(), seen))
	}
	if len(f.owners) > 0 && !unlockSame(seen, f.owners) {
		return a.notBroken(f, seen, "it is held by %s, not by the --owner", unlockOwners(seen))
	}
	if !f.yes && len(f.owners) == 0 {
		yes, err := a.ask(ctx, "Break it? [y/N] ")
		if err != nil {
			return err
		}
		if !yes {
			return a.notBroken(f, seen, "not confirmed")
		}
	}
	broken, err := i.Break(ctx, seen)
	if err != nil {
		return err
	}
	if broken {
		return a.unlocked(f, seen, true, a.screen().Wrap("The lock is broken. "+unlockNotice(seen), ""))
	}
	now, err := showState(ctx, i, name)
	if err != nil {
		return err
	}
	if lsFree(now) {
		return a.unlocked(f, seen, false, "The lock was released in the meantime: nothing to break.")
	}
	return a.notBroken(f, seen, "it is now held by %s", unlockOwners(now))
}

// unlocked prints the result for a lock that is free now.
func (a *app) unlocked(f unlockFlags, seen inspect.Lock, broken bool, text string) error {
	if f.json {
		return a.printJSON(unlockDocument{Broken: broken, Lock: lockjson.Of(seen)})
	}
	_, err := fmt.Fprintln(a.out, text)
	return err
}

// notBroken prints the result for a lock that was not broken, and returns the error.
func (a *app) notBroken(f unlockFlags, seen inspect.Lock, format string, args ...any) error {
	if f.json {
		if err := a.printJSON(unlockDocument{Lock: lockjson.Of(seen)}); err != nil {
			return err
		}
	}
	return &exit{failed, fmt.Errorf("lock not broken: "+format, args...)}
}

// unlockDocument is the JSON output of unlock.
type unlockDocument struct {
	Broken  bool          `json:"broken"`
	Lock    lockjson.Lock `json:"lock"`
	Similar []string      `json:"similar,omitzero"` // nil: the lock exists
}

// unlockNotice says when the holders of a broken lock notice. The ids of permits do not say
// which library has taken them.
func unlockNotice(lock inspect.Lock) string {
	java, unknown := 0, 0
	for _, h := range lock.Holders {
		switch {
		case h.Client == nil:
			unknown++
		case h.Client.Java:
			java++
		}
	}
	const (
		soon  = "notices within Options.RenewEvery, by default 10 seconds, also if the length of its lease is fixed."
		never = "notices only when it releases the lock."
	)
	switch {
	case java == len(lock.Holders):
		return "Its holder is a Redisson client, which " + never
	case java+unknown > 0:
		return "A holder that uses Holdfast " + soon + " A Redisson client " + never
	}
	return "Its holder " + soon
}

// unlockSame reports whether exactly these owners hold the lock.
func unlockSame(lock inspect.Lock, owners []string) bool {
	held := make([]string, len(lock.Holders))
	for i, h := range lock.Holders {
		held[i] = h.Owner
	}
	slices.Sort(held)
	owners = slices.Sorted(slices.Values(owners))
	return lsUnlisted(lock) <= 0 && slices.Equal(slices.Compact(held), slices.Compact(owners))
}

func unlockOwners(lock inspect.Lock) string {
	if len(lock.Holders) == 0 {
		return "owners that were not checked"
	}
	text := term.Quote(lock.Holders[0].Owner, 100)
	if n := len(lock.Holders) - 1; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// ask prints a question and reads the answer. The end of the input means no.
func (a *app) ask(ctx context.Context, question string) (yes bool, err error) {
	_, _ = fmt.Fprint(a.out, question)
	answer := make(chan string, 1)
	go func() {
		line, err := bufio.NewReader(a.in).ReadString('\n')
		if err == io.EOF {
			_, _ = fmt.Fprintln(a.out) // the terminal has not echoed a line break
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
