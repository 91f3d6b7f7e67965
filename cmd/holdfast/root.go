package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
)

// streams are the standard streams and the environment of the command.
type streams struct {
	in       io.Reader
	out, err io.Writer
	env      func(string) string
}

// app is the state that all commands share: the streams and the global flags.
type app struct {
	streams
	target target
}

// screen returns the output for results, notices the output for messages.
func (a *app) screen() *term.Screen  { return term.New(a.out, a.env) }
func (a *app) notices() *term.Screen { return term.New(a.err, a.env) }

// run runs the command and returns its exit status.
func run(ctx context.Context, args []string, s streams) (status int) {
	a := &app{streams: s}
	root := newRoot(a)
	defer func() {
		if r := recover(); r != nil {
			status = a.report(root, hint(fmt.Errorf("bug in holdfast: %v", r), "Please report it with the command line and the output of holdfast --version."))
		}
	}()
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	return a.report(root.ExecuteContextC(ctx))
}

// commands holds the constructors of the commands. Each command registers
// itself in its own file.
var commands []func(*app) *cobra.Command

// groups lists the commands by group, in the order of --help.
var groups = []struct {
	title    string
	commands []string
}{
	{"Try Holdfast:", []string{"demo", "serve", "bench"}},
	{"Run programs:", []string{"run"}},
	{"Inspect and manage locks:", []string{"ls", "show", "watch", "dashboard", "unlock", "doctor"}},
	{"Other commands:", nil}, // help and completion
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Distributed locks on Redis and Valkey",
		Long: `Holdfast is a Go library for distributed locks on Redis and Valkey. This command
demonstrates the locks, runs programs under a lock, and inspects and manages the
locks on a server.

Exit status: 0 success, 1 a problem was found or the command failed, 2 wrong
flags or arguments (nothing was done), 120 another owner holds the lock, 121 the
lock was lost, 122 the server does not answer or rejects the request, 123 there
is no lock of that name, 130 Ctrl-C.`,
		Example: `  holdfast demo                         # compare a sale with and without locks
  holdfast run nightly -- ./backup.sh   # run one at a time on all machines
  holdfast ls                           # list locks and their holders`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("url") && a.target.url == "" { // such as --url "$UNSET"
				return usage("--url is empty: give a server URL or omit the flag")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return noCommand(cmd, args[0])
		},
	}
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 80"))
	root.SetVersionTemplate("holdfast {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if args := cmd.Flags().Args(); cmd == root && len(args) > 0 {
			return noCommand(root, args[0]) // the flag belongs to an unknown command
		}
		return hint(usage("%w", err), "Run "+cmd.CommandPath()+" --help to list its flags.")
	})
	a.target.flags(root.PersistentFlags(), a.streams)
	_ = root.RegisterFlagCompletionFunc("url", cobra.NoFileCompletions)
	root.SuggestionsMinimumDistance = 2
	root.SetHelpCommand(helpCommand(root))
	addCommands(a, root)
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" { // by default, cobra prints the help and reports success
			cmd.Args = cobra.ArbitraryArgs
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				if len(args) > 0 {
					return usage("no completion for %s: choose bash, zsh, fish or powershell", shown(args[0]))
				}
				return cmd.Help()
			}
		}
	}
	return root
}

// addCommands adds all commands, in the order of the groups.
func addCommands(a *app, root *cobra.Command) {
	cobra.EnableCommandSorting = false
	byName := make(map[string]*cobra.Command)
	for _, add := range commands {
		cmd := add(a)
		byName[cmd.Name()] = cmd
	}
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, name := range g.commands {
			if cmd := byName[name]; cmd != nil {
				cmd.GroupID = g.title
				root.AddCommand(cmd)
				delete(byName, name)
			}
		}
		root.SetHelpCommandGroupID(g.title) // help and completion end up in the last group
		root.SetCompletionCommandGroupID(g.title)
	}
	for _, cmd := range byName { // the hidden commands
		root.AddCommand(cmd)
	}
}

// helpCommand is like cobra's help command, but fails for an unknown command.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:               "help [COMMAND]",
		Short:             "Show the help of a command",
		Long:              "Help shows the help of a command, like holdfast COMMAND --help.",
		Example:           "  holdfast help run",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return noCommand(root, args[0])
			}
			cmd.InitDefaultHelpFlag()
			cmd.InitDefaultVersionFlag()
			return cmd.Help()
		},
	}
}

// noCommand returns the error for a command that does not exist.
func noCommand(root *cobra.Command, name string) error {
	err := usage("unknown command: %s", shown(name))
	if name == "lock" {
		return hint(err, "To run a program under a lock, use holdfast run NAME -- PROGRAM")
	}
	if like := root.SuggestionsFor(name); len(like) > 0 {
		return hint(err, "Did you mean "+strings.Join(like, " or ")+"?")
	}
	return hint(err, "Run holdfast --help to list the commands.")
}

// noArguments checks the arguments of a command that takes none. Its error is
// clearer than that of cobra.NoArgs.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes no arguments, got %s", cmd.CommandPath(), shown(args[0]))
	}
	return nil
}

// shown returns an argument for a message: shortened and escaped. It hides a URL,
// which may contain a password.
func shown(arg string) string {
	if strings.Contains(arg, "://") {
		return "a URL (use --url for it)"
	}
	return term.Quote(arg, 40)
}

// interruptible runs a command with a context that SIGINT, SIGHUP and SIGTERM
// cancel. A second signal ends the process.
func interruptible(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		context.AfterFunc(ctx, stop)
		err := f(ctx, args)
		if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return &exit{interrupted, nil}
		}
		return err
	}
}
