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

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/sale"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/server"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
)

func init() { commands = append(commands, demoCommand, demoShopCommand) }

// demo is what the user has asked for.
type demo struct {
	*app
	crowd sale.Crowd
	mode  server.Mode
	db    string
	only  []string
	json  bool
}

func demoCommand(a *app) *cobra.Command {
	d := &demo{app: a, mode: server.Auto}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See why a shop needs a lock: a flash sale, with and without one",
		Long: `Demo holds a flash sale: a few coupons, one per person, and thousands of buyers
who click more than once, at several shops. Each shop is a process of its own;
they share a database, and order ids that no two of them give out. To sell is to
read the stock, to let the bank take its time, and to write the order and the
new stock. The same sale is held several ways, and the books are compared:

  none    no lock
  setnx   the lock of many tutorials: SET name locked NX PX 100, then DEL name
  mutex   Holdfast's mutex
  paused  the same, but a shop process is stopped (SIGSTOP) in the worst moment,
          after its last check of the lock and before its write, until its lease
          is over and the others are done
  fenced  the same, and the database checks the fencing token of each write

It takes less than half a minute and needs nothing. Where no server is named, by
--url or HOLDFAST_URL, it starts one of its own, and the database is a file of
SQLite's; in the end nothing is left of either. At a server or in a database of
yours it uses names that nobody else has, and removes them.

The exit status is 0 only if mutex and fenced are spotless, that is: all coupons
were sold, none twice, none to the same person, and the stock says so.

With --json there is one object on the standard output:

  seed, shops, buyers, clicks, stock
  server   what it is; embedded  whether it is a small one inside the command
  database SQLite, PostgreSQL, MySQL or MariaDB
  ways     a list, of each way:
    way, title
    sold, oversold, unsold, doubleOrders, lostUpdates
    refused          late writes that the fencing guard has refused
    ordersPerSecond, p50Ms, p99Ms  of an order, from the click on
    durationMs       from the first click to the last order
    pausedShop, pauseMs, soldMeanwhile  of a shop that was stopped
    spotless         whether nothing is wrong
    mustBeSpotless   whether that is promised
    why              for people
  ok       whether all that must be spotless is`,
		Example: `  holdfast demo
  holdfast demo --shops 5 --buyers 5000 --stock 200
  holdfast demo --url redis://localhost:6379 --seed 42
  HOLDFAST_DB=postgres://user:password@localhost/shop holdfast demo`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              interruptible(func(ctx context.Context, _ []string) error { return d.run(ctx) }),
	}
	f := cmd.Flags()
	f.IntVar(&d.crowd.Shops, "shops", 3, "shops, each a process of its own")
	f.IntVar(&d.crowd.Buyers, "buyers", 2000, "people who want a coupon")
	f.IntVar(&d.crowd.Stock, "stock", 100, "coupons")
	f.Uint64Var(&d.crowd.Seed, "seed", 0, "repeats a sale: who clicks when and where, how long banks take, when a\nshop is stopped (default: random)")
	serverFlag(cmd, &d.mode, "which server to start if none is named")
	f.StringVar(&d.db, "db", "", "database: sqlite, sqlite:FILE, postgres://... or mysql://...\n(default: HOLDFAST_DB, which hides a password from ps; else sqlite)")
	f.StringSliceVar(&d.only, "only", nil, "hold it these ways only, such as none,mutex")
	_ = cmd.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(sale.Names(), cobra.ShellCompDirectiveNoFileComp))
	f.BoolVar(&d.json, "json", false, "write one JSON object, for machines")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if d.target.named() && f.Changed("server") {
			return usage("a server is named, so none is started: leave out --server, or --url, HOLDFAST_URL and --config")
		}
		if !f.Changed("seed") {
			d.crowd.Seed = uint64(demoRandom()) % 1_000_000
		}
		return nil
	}
	return cmd
}

// demoRandom is a random number.
func demoRandom() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint32(b[:])
}

// check returns the ways to hold the sale, or what is wrong with the flags.
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
	var forget func()
	m.DB, forget, err = sale.Locate(d.db, "holdfast_demo_"+name)
	defer forget()
	if err != nil {
		return usage("--db: %w", err)
	}
	what, leave, err := d.connect(ctx, m)
	if err != nil {
		return err
	}
	defer leave()
	defer func() { err = errors.Join(err, m.Close(ctx)) }()
	if err := m.Open(ctx); err != nil {
		return hint(err, "Name a database with --db or HOLDFAST_DB, and a user who may create tables there. Without that the demo takes a file of SQLite's.")
	}
	if !d.json {
		d.introduce(m, what)
	}
	results, err := d.hold(ctx, m, ways)
	if err != nil {
		return err
	}
	if d.json {
		return d.writeJSON(m, what, results)
	}
	d.show(results)
	return demoVerdict(results)
}

// A demoServer is a server, for people.
type demoServer struct {
	name   string
	limits string // what to know about the embedded one
}

// connect connects with the server that was named, or with one of its own, and
// returns what it is.
func (d *demo) connect(ctx context.Context, m *sale.Market) (what demoServer, leave func(), err error) {
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

// hold holds the sale all ways.
func (d *demo) hold(ctx context.Context, m *sale.Market, ways []sale.Way) ([]sale.Result, error) {
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

// demoVerdict is an error if Holdfast has failed.
func demoVerdict(results []sale.Result) error {
	for _, r := range results {
		if r.Way.Ours && !r.Spotless() {
			return &exit{failed, fmt.Errorf("%s must be spotless, but there are: %s", term.Quote(r.Way.Title, 40), r.Faults())}
		}
	}
	return nil
}

// demoShop returns the command of one shop: this very program.
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
		Short:  "Be a shop of holdfast demo",
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
