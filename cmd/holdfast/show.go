package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
	"github.com/holdfast-go/holdfast/inspect"
)

func init() { commands = append(commands, showCommand) }

func showCommand(a *app) *cobra.Command {
	json := false
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show all about one lock",
		Long: `Show prints what the server knows about one lock: everybody who holds it, and
everybody who waits in its queue. It changes nothing.

The exit status is 0 also if the lock is free, which it says; a lock that nobody
has ever used is free. It is 1 if there is something by that name that is not a
lock.

` + lsSchema + `

Show prints one LOCK on one line. One without holders is free, unless more says
that there are others and it has no queue; its kind is mutex if nobody can tell.`,
		Example: `  holdfast show orders
  holdfast show orders --json | jq '.holders | length'`,
		Args:              showName,
		ValidArgsFunction: a.completeLocks,
		RunE: interruptible(func(ctx context.Context, args []string) error {
			client, err := a.target.open(ctx, holdfast.Options{})
			if err != nil {
				return err
			}
			defer client.Close()
			lock, err := showLook(ctx, inspect.New(client.Driver()), args[0])
			if err != nil {
				return err
			}
			if json {
				return a.printJSON(lsLockOf(lock))
			}
			_, err = fmt.Fprint(a.out, showText(a.screen(), lock))
			return err
		}),
	}
	cmd.Flags().BoolVar(&json, "json", false, "print JSON, as described above")
	return cmd
}

// showName is for commands whose argument is the name of a lock.
func showName(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return usage("%s needs the name of a lock; holdfast ls lists those that are held", cmd.CommandPath())
	case len(args) > 1:
		return usage("%s takes one name, but there is also %s", cmd.CommandPath(), term.Quote(args[1], 40))
	}
	return nil
}

// showLook looks at one lock.
func showLook(ctx context.Context, i *inspect.Inspector, name string) (inspect.Lock, error) {
	lock, err := i.Lock(ctx, name)
	if errors.Is(err, inspect.ErrNotLock) {
		return lock, &exit{failed, fmt.Errorf("%s is not a lock: something else is stored there by that name", lsName(name, 60))}
	}
	if err == nil {
		lsSorted([]inspect.Lock{lock})
	}
	return lock, err
}

// showWidest is how many columns of a text from a stranger are shown, which is
// more than any name of Holdfast's has.
const showWidest = 4096

// showText returns all about a lock in lines.
func showText(s *term.Screen, lock inspect.Lock) string {
	var b strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "  %-9s %s\n", label, fmt.Sprintf(format, args...))
	}
	b.WriteString(s.Paint(term.Bold, lsName(lock.Name, showWidest)) + "\n")
	if len(lock.Holders) > 0 || lock.Kind != inspect.Mutex { // of a free one nobody can tell
		line("kind", "%s", lock.Kind)
	}
	switch {
	case lsFree(lock):
		line("held by", "nobody: it is free")
		if strings.ContainsAny(lock.Name, "*?[") {
			line("", "(show takes a name; patterns are for holdfast ls)")
		}
	case len(lock.Holders) == 0:
		line("held by", "none of those that were looked at")
	}
	for i, h := range lock.Holders {
		line(first(i, "held by"), "%s", term.Quote(h.Owner, showWidest))
		line("", "%s, %s, %s", h.Mode, plural(h.Holds, "hold"), s.Paint(lsUrgency(h.TTL), showExpiry(h)))
	}
	for i, owner := range lock.Queue {
		line(first(i, "queue"), "%d. %s", i+1, term.Quote(owner, showWidest))
	}
	switch {
	case len(lock.Queue) > 0: // which says more
	case lock.Clients < 0:
		line("waiting", "the server does not tell")
	case lock.Clients > 0:
		line("waiting", "%s, for one goroutine or more each", plural(lock.Clients, "client"))
	}
	if lock.Token != 0 {
		line("token", "%d", lock.Token)
	}
	if lock.Leader != "" {
		line("leader", "%s", term.Quote(lock.Leader, showWidest))
	}
	if lock.More > 0 {
		line("more", "%d holders and waiters that are not listed", lock.More)
	}
	return b.String()
}

// first returns a label for the first of several lines.
func first(i int, label string) string {
	if i == 0 {
		return label
	}
	return ""
}

func showExpiry(h inspect.Holder) string {
	if h.TTL < 0 {
		return "never expires"
	}
	return "expires in " + lsDuration(h.TTL)
}
