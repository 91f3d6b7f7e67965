package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
	"github.com/holdfast-go/holdfast/inspect"
)

func init() { commands = append(commands, lsCommand) }

func lsCommand(a *app) *cobra.Command {
	var q lsQuery
	cmd := &cobra.Command{
		Use:   "ls [PATTERN]",
		Short: "List what is locked, by whom, and who waits",
		Long: `Ls lists the locks that are held, of Holdfast and of Redisson: their kind, who
holds them, how often that one has entered, when the hold ends if it is not
renewed, and who waits.

` + lsPatterns + `

The server is asked with SCAN, a few hundred keys at a time, which does not hold
up others; --limit, --keys and --pause bound the work. If the list is not
complete, ls says so. It changes nothing. Names are shown such that they do no
harm; with --json they are complete.

` + lsSchema + `

Ls prints one document on one line:

  {"locks": [LOCK, ...], "complete": true}

complete is false if --limit or --keys has ended the list.`,
		Example: `  holdfast ls
  holdfast ls 'orders:*'
  holdfast ls --json | jq -r '.locks[] | select(.kind == "rw") | .name'`,
		Args:              q.arguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: interruptible(func(ctx context.Context, _ []string) error {
			client, err := a.target.open(ctx, holdfast.Options{})
			if err != nil {
				return err
			}
			defer client.Close()
			locks, complete, err := q.run(ctx, inspect.New(client.Driver()))
			if err != nil {
				return err
			}
			if q.json {
				return a.printJSON(lsDocument{Locks: lsLocks(locks), Complete: complete})
			}
			if len(locks) > 0 {
				_, err = io.WriteString(a.out, lsTable(locks, nil).Text(a.screen()))
			} else {
				_, _ = fmt.Fprintln(a.notices(), q.nothing())
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

// lsPatterns is the part of the help about patterns.
const lsPatterns = `PATTERN is a name in which * stands for anything, ? for one character and [ab]
for one of these; a backslash takes that meaning away. Quote it for the shell.`

// lsDocument is what ls prints for machines.
type lsDocument struct {
	Locks    []lsLock `json:"locks"`
	Complete bool     `json:"complete"`
}

// An lsQuery is what to list, as the user has put it.
type lsQuery struct {
	inspect.Query
	json bool
}

func (q *lsQuery) flags(f *pflag.FlagSet) {
	f.IntVar(&q.Limit, "limit", 1000, "how many locks to list at most")
	f.IntVar(&q.Keys, "keys", 1_000_000, "how many keys of the server to look at, at most")
	f.DurationVar(&q.Pause, "pause", 0, "how long to wait after every few hundred keys")
	f.BoolVar(&q.json, "json", false, "print JSON, as described above")
}

// arguments takes the pattern, and checks the flags.
func (q *lsQuery) arguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 1:
		return usage("%s takes one pattern, but there is also %s: quote patterns for the shell, as in '*'", cmd.CommandPath(), term.Quote(args[1], 40))
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

// run lists the locks by name, and tells whether these are all.
func (q *lsQuery) run(ctx context.Context, i *inspect.Inspector) (locks []inspect.Lock, complete bool, err error) {
	for lock, err := range i.Locks(ctx, q.Query) {
		switch {
		case errors.Is(err, inspect.ErrMore):
			return lsSorted(locks), false, nil
		case err != nil:
			return nil, false, err
		}
		locks = append(locks, lock)
	}
	return lsSorted(locks), true, nil
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
		return "Nothing is locked."
	}
	return "Nothing is locked by a name like " + term.Quote(q.Match, 60) + "."
}

// incomplete says why there may be more than those listed.
func (q *lsQuery) incomplete(listed int) string {
	if listed >= q.Limit {
		return fmt.Sprintf("There may be more: these are the first %d that were found. Ask for more with --limit, or for fewer with a pattern.", listed)
	}
	return fmt.Sprintf("There may be more: %d keys of the server were looked at. Look at more with --keys.", q.Keys)
}

// completeLocks offers the names of locks to the shell. It says nothing if it
// cannot, since the user is in the middle of a line.
func (a *app) completeLocks(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
	defer cancel()
	client, err := a.target.open(ctx, holdfast.Options{})
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
		if term.Quote(lock.Name, len(lock.Name)) == lock.Name { // others cannot be typed
			names = append(names, cobra.CompletionWithDesc(lock.Name, string(lock.Kind)))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
