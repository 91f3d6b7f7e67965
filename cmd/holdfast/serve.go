package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/server"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
)

func init() { commands = append(commands, serveCommand) }

func serveCommand(a *app) *cobra.Command {
	mode, addr := server.Auto, ""
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Start a server to try things out",
		Long: `Serve starts a server and keeps it until Ctrl-C: the redis-server or
valkey-server on the PATH (--server real), or one inside this process
(embedded); auto takes the latter where there is no other. Its URL goes to
standard output, all else to standard error.

The server asks for no password. It therefore listens on loopback only, and
never where another program listens already. It keeps nothing on disk: when it
ends, all locks are forgotten.

The embedded server is miniredis, which is good enough for the demo and for
trying things out. It does a few thousand operations a second, and it has no
rate limiters, no Object.Listen, no users, no replicas and no settings. Leases
there should not be shorter than half a second.`,
		Example: `  holdfast serve
  holdfast serve --addr 127.0.0.1:0                        # any free port
  holdfast serve --server embedded --addr 127.0.0.1:7000`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: interruptible(func(ctx context.Context, _ []string) error {
			if a.target.url != "" || a.target.config != "" {
				return usage("serve starts a server of its own: leave --url and --config out, or choose where it listens with --addr")
			}
			addr, err := serveLoopback(addr)
			if err != nil {
				return err
			}
			return a.serve(ctx, mode, addr)
		}),
	}
	serverFlag(cmd, &mode, "which server to start")
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:6379", "where it listens, on loopback; port 0 is any that is free")
	_ = cmd.RegisterFlagCompletionFunc("addr", cobra.NoFileCompletions)
	return cmd
}

// serve runs a server until ctx ends, or the server does.
func (a *app) serve(ctx context.Context, mode server.Mode, addr string) error {
	s, err := server.Start(ctx, mode, addr)
	switch {
	case errors.Is(err, server.ErrTaken):
		return hint(err, "If that is a server, use it with --url redis://"+addr+". To start another, choose its port: --addr 127.0.0.1:0 takes any that is free.")
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	defer s.Stop()
	fmt.Fprintln(a.out, s.URL)
	notices := a.notices()
	fmt.Fprintf(notices, "%s listens. Ctrl-C ends it, and it forgets everything then.\nIn another terminal: export HOLDFAST_URL=%s\n", s.What, s.URL)
	if s.Embedded {
		fmt.Fprintln(notices, notices.Paint(term.Yellow, "This is an "+server.Limits+"."))
	}
	select {
	case <-ctx.Done():
		return nil
	case <-s.Ended:
		return hint(fmt.Errorf("%s has ended by itself%s", s.What, s.LastWords()), "Whatever was locked there is forgotten. Start it again with holdfast serve.")
	}
}

// serveLoopback returns the address if it is one of this machine alone.
func serveLoopback(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 0 || n > 65535 {
		return "", usage("--addr is %s, but must be a host and a port, such as 127.0.0.1:6379", term.Quote(addr, 40))
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return "", usage("--addr is %s, where others could reach a server that asks for no password: use 127.0.0.1", term.Quote(addr, 40))
	}
	return net.JoinHostPort(host, port), nil
}

// serverFlag is the flag of commands that can start a server.
func serverFlag(cmd *cobra.Command, mode *server.Mode, help string) {
	cmd.Flags().Var(mode, "server", help)
	_ = cmd.RegisterFlagCompletionFunc("server", cobra.FixedCompletions(server.Modes, cobra.ShellCompDirectiveNoFileComp))
}
