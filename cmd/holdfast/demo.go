package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"
	xterm "golang.org/x/term"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/sale"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/server"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
	"github.com/holdfast-go/holdfast/dashboard"
)

func init() { commands = append(commands, demoCommand, demoShopCommand) }

// demo holds the flags of the command.
type demo struct {
	*app
	crowd sale.Crowd
	mode  server.Mode
	db    string
	only  []string
	json  bool

	dashboard bool
	listen    string // address of the dashboard
}

func demoCommand(a *app) *cobra.Command {
	d := &demo{app: a, mode: server.Auto}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Simulate a flash sale with and without locks",
		Long: `Demo simulates a flash sale. A few coupons are on sale, one per person, and
thousands of buyers click more than once, in several shops. Each shop is a
process. The shops share a database and a generator of unique order ids. To sell
a coupon, a shop reads the stock, waits for the payment, and writes the order
and the new stock. Demo runs the same sale in several ways and compares the
results:

  none    no lock
  setnx   the lock of many tutorials: SET name locked NX PX 100, then DEL name
  mutex   Holdfast's mutex
  paused  as mutex, but one shop process is stopped (SIGSTOP) at the worst time:
          after its last check of the lock and before its write. It resumes when
          its lease is over and the other shops are done.
  fenced  as paused, and the database checks the fencing token of each write

Demo takes less than half a minute and needs no setup. Unless --url or
HOLDFAST_URL names a server, it starts one. The default database is an SQLite
file. Demo removes both at the end. On your own server or database it uses
unique names and removes them.

With --dashboard, the locks of the sale can be seen in a browser, live: demo
prints the address, waits for Enter if the input is a terminal, and keeps the
pages open after the sale until Ctrl-C. See holdfast dashboard.

The exit status is 0 only if mutex and fenced are spotless: all coupons are
sold, none is sold twice, no person has two, and the stock is correct.

With --json, it prints one document:

  seed, shops, buyers, clicks, stock
  server   name of the server; embedded  true if it runs inside the command
  database SQLite, PostgreSQL, MySQL or MariaDB
  ways     list of the ways, each with
    way, title
    sold, oversold, unsold, doubleOrders, lostUpdates
    refused          late writes that the fencing guard refused
    ordersPerSecond  orders per second
    p50Ms, p99Ms     latency of an order, from the click
    durationMs       time from the first click to the last order
    pausedShop, pauseMs, soldMeanwhile  about the shop that was stopped
    spotless         true if nothing is wrong
    mustBeSpotless   true if Holdfast guarantees it
    why              explanation for people
  ok       true if every way that must be spotless is spotless`,
		Example: `  holdfast demo
  holdfast demo --shops 5 --buyers 5000 --stock 200
  holdfast demo --url redis://localhost:6379 --seed 42
  holdfast demo --dashboard --only mutex
  HOLDFAST_DB=postgres://user:password@localhost/shop holdfast demo`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              interruptible(func(ctx context.Context, _ []string) error { return d.run(ctx) }),
	}
	f := cmd.Flags()
	f.IntVar(&d.crowd.Shops, "shops", 3, "number of shops, each a process")
	f.IntVar(&d.crowd.Buyers, "buyers", 2000, "number of people who want a coupon")
	f.IntVar(&d.crowd.Stock, "stock", 100, "number of coupons")
	f.Uint64Var(&d.crowd.Seed, "seed", 0, "repeat a sale: the same clicks, payment times and paused order\n(default: random)")
	serverFlag(cmd, &d.mode, "server to start if no server is given")
	f.StringVar(&d.db, "db", "", "database: sqlite, sqlite:FILE, postgres://... or mysql://...\n(default: HOLDFAST_DB, which hides the password from ps, or sqlite)")
	f.StringSliceVar(&d.only, "only", nil, "run the sale in these ways only, such as none,mutex")
	_ = cmd.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(sale.Names(), cobra.ShellCompDirectiveNoFileComp))
	f.BoolVar(&d.json, "json", false, "print JSON, as described above")
	f.BoolVar(&d.dashboard, "dashboard", false, "show the sale in a browser, as described above")
	f.StringVar(&d.listen, "listen", dashboardAddress, "loopback address of the dashboard")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if d.target.named() && f.Changed("server") {
			return usage("--server starts a server, but a server is given: omit --server, or omit --url, HOLDFAST_URL and --config")
		}
		if !f.Changed("seed") {
			d.crowd.Seed = uint64(demoRandom()) % 1_000_000
		}
		return nil
	}
	return cmd
}

// demoRandom returns a random number.
func demoRandom() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint32(b[:])
}

// check validates the flags and returns the ways to run the sale.
func (d *demo) check() ([]sale.Way, error) {
	err := errors.Join(
		within("shops", d.crowd.Shops, 2, 20),
		within("buyers", d.crowd.Buyers, 1, 1_000_000),
		within("stock", d.crowd.Stock, 1, 1_000_000))
	if err != nil {
		return nil, err
	}
	ways, err := sale.Choose(d.only)
	if err != nil {
		return nil, usage("--only: %w", err)
	}
	return ways, nil
}

