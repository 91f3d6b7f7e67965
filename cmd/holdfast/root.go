package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
)

// streams are what connects the command with its user.
type streams struct {
	in       io.Reader
	out, err io.Writer
	env      func(string) string
}

// app is what all commands share: the user, and the flags before them.
type app struct {
	streams
	target target
}

// screen is where results go, notices where the rest goes.
func (a *app) screen() *term.Screen  { return term.New(a.out, a.env) }
func (a *app) notices() *term.Screen { return term.New(a.err, a.env) }

// run runs the command and returns its exit status.
func run(ctx context.Context, args []string, s streams) (status int) {
	a := &app{streams: s}
	root := newRoot(a)
	defer func() {
		if r := recover(); r != nil {
			status = a.report(root, hint(fmt.Errorf("this is a bug in holdfast: %v", r), "Please report it, with what you have typed and holdfast --version."))
		}
	}()
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	return a.report(root.ExecuteContextC(ctx))
}

// commands are the commands. Each adds itself in its own file.
var commands []func(*app) *cobra.Command

// groups are how --help shows them, in this order.
var groups = []struct {
	title    string
	commands []string
}{
	{"See it work:", []string{"demo", "serve", "bench"}},
	{"Use it:", []string{"run"}},
	{"Look after it:", []string{"ls", "show", "watch", "unlock", "doctor"}},
	{"This command:", nil}, // help and completion
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Distributed locks on Redis and Valkey: see them work, look after them",
		Long: `Holdfast is a library of distributed locks on Redis and Valkey. This command
shows them at work, runs programs under a lock, and looks after the locks on a
server.

Exit status: 0 all is well, 1 something bad was found or went wrong, 2 wrong
flags or arguments (nothing was done), 120 somebody else has the lock, 121 the
lock was lost, 122 the server does not answer or refuses, 130 Ctrl-C.`,
		Example: `  holdfast demo                         # see why a shop needs a lock
  holdfast run nightly -- ./backup.sh   # one at a time, on all machines
  holdfast ls                           # what is locked, and by whom`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("url") && a.target.url == "" { // as by a variable that is not set
				return usage("--url is empty: name a server, or leave it out")
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
			return noCommand(root, args[0]) // whose flag it is, nobody knows
		}
		return hint(usage("%w", err), cmd.CommandPath()+" --help lists its flags.")
	})
	a.target.flags(root.PersistentFlags(), a.streams)
	_ = root.RegisterFlagCompletionFunc("url", cobra.NoFileCompletions)
	root.SuggestionsMinimumDistance = 2
	root.SetHelpCommand(helpCommand(root))
	addCommands(a, root)
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" { // cobra's own shows its help, with a status of success
			cmd.Args = cobra.ArbitraryArgs
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				if len(args) > 0 {
					return usage("there is no completion for %s: choose bash, zsh, fish or powershell", shown(args[0]))
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
		root.SetHelpCommandGroupID(g.title) // the last one is that of help and completion
		root.SetCompletionCommandGroupID(g.title)
	}
	for _, cmd := range byName { // those that nobody types
		root.AddCommand(cmd)
	}
}

// helpCommand is cobra's, but fails where there is nothing to help with.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:               "help [COMMAND]",
		Short:             "Show the help of a command",
		Long:              "Help shows the help of a command, as holdfast COMMAND --help does.",
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

// noCommand is the error of a command that does not exist.
func noCommand(root *cobra.Command, name string) error {
	err := usage("there is no command %s", shown(name))
	if name == "lock" {
		return hint(err, "To run a program under a lock: holdfast run NAME -- PROGRAM")
	}
	if like := root.SuggestionsFor(name); len(like) > 0 {
		return hint(err, "Did you mean "+strings.Join(like, " or ")+"?")
	}
	return hint(err, "holdfast --help lists the commands.")
}

// noArguments is for commands that take none; cobra's own text does not say
// what to do.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes no argument, but there is %s", cmd.CommandPath(), shown(args[0]))
	}
	return nil
}

// shown is an argument as messages show it: shortened, harmless, and without
// the password if it is a URL in the wrong place.
func shown(arg string) string {
	if strings.Contains(arg, "://") {
		return "a URL (give it with --url)"
	}
	return term.Quote(arg, 40)
}

// interruptible gives a command a context that ends with Ctrl-C, a hang-up or
// SIGTERM. A second Ctrl-C ends the process.
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

// version is what `go install` or the build has written into the binary: the
// version of a release, or that of a revision, which contains its hash.
func version() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := b.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel, revision not recorded: go run leaves it out, go build -buildvcs=true records it"
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" {
				v = "devel " + s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return fmt.Sprintf("%s (%s)", v, strings.TrimSpace(b.GoVersion))
}
