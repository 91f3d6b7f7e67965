package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
	"github.com/holdfast-go/holdfast/dashboard"
)

func init() { commands = append(commands, dashboardCommand) }

// dashboardAddress is where dashboards listen by default.
const dashboardAddress = "127.0.0.1:8787"

func dashboardCommand(a *app) *cobra.Command {
	var o dashboard.Options
	listen, insecure := "", false
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Show locks in a browser, live",
		Long: `Dashboard serves web pages until Ctrl-C: the locks of a server with their
holders and waiters, the history of each lock, clients, semaphores, rate
limiters, plots of the last minutes, and the findings of doctor. It prints the
address of the pages to standard output.

The pages have no login. So dashboard listens on loopback only, unless
--insecure-listen is given. Use a reverse proxy with a login, or an SSH tunnel,
for other machines:

  ssh -L 8787:127.0.0.1:8787 HOST

It answers requests for localhost, for IP addresses, and for the names that
--allowed-hosts lists, such as the name of a reverse proxy. It refuses other
names: any web site can make its own name resolve to the address of dashboard.

Dashboard reads the keys as watch does, while a page is open. It spends at most
a twenty-fifth of the time reading. It changes nothing, unless --allow-break
lets its users break locks. Each attempt is logged to standard error.

The path locks.json has the list as JSON, as of ls --json.`,
		Example: `  holdfast dashboard
  holdfast dashboard --url redis://localhost:6379 --listen 127.0.0.1:0
  holdfast dashboard --match 'orders:*' --allow-break
  holdfast dashboard --insecure-listen --listen :80 --allowed-hosts locks.lan`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: interruptible(func(ctx context.Context, _ []string) error {
			if err := checkHosts(o, insecure); err != nil {
				return err
			}
			l, err := listenDashboard(ctx, listen, insecure)
			if err != nil {
				return err
			}
			defer func() { _ = l.Close() }()
			client, err := a.target.open(ctx, holdfast.Options{Label: "dashboard", AllowReplica: true})
			if err != nil {
				return err
			}
			defer client.Close()
			s := a.startDashboard(client, l, o)
			fmt.Fprintln(a.out, s.url)
			fmt.Fprintln(a.notices(), "The dashboard of "+a.target.shown()+" is open. Ctrl-C ends it.")
			select {
			case <-ctx.Done():
				s.stop()
				return nil
			case err := <-s.failed:
				return err
			}
		}),
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", dashboardAddress, "loopback address to listen on; port 0 takes a free port")
	f.BoolVar(&insecure, "insecure-listen", false, "allow other addresses than loopback, without a login")
	f.StringSliceVar(&o.Hosts, "allowed-hosts", nil, "host `NAMES` under which browsers may reach the pages, besides localhost and\nIP addresses; required with --insecure-listen and --allow-break")
	f.BoolVar(&o.AllowBreak, "allow-break", false, "let users of the pages break locks")
	f.StringVar(&o.Match, "match", "", "show only locks whose names match this pattern")
	f.StringVar(&o.Title, "title", "", "name of the server in the heading (default: its address)")
	_ = cmd.RegisterFlagCompletionFunc("listen", cobra.NoFileCompletions)
	_ = cmd.RegisterFlagCompletionFunc("match", cobra.NoFileCompletions)
	_ = cmd.RegisterFlagCompletionFunc("allowed-hosts", cobra.NoFileCompletions)
	return cmd
}

// checkHosts checks the names under which the pages can be reached. If other machines can
// reach pages that break locks, the user must name them.
func checkHosts(o dashboard.Options, insecure bool) error {
	for _, host := range o.Hosts {
		if host == "" || strings.ContainsAny(host, "/ \t") {
			return usage("--allowed-hosts has %s: it must have names of hosts, such as locks.example.com", term.Quote(host, 40))
		}
	}
	if insecure && o.AllowBreak && len(o.Hosts) == 0 {
		return hint(usage("--allow-break with --insecure-listen needs --allowed-hosts: these pages have no login and can change locks"),
			"Name the host under which users open the pages, such as --allowed-hosts locks.example.com, or its IP address.")
	}
	return nil
}

// listenDashboard opens the socket. Other addresses than loopback must be allowed,
// because there is no login.
func listenDashboard(ctx context.Context, addr string, insecure bool) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, usage("--listen is %s: it must be a host and a port, such as %s", term.Quote(addr, 40), dashboardAddress)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) && !insecure {
		return nil, hint(usage("--listen is %s, but the dashboard has no login and must not be reachable from other machines", term.Quote(addr, 40)),
			"Use a loopback address such as "+dashboardAddress+", or --insecure-listen if a proxy or a firewall protects the address.")
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, hint(fmt.Errorf("listen: %w", err), "Choose another address with --listen: 127.0.0.1:0 takes a free port.")
	}
	return l, nil
}

// A dashboardServer serves a dashboard.
type dashboardServer struct {
	url    string
	failed <-chan error // receives the error if the server ends
	stop   func()
}

// startDashboard serves a dashboard on l.
func (a *app) startDashboard(client *holdfast.Client, l net.Listener, o dashboard.Options) dashboardServer {
	addr := l.Addr().(*net.TCPAddr)
	if o.Title == "" {
		o.Title = a.target.shown()
	}
	o.Audit = func(action dashboard.Action) {
		fmt.Fprintln(a.err, harmless(breakRecord(action)))
	}
	d := dashboard.New(client, o)
	s := webServer(d)
	failed := make(chan error, 1)
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
	}()
	shown := addr.String()
	if addr.IP.IsUnspecified() {
		shown = net.JoinHostPort("localhost", strconv.Itoa(addr.Port))
	}
	return dashboardServer{url: "http://" + shown + "/", failed: failed, stop: func() {
		_ = d.Close() // ends the streams
		_ = s.Close()
	}}
}

// webServer returns a server that does not keep connections without requests. The stream
// of a page sets its own time for each message.
func webServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ErrorLog: log.New(io.Discard, "", 0),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       2 * time.Minute, // longer than proxies keep idle connections
	}
}

// breakRecord is the log line of an attempt to break a lock.
func breakRecord(a dashboard.Action) string {
	owners := make([]string, len(a.Lock.Holders))
	for i, h := range a.Lock.Holders {
		owners[i] = h.Owner
	}
	result := "not broken: the holders have changed"
	switch {
	case a.Err != nil:
		result = "failed: " + redacted(a.Err.Error())
	case a.Broken:
		result = "broken"
	}
	return fmt.Sprintf("%s break %s held by %s: %s (from %s)", time.Now().Format(time.RFC3339), term.Quote(a.Lock.Name, showMaxWidth), term.Quote(strings.Join(owners, ", "), showMaxWidth), result, a.Request.RemoteAddr)
}