func (d *demo) run(ctx context.Context) (err error) {
	ways, err := d.check()
	if err != nil {
		return err
	}
	name := hex.EncodeToString(binary.BigEndian.AppendUint32(nil, demoRandom()))
	m := &sale.Market{Crowd: d.crowd, Names: "holdfast-demo:" + name, Shop: demoShop}
	if d.db == "" {
		d.db = d.env("HOLDFAST_DB")
	}
	if d.db == "" {
		d.db = "sqlite"
	}
	var removeFiles func()
	m.DB, removeFiles, err = sale.Locate(d.db, "holdfast_demo_"+name)
	defer removeFiles()
	if err != nil {
		return usage("--db: %w", err)
	}
	what, disconnect, err := d.connect(ctx, m)
	if err != nil {
		return err
	}
	defer disconnect()
	defer func() { err = errors.Join(err, m.Close(ctx)) }()
	if err := m.Open(ctx); err != nil {
		return hint(err, "Set a database with --db or HOLDFAST_DB, and a user with permission to create tables. Without both, the demo uses an SQLite file.")
	}
	if !d.json {
		d.printSettings(m, what)
	}
	pages, err := d.openDashboard(ctx, m, what)
	if err != nil {
		return err
	}
	defer pages.stop()
	results, err := d.runSales(ctx, m, ways)
	if err != nil {
		return err
	}
	if d.json {
		err = d.writeJSON(m, what, results)
	} else {
		d.show(results)
		err = demoVerdict(results)
	}
	if pages.url != "" && ctx.Err() == nil {
		fmt.Fprintf(d.notices(), "The dashboard is still open at %s. Ctrl-C ends it.\n", pages.url)
		<-ctx.Done()
	}
	return err
}

// openDashboard opens the dashboard if it is wanted, and waits until the user has opened
// it.
func (d *demo) openDashboard(ctx context.Context, m *sale.Market, what demoServer) (dashboardServer, error) {
	if !d.dashboard {
		return dashboardServer{stop: func() {}}, nil
	}
	l, err := listenDashboard(ctx, d.listen, false)
	if err != nil {
		return dashboardServer{}, err
	}
	s := d.startDashboard(m.Client, l, dashboard.Options{Title: "demo on " + strings.TrimPrefix(what.name, "your server at "), Every: 250 * time.Millisecond})
	fmt.Fprintf(d.notices(), "The dashboard is at %s\n", s.url)
	if f, ok := d.in.(*os.File); ok && xterm.IsTerminal(int(f.Fd())) {
		if _, err := d.ask(ctx, "Open it in a browser, then press Enter to start the sale. "); err != nil {
			s.stop()
			return dashboardServer{}, err
		}
	}
	return s, nil
}

// A demoServer describes a server for display.
type demoServer struct {
	name   string
	limits string // limits of an embedded server; "" for others
}

// connect connects to the given server, or starts one. The caller must call disconnect
// at the end.
func (d *demo) connect(ctx context.Context, m *sale.Market) (what demoServer, disconnect func(), err error) {
	t, stop := d.target, func() {}
	what.name = "your server at " + t.shown()
	if !t.named() {
		s, err := server.Start(ctx, d.mode, "127.0.0.1:0")
		if err != nil {
			return what, nil, err
		}
		t.url, what.name, stop = s.URL, s.What+" on "+strings.TrimPrefix(s.URL, "redis://"), s.Stop
		if s.Embedded {
			what.limits = server.Limits
		}
	}
	if t.config == "" {
		t.url = t.address()
	}
	m.URL, m.Config = t.url, t.config
	if m.Client, err = t.open(ctx, holdfast.Options{}); err != nil {
		stop()
		return what, nil, err
	}
	return what, func() { _ = m.Client.Close(); stop() }, nil
}

// runSales runs the sale in all ways.
func (d *demo) runSales(ctx context.Context, m *sale.Market, ways []sale.Way) ([]sale.Result, error) {
	var results []sale.Result
	for i, w := range ways {
		bar := d.notices().Progress(fmt.Sprintf("%d/%d %-13s", i+1, len(ways), w.Row))
		m.Progress = func(done float64, note string) { bar.Set(done, "%s", note) }
		r, err := m.Hold(ctx, w)
		bar.End()
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

// demoVerdict returns an error if a sale with Holdfast has a wrong result.
func demoVerdict(results []sale.Result) error {
	for _, r := range results {
		if r.Way.Ours && !r.Spotless() {
			return &exit{failed, fmt.Errorf("%s must be spotless, but has errors: %s", term.Quote(r.Way.Title, 40), r.Faults())}
		}
	}
	return nil
}

// demoShop returns the command of one shop, which is this program.
func demoShop() *exec.Cmd {
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	return exec.Command(program, "demo-shop")
}

func demoShopCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    "demo-shop",
		Short:  "Run one shop of holdfast demo",
		Hidden: true,
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return sale.Serve(cmd.Context(), a.in, a.out, func(ctx context.Context, j sale.Job, o holdfast.Options) (*holdfast.Client, error) {
				t := target{url: j.URL, config: j.Config, env: func(string) string { return "" }}
				return t.open(ctx, o)
			})
		},
	}
}
