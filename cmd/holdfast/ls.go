package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/lockjson"
)

func init() { commands = append(commands, lsCommand) }

func lsCommand(a *app) *cobra.Command {
	var q lsQuery
	cmd := &cobra.Command{
		Use:   "ls [PATTERN]",
		Short: "List locks, their holders and their waiters",
		Long: `Ls lists the held locks of Holdfast and Redisson, and free locks with clients in
the queue. For each lock it shows the kind, the holders, when each hold expires
unless it is renewed, and how many wait. If a holder has entered its lock more
than once, a column shows how often. Show and --json also list the waiters.
Below the locks, ls lists deadlocks that clients of Holdfast have found,
whatever the pattern.

Other libraries, such as redsync and redislock, write a lock as a string with a
TTL (SET NX PX). Any other data that expires looks the same, so ls lists such
strings only with --plain; give a pattern to leave other data out. Holdfast run
and the mutexes of Holdfast wait for them. Ls does not read their values.

` + lsPatterns + `

Ls reads the keys with SCAN, a few hundred at a time, and so does not block
other clients. --limit, --keys and --pause bound the work. If the list is
incomplete, ls says so. Ls changes nothing. It escapes names that could harm the
terminal and shortens long ones; --json prints them in full. Locks with names
of more than 1024 bytes are not listed.

` + lsSchema + `

Ls prints one document on one line:

  {"locks": [LOCK, ...], "deadlocks": [DEADLOCK, ...], "complete": true}

complete is false if --limit or --keys ended the list early. Without deadlocks,
that field is absent. A DEADLOCK has id, found (when it was last confirmed) and
calls. Each call waits for a lock that
the next one holds, and the last one for a lock that the first one holds. A call
has client (its id), who (in words), since (when it began to wait), holds and
wants: lists of locks with kind and name, and for holds also owner and wanted
(the call before waits for it).`,
		Example: `  holdfast ls
  holdfast ls 'orders:*'
  holdfast ls --json | jq -r '.locks[] | select(.kind == "election") | .name'`,
		Args:              q.arguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: interruptible(func(ctx context.Context, _ []string) error {
			client, err := a.target.open(ctx, holdfast.Options{AllowReplica: true})
			if err != nil {
				return err
			}
			defer client.Close()
			i := inspect.New(client.Driver())
			locks, complete, err := q.run(ctx, i)
			if err != nil {
				return err
			}
			deadlocks := q.deadlocks(ctx, i)
			if q.json {
				return a.printJSON(lsDocument{Locks: lsLocks(locks), Deadlocks: lockjson.Deadlocks(deadlocks), Complete: complete})
			}
			if len(locks) > 0 {
				_, err = io.WriteString(a.out, lsTable(locks, nil).Text(a.screen()))
			} else {
				_, _ = fmt.Fprintln(a.notices(), q.nothing())
				if !q.plain {
					_, _ = fmt.Fprintln(a.notices(), "To list also locks of other libraries, add --plain.")
				}
			}
			if err == nil {
				_, err = io.WriteString(a.out, lsDeadlockText(a.screen(), deadlocks, time.Now()))
			}
			if !complete {
				_, _ = fmt.Fprintln(a.notices(), q.incomplete(len(locks)))
			}
			return err
		}),
	}
	q.flags(cmd.Flags())
	return cmd
}

// lsPatterns is the help text about patterns.
const lsPatterns = `In PATTERN, * matches any text, ? one character, and [ab] one of the listed
characters. A backslash escapes the next character. Quote PATTERN for the shell.`

// lsDocument is what ls prints for machines.
type lsDocument struct {
	Locks     []lockjson.Lock     `json:"locks"`
	Deadlocks []lockjson.Deadlock `json:"deadlocks,omitempty"`
	Complete  bool                `json:"complete"`
}

// An lsQuery is what to list, as the user has put it.
type lsQuery struct {
	inspect.Query
	json, plain bool
}

