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
		Short: "Check whether a server is set up for reliable locks",
		Long: `Doctor checks whether the servers are configured for reliable locks, and whether
the user has the permissions that Holdfast needs. It prints its findings, the
worst first, and what to change. If the user may access some keys only, give the
names of some locks. Doctor changes nothing.

Severities: danger means that locks can be lost or do not work; warning means
that a fault has worse effects than necessary; info is for your information.
docs/operations.md lists all findings.

For each server, doctor also shows the median round-trip time of a script, and
how far the server's clock is ahead of the local clock.

Exit status: 0 if there is nothing worse than info, 1 if there is, 122 if no
server answers, the server rejects the user, or a proxy answers. --fail-at sets
the lowest severity that makes the exit status 1.

With --json, it prints one document:

  topology  single, replicated, sentinel or cluster
  servers   list of the masters, each with
              node          host and port
              error         why it did not answer; then only node is set
              version       version of the server
              role          master or slave
              replicas      number of replicas that are connected and in sync
              embedded      true for a server that is only for trying things out
              uptimeMs      time since it was started
              roundTripMs   round-trip time of a script; null if it failed
              clockAheadMs  how far its clock is ahead of the local clock
  findings  list of the findings, each with severity, node, topic, text, change
  worst     highest severity of the findings: danger, warning, info or none`,
		Example: `  holdfast doctor
  holdfast doctor --url redis-sentinel://sentinel1,sentinel2?master_name=shop
  holdfast doctor app:orders app:stock   # for a user with access to app:* only
  holdfast doctor --fail-at danger --json`,
		Args: func(_ *cobra.Command, names []string) error {
			for _, n := range names {
				if strings.Contains(n, "://") {
					return usage("a URL is not the name of a lock: use --url for it")
				}
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: interruptible(func(ctx context.Context, names []string) error {
			client, err := a.target.open(ctx, holdfast.Options{AllowReplica: true})
			if err != nil {
				return err
			}
			defer client.Close()
			e, err := runDoctor(ctx, client, names)
			if err != nil {
				return err
			}
			e.topology(a.target.address())
			if asJSON {
				err = a.printJSON(e)
			} else {
				e.show(a.screen())
			}
			return cmp.Or(err, e.exitError(holdfast.Severity(bad)))
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, for machines")
	cmd.Flags().Var(&bad, "fail-at", "lowest severity that makes the exit status 1")
	_ = cmd.RegisterFlagCompletionFunc("fail-at", cobra.FixedCompletions(doctorLevels, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// A doctorReport is the result of doctor.
type doctorReport struct {
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
	noReply      bool // it sent no reply, not even an error
}

type doctorFinding struct {
	Severity string `json:"severity"`
	Node     string `json:"node"`
	Topic    string `json:"topic"`
	Text     string `json:"text"`
	Change   string `json:"change"`
	severity holdfast.Severity
}

// runDoctor checks the servers and measures their round-trip times.
func runDoctor(ctx context.Context, client *holdfast.Client, names []string) (*doctorReport, error) {
	found, err := client.Check(ctx, names...)
	if err != nil {
		return nil, err
	}
	e := &doctorReport{Findings: make([]doctorFinding, 0, len(found)), Worst: "none"}
	d := client.Driver()
	for _, f := range d.Facts(ctx) {
		s := doctorServer{
			Node: f.Node, Version: f.Release(), Role: f.Role, Replicas: f.Replicas, cluster: f.Cluster,
			UptimeMs: f.Uptime.Milliseconds(), ClockAheadMs: milliseconds(f.Clock),
		}
		if f.Err != nil {
			s = doctorServer{Node: f.Node, Error: f.Err.Error(), noReply: driver.CodeOf(f.Err) == ""}
		} else if s.Embedded = f.Unsupported() == nil && server.IsEmbedded(f.Info); s.Embedded {
			found = append(found, holdfast.Finding{
				Node: f.Node, Severity: holdfast.SeverityWarning, Topic: "embedded", Text: "this is an " + server.Limits,
				Change: "install redis-server or valkey-server, and start it with holdfast serve --server real",
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

// topology sets e.Topology from the URL and the facts of the servers.
func (e *doctorReport) topology(url string) {
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

// exitError returns nil or the exit status.
func (e *doctorReport) exitError(bad holdfast.Severity) error {
	switch {
	case !slices.ContainsFunc(e.Servers, func(s doctorServer) bool { return !s.noReply }):
		return &exit{unreachable, nil}
	case len(e.Findings) > 0 && e.Findings[0].severity >= bad:
		return &exit{failed, nil}
	}
	return nil
}

// doctorRoundTrip returns the median round-trip time of a script on a node. ok is
// false if a script failed or no key belongs to the node.
func doctorRoundTrip(ctx context.Context, d driver.Driver, node string) (median time.Duration, ok bool) {
	call := driver.Call{Script: driver.NewScript("doctor", "return 1")}
	for i := 0; d.Place("").Node != node; i++ { // a script without a key may go to another node
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
	slices.Sort(took[1:]) // the first call also loads the script
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

// Type returns the placeholder of the value in --help.
func (l *doctorLevel) Type() string { return strings.Join(doctorLevels, "|") }
