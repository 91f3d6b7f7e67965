package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/lockjson"
)

func init() { commands = append(commands, showCommand) }

func showCommand(a *app) *cobra.Command {
	json := false
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show the holders and waiters of a lock",
		Long: `Show prints the state of one lock on the server: all holders, and all waiters in
its queue, each with its place. Of a process, only the first waiter is in the
queue; other goroutines that wait there are not known to the server. It changes
nothing.

The exit status is 0 even if the lock is free, if the server has data of it: a
queue, or the counter of a fenced mutex. It is 123 if the server knows no lock
of that name: the name is wrong, or the lock is free. Show then suggests similar
names. The exit status is 1 if the key of that name is not a lock. A semaphore
without taken permits is shown only if clients wait in its queue.

A string with a TTL is shown as held by another library: redsync, redislock and
others write their locks so, with SET NX PX, and holdfast run waits for them. It
may also be other data that expires. Show does not read its value.

` + lsSchema + `

Show prints one LOCK on one line. A LOCK without holders is free, unless more
counts holders: more is above queued less the length of queue. The kind of a
free lock is mutex if it is unknown. If the server knows no lock of that name,
the LOCK has the field similar: a list of similar names of locks.`,
		Example: `  holdfast show orders
  holdfast show orders --json | jq '.holders | length'`,
		Args:              showName,
		ValidArgsFunction: a.completeLocks,
		RunE: interruptible(func(ctx context.Context, args []string) error {
			client, err := a.target.open(ctx, holdfast.Options{AllowReplica: true})
			if err != nil {
				return err
			}
			defer client.Close()
			i := inspect.New(client.Driver())
			lock, err := showState(ctx, i, args[0])
			if err != nil {
				return err
			}
			if absentLock(lock) {
				similar := similar(ctx, i, lock.Name)
				if json {
					err = a.printJSON(showDocument{lockjson.Of(lock), similar})
				}
				return cmp.Or(err, absentError(lock.Name, similar))
			}
			if json {
				return a.printJSON(showDocument{Lock: lockjson.Of(lock)})
			}
			_, err = fmt.Fprint(a.out, showText(a.screen(), lock))
			return err
		}),
	}
	cmd.Flags().BoolVar(&json, "json", false, "print JSON, as described above")
	return cmd
}

// showDocument is the JSON output of show.
type showDocument struct {
	lockjson.Lock
	Similar []string `json:"similar,omitzero"` // nil: the lock exists
}

// showName checks the arguments of a command that takes the name of a lock.
func showName(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return usage("%s needs the name of a lock: holdfast ls lists the held locks", cmd.CommandPath())
	case len(args) > 1:
		return usage("%s takes one name, got also %s", cmd.CommandPath(), term.Quote(args[1], 40))
	}
	return nil
}

// showState reads the state of one lock.
func showState(ctx context.Context, i *inspect.Inspector, name string) (inspect.Lock, error) {
	lock, err := i.Lock(ctx, name)
	if errors.Is(err, inspect.ErrNotLock) {
		if p, err := i.PlainLock(ctx, name); err == nil {
			return plainLock(p), nil
		}
		return lock, &exit{failed, fmt.Errorf("%s is not a lock: the key of that name holds something else", lsName(name, 60))}
	}
	if err == nil {
		lsSorted([]inspect.Lock{lock})
	}
	return lock, err
}

// showMaxWidth is the maximum width of a text from the server. Names of Holdfast
// are shorter.
const showMaxWidth = 4096

// showIndent is the width of the labels.
const showIndent = 12