func (q *lsQuery) flags(f *pflag.FlagSet) {
	f.IntVar(&q.Limit, "limit", 1000, "how many locks to list at most")
	f.IntVar(&q.Keys, "keys", 1_000_000, "how many keys of the server to look at, at most")
	f.DurationVar(&q.Pause, "pause", 0, "how long to wait after every few hundred keys")
	f.BoolVar(&q.plain, "plain", false, "also list strings with a TTL, which may be locks of other libraries")
	f.BoolVar(&q.json, "json", false, "print JSON, as described above")
}

// arguments stores the pattern and checks the flags.
func (q *lsQuery) arguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 1:
		return usage("%s takes one pattern, got also %s: quote patterns for the shell, as in '*'", cmd.CommandPath(), term.Quote(args[1], 40))
	case q.Limit < 1:
		return usage("--limit is %d: it must be 1 or more", q.Limit)
	case q.Keys < 1:
		return usage("--keys is %d: it must be 1 or more", q.Keys)
	case q.Pause < 0:
		return usage("--pause is %v: it must not be negative", q.Pause)
	case len(args) == 1:
		q.Match = args[0]
	}
	return nil
}

// run returns the locks sorted by name. complete is false if there may be more.
func (q *lsQuery) run(ctx context.Context, i *inspect.Inspector) (locks []inspect.Lock, complete bool, err error) {
	locks, complete, err = lsCollect(i.Locks(ctx, q.Query))
	if err != nil || !q.plain {
		return lsSorted(locks), complete, err
	}
	plain, all, err := lsCollect(i.PlainLocks(ctx, q.Query))
	for _, p := range plain[:min(len(plain), max(q.Limit-len(locks), 0))] {
		locks = append(locks, plainLock(p))
		plain = plain[1:]
	}
	return lsSorted(locks), complete && all && len(plain) == 0, err
}

// lsCollect returns the items of a list. complete is false if there may be more.
func lsCollect[T any](list iter.Seq2[T, error]) (items []T, complete bool, err error) {
	for item, err := range list {
		switch {
		case errors.Is(err, inspect.ErrMore):
			return items, false, nil
		case err != nil:
			return nil, false, err
		}
		items = append(items, item)
	}
	return items, true, nil
}

func lsSorted(locks []inspect.Lock) []inspect.Lock {
	slices.SortFunc(locks, func(a, b inspect.Lock) int { return strings.Compare(a.Name, b.Name) })
	for _, lock := range locks {
		slices.SortFunc(lock.Holders, func(a, b inspect.Holder) int { return strings.Compare(a.Owner, b.Owner) })
	}
	return locks
}

func (q *lsQuery) nothing() string {
	if q.Match == "" {
		return "No locks are held."
	}
	return "No locks are held that match " + term.Quote(q.Match, 60) + "."
}

// incomplete returns a message that says why the list may be incomplete.
func (q *lsQuery) incomplete(listed int) string {
	if listed >= q.Limit {
		return fmt.Sprintf("There may be more: ls stopped after %d locks. Raise --limit or give a pattern.", listed)
	}
	return fmt.Sprintf("There may be more: ls stopped after %d keys. Raise --keys, or give a pattern if the list is too long.", q.Keys)
}

// completeLocks returns lock names for shell completion. On an error it returns
// none: a message would disturb the line that the user is typing.
func (a *app) completeLocks(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
	defer cancel()
	client, err := a.target.open(ctx, holdfast.Options{AllowReplica: true})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer client.Close()
	q := lsQuery{Query: inspect.Query{Match: globEscaper.Replace(typed) + "*", Limit: 100, Keys: 50_000}}
	locks, _, err := q.run(ctx, inspect.New(client.Driver()))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for _, lock := range locks {
		if term.Quote(lock.Name, len(lock.Name)) == lock.Name { // other names cannot be typed
			names = append(names, cobra.CompletionWithDesc(lock.Name, string(lock.Kind)))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
