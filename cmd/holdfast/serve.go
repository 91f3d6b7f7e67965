package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
		Short: "Start a server for trying things out",
		Long: `Serve starts a server and runs it until Ctrl-C. With --server real it starts the
redis-server or valkey-server on the PATH, with --server embedded a server
inside this process. The default, auto, uses the embedded server if the PATH has
no other. Serve prints the URL to standard output and messages to standard
error.

The server requires no password, so it listens on loopback only. Serve fails if
the port is in use. The server stores nothing on disk: all locks are lost when
it stops.

The embedded server runs the same scripts as Redis, for all kinds of locks and
synchronizers. It is good enough for the demo and for trying things out. It
handles a few thousand operations per second, and has no users, no replicas and
no settings. It closes the connection of a client that sends an HTTP request,
and ends a script that takes too much time or memory.`,
		Example: `  holdfast serve
  holdfast serve --addr 127.0.0.1:0                        # any free port
  holdfast serve --server embedded --addr 127.0.0.1:7000`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: interruptible(func(ctx context.Context, _ []string) error {
			if a.target.url != "" || a.target.config != "" {
				return usage("serve starts its own server: omit --url and --config, or set the address with --addr")
			}
			addr, err := serveLoopback(addr)
			if err != nil {
				return err
			}
			return a.serve(ctx, mode, addr)
		}),
	}
	serverFlag(cmd, &mode, "server to start")
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:6379", "loopback address to listen on; port 0 takes a free port")
	_ = cmd.RegisterFlagCompletionFunc("addr", cobra.NoFileCompletions)
	return cmd
}

// serve runs a server until ctx is done or the server ends.
func (a *app) serve(ctx context.Context, mode server.Mode, addr string) error {
	s, err := server.Start(ctx, mode, addr)
	switch {
	case errors.Is(err, server.ErrTaken):
		return hint(err, "If that is a Redis server, use it with --url redis://"+addr+". To start another server, choose another port: --addr 127.0.0.1:0 takes a free one.")
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	defer s.Stop()
	if s.Embedded {
		s.SetLogger(slog.New(slog.NewTextHandler(a.err, nil)))
	}
	fmt.Fprintln(a.out, s.URL)
	notices := a.notices()
	fmt.Fprintf(notices, "%s is running. Ctrl-C stops it and discards its data.\nIn another terminal: export HOLDFAST_URL=%s\n", s.What, s.URL)
	if s.Embedded {
		fmt.Fprintln(notices, notices.Paint(term.Yellow, "This is an "+server.Limits+"."))
	}
	select {
	case <-ctx.Done():
		return nil
	case <-s.Ended:
		return hint(fmt.Errorf("%s stopped unexpectedly%s", s.What, s.LastWords()), "Its locks are lost. Start it again with holdfast serve.")
	}
}

// serveLoopback checks that addr is a loopback address and returns it with an IP
// address as host.
func serveLoopback(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 0 || n > 65535 {
		return "", usage("--addr is %s: it must be a host and a port, such as 127.0.0.1:6379", term.Quote(addr, 40))
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return "", usage("--addr is %s, but the server requires no password and must not be reachable from other machines: use 127.0.0.1", term.Quote(addr, 40))
	}
	return net.JoinHostPort(host, port), nil
}

// serverFlag adds the flag --server to a command that can start a server.
func serverFlag(cmd *cobra.Command, mode *server.Mode, help string) {
	cmd.Flags().Var(mode, "server", help)
	_ = cmd.RegisterFlagCompletionFunc("server", cobra.FixedCompletions(server.Modes, cobra.ShellCompDirectiveNoFileComp))
}
