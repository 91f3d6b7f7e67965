package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/server"
	"github.com/holdfast-go/holdfast/driver"
)

func init() { commands = append(commands, doctorCommand) }

func doctorCommand(a *app) *cobra.Command {
	asJSON, bad := false, doctorLevel(holdfast.SeverityWarning)
	cmd := &cobra.Command{
		Use:   "doctor [NAME...]",
		Short: "Look whether locks on a server can be relied on",
		Long: `Doctor looks whether the servers are set up such that locks there can be relied
on, and whether the user may do all that Holdfast needs. It says what it has
found, the worst first, and what to change. Give it the names of some locks if
the user may not use all keys. It changes nothing.

danger: locks can be lost, or do not work. warning: a fault costs more than it
has to. info: good to know. docs/operations.md has all that can be found, and
the cures.

Of each server it also shows how long a script takes there and back (the median
of some), and how far its clock is ahead of the one here.

Exit status: 0 if there is nothing worse than info, 1 if there is, 122 if no
server answers or the user is turned away. --fail-at chooses the severity from
which on the status is 1.

With --json, it prints one document:

  topology  single, replicated, sentinel or cluster
  servers   the masters, each with
              node          host and port
              error         why it has not answered; then there is nothing else
              version       of the server
              role          master, or slave
              replicas      how many are connected and in sync
              embedded      true if it is good for trying things out only
              uptimeMs      since it was started
              roundTripMs   of a script; null if none got through
              clockAheadMs  of the one here
  findings  what was found, each with severity, node, topic, text and change
  worst     danger, warning, info, or none`,
		Example: `  holdfast doctor
  holdfast doctor --url redis-sentinel://sentinel1,sentinel2?master_name=shop
  holdfast doctor app:orders app:stock   # as a user who may use app:* only
  holdfast doctor --fail-at danger --json`,
		Args: func(_ *cobra.Command, names []string) error {
			for _, n := range names {
				if strings.Contains(n, "://") {
					return usage("a URL is not a name of a lock: give it with --url")
				}
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: interruptible(func(ctx context.Context, names []string) error {
			client, err := a.target.open(ctx, holdfast.Options{})
			if err != nil {
				return err
			}
			defer client.Close()
			e, err := examine(ctx, client, names)
			if err != nil {
				return err
			}
			e.topology(a.target.address())
			if asJSON {
				err = a.printJSON(e)
			} else {
				e.show(a.screen())
			}
			return cmp.Or(err, e.verdict(holdfast.Severity(bad)))
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, for machines")
	cmd.Flags().Var(&bad, "fail-at", "the least severity that makes the exit status 1")
	_ = cmd.RegisterFlagCompletionFunc("fail-at", cobra.FixedCompletions(doctorLevels, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// An examination is what doctor has seen.
type examination struct {
	Topology string          `json:"topology"`
	Servers  []doctorServer  `json:"servers"`
	Findings []doctorFinding `json:"findings"`
	Worst    string          `json:"worst"`
}

type doctorServer struct {
	Node         string   `json:"node"`
	Error        string   `json:"error,omitempty"`
	Version      string   `json:"version,omitempty"`
	Role         string   `json:"role,omitempty"`
	Replicas     int      `json:"replicas"`
	Embedded     bool     `json:"embedded"`
	UptimeMs     int64    `json:"uptimeMs"`
	RoundTripMs  *float64 `json:"roundTripMs"`
	ClockAheadMs float64  `json:"clockAheadMs"`
	cluster      bool
	silent       bool // not even an error came from it
}

type doctorFinding struct {
	Severity string `json:"severity"`
	Node     string `json:"node"`
	Topic    string `json:"topic"`
	Text     string `json:"text"`
	Change   string `json:"change"`
	severity holdfast.Severity
}

// examine asks the servers for everything.
func examine(ctx context.Context, client *holdfast.Client, names []string) (*examination, error) {
	found, err := client.Check(ctx, names...)
	if err != nil {
		return nil, err
	}
	e := &examination{Findings: make([]doctorFinding, 0, len(found)), Worst: "none"}
	d := client.Driver()
	for _, f := range d.Facts(ctx) {
		s := doctorServer{
			Node: f.Node, Version: f.Release(), Role: f.Role, Replicas: f.Replicas, cluster: f.Cluster,
			UptimeMs: f.Uptime.Milliseconds(), ClockAheadMs: milliseconds(f.Clock),
		}
		if f.Err != nil {
			s = doctorServer{Node: f.Node, Error: f.Err.Error(), silent: driver.CodeOf(f.Err) == ""}
		} else if s.Embedded = server.IsEmbedded(f.Info); s.Embedded {
			found = append(found, holdfast.Finding{
				Node: f.Node, Severity: holdfast.SeverityWarning, Topic: "embedded", Text: "this is an " + server.Limits,
				Change: "install redis-server or valkey-server, and start that: holdfast serve --server real",
			})
		}
		if rtt, ok := doctorRoundTrip(ctx, d, f.Node); ok {
			ms := milliseconds(rtt)
			s.RoundTripMs = &ms
		}
		e.Servers = append(e.Servers, s)
	}
	slices.SortStableFunc(found, func(a, b holdfast.Finding) int { return cmp.Compare(b.Severity, a.Severity) })
	for _, f := range found {
		e.Findings = append(e.Findings, doctorFinding{f.Severity.String(), f.Node, f.Topic, f.Text, f.Change, f.Severity})
	}
	if len(found) > 0 {
		e.Worst = found[0].Severity.String()
	}
	return e, ctx.Err()
}

// topology says how the servers belong together, as far as one can see.
func (e *examination) topology(url string) {
	scheme, _, _ := strings.Cut(url, "://")
	switch {
	case strings.HasSuffix(scheme, "-sentinel"):
		e.Topology = "sentinel"
	case strings.HasSuffix(scheme, "-cluster") || e.Servers[0].cluster:
		e.Topology = "cluster"
	case e.Servers[0].Replicas > 0:
		e.Topology = "replicated"
	default:
		e.Topology = "single"
	}
}

// verdict is the exit status.
func (e *examination) verdict(bad holdfast.Severity) error {
	switch {
	case !slices.ContainsFunc(e.Servers, func(s doctorServer) bool { return !s.silent }):
		return &exit{unreachable, nil}
	case len(e.Findings) > 0 && e.Findings[0].severity >= bad:
		return &exit{failed, nil}
	}
	return nil
}

// doctorRoundTrip is the median time that a script takes to a node and back.
func doctorRoundTrip(ctx context.Context, d driver.Driver, node string) (time.Duration, bool) {
	call := driver.Call{Script: driver.NewScript("doctor", "return 1")}
	for i := 0; d.Place("").Node != node; i++ { // a script without a key may not go where we want it
		if i == 1000 {
			return 0, false
		}
		if key := fmt.Sprint("holdfast:doctor:", i); d.Place(key).Node == node {
			call.Keys = []string{key}
			break
		}
	}
	var took []time.Duration
	for range 21 {
		began := time.Now()
		if _, err := d.Do(ctx, call); err != nil {
			return 0, false
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took[1:]) // the first one has to send the script
	return took[1+len(took)/2], true
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// doctorLevel is the value of --fail-at.
type doctorLevel holdfast.Severity

var doctorLevels = []string{"info", "warning", "danger"}

func (l *doctorLevel) Set(text string) error {
	i := slices.Index(doctorLevels, text)
	if i < 0 {
		return fmt.Errorf("it must be %s", strings.Join(doctorLevels, ", "))
	}
	*l = doctorLevel(i)
	return nil
}

func (l *doctorLevel) String() string { return holdfast.Severity(*l).String() }

// Type is what --help calls the value.
func (l *doctorLevel) Type() string { return strings.Join(doctorLevels, "|") }