// showText formats the state of a lock, one fact per line.
func showText(s *term.Screen, lock inspect.Lock) string {
	var b strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "  %-*s%s\n", showIndent-2, label, fmt.Sprintf(format, args...))
	}
	b.WriteString(s.Paint(term.Bold, lsName(lock.Name, showMaxWidth)) + "\n")
	if len(lock.Holders) > 0 || lock.Kind != inspect.Mutex { // the kind of a free lock may be unknown
		line("kind", "%s", lock.Kind)
	}
	switch {
	case lsFree(lock) && lock.Kind == inspect.Semaphore:
		line("held by", "none (no permits are taken)")
	case lsFree(lock):
		line("held by", "none (the lock is free)")
	case len(lock.Holders) == 0:
		line("held by", "unknown: the readers that were checked have expired")
	}
	if lock.Kind == plainKind {
		line("held by", "another library, unless it is other data")
		line("", "a string with a TTL, as SET NX PX writes it, %s", showExpiry(lock.Holders[0]))
		return s.Wrap(b.String(), strings.Repeat(" ", showIndent))
	}
	for i, h := range lock.Holders {
		line(first(i, "held by"), "%s", term.Quote(h.Owner, showMaxWidth))
		if about := showClient(h.Client); about != "" {
			line("", "%s", about)
		}
		line("", "%s, %s, %s", h.Mode, plural(h.Holds, "hold"), s.Paint(lsExpiryStyle(h.TTL), showExpiry(h)))
	}
	for i, w := range lock.Queue {
		owner, about := fmt.Sprintf("%d. %s", w.Place, term.Quote(w.Owner, showMaxWidth)), showWaiter(lock, w)
		switch width, _ := s.Size(); {
		case about == "":
			line(first(i, "queue"), "%s", owner)
		case s.Terminal() && showIndent+term.Width(owner+", "+about) > width:
			line(first(i, "queue"), "%s", owner)
			line("", "   %s", about)
		default:
			line(first(i, "queue"), "%s, %s", owner, about)
		}
	}
	if lock.Queued < 0 {
		line("queue", "unknown (it could not be read)")
	}
	switch {
	case len(lock.Queue) > 0 && lock.Clients <= lsQueued(lock): // the queue is already shown
	case len(lock.Queue) > 0:
		line("waiting", "%s, in the queue or not", plural(lock.Clients, "client"))
	case lock.Clients < 0:
		line("waiting", "unknown")
	case lock.Clients > 0:
		line("waiting", "%s, each with one or more goroutines", plural(lock.Clients, "client"))
	}
	if lock.Token != 0 {
		line("token", "%d", lock.Token)
	}
	if lock.Leader != "" {
		line("leader", "%s", term.Quote(lock.Leader, showMaxWidth))
	}
	if lock.More > 0 {
		line("more", "%d holders and waiters not listed", lock.More)
	}
	return s.Wrap(b.String(), strings.Repeat(" ", showIndent))
}

// first returns the label for line 0, and "" for the following lines.
func first(i int, label string) string {
	if i == 0 {
		return label
	}
	return ""
}

// showWaiter returns what to add to the owner of a waiter: the kind that it waits
// for, if that is not the kind of the lock, how many permits it wants, and how long
// it has waited.
func showWaiter(lock inspect.Lock, w inspect.Waiter) string {
	var about []string
	switch election := w.Kind == inspect.Fenced && lock.Kind == inspect.Election; {
	case w.Kind == "":
		about = append(about, "not a valid entry")
	case w.Kind == inspect.RW:
		about = append(about, "to write")
	case w.Kind == inspect.Semaphore:
		about = append(about, "wants "+plural(w.Permits, "permit"))
	case w.Kind != lock.Kind && !election:
		about = append(about, "kind "+string(w.Kind))
	}
	if w.Client.Known() {
		about = append(about, term.Quote(w.Client.String(), showMaxWidth))
	}
	if w.Waited >= 0 {
		about = append(about, "waiting for "+lsDuration(w.Waited))
	}
	return strings.Join(about, ", ")
}

// showClient returns what is known about the client of a holder.
func showClient(c *inspect.Client) string {
	switch {
	case c == nil:
		return ""
	case c.Java:
		return "a thread of a Redisson client"
	case !c.Known():
		return ""
	}
	words := []string{c.String()}
	if c.Pod != "" {
		words = append(words, "on "+c.Host)
	}
	if program := strings.TrimSpace(c.Program + " " + c.Version); program != "" {
		words = append(words, program)
	}
	words = append(words, c.Library)
	return term.Quote(strings.Join(words, ", "), showMaxWidth)
}

func showExpiry(h inspect.Holder) string {
	if h.TTL < 0 {
		return "never expires"
	}
	return "expires in " + lsDuration(h.TTL)
}
