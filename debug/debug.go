// Package debug shows what the clients of a program do, for a quick look without
// metrics or a dashboard: which leases they hold, which calls wait, and what was lost.
//
//	http.Handle("/debug/holdfast", debug.Handler(client))
//
// The page contains the names of locks. Serve it where only operators can see it, as
// net/http/pprof.
package debug

import (
	"encoding/json"
	"expvar"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/observe"
)

// Handler returns a handler that serves the statistics of the clients: as text, or as
// JSON with ?format=json or the header Accept: application/json.
func Handler(clients ...*holdfast.Client) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all := stats(clients)
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff") // names of locks can contain anything
		if r.URL.Query().Get("format") == "json" || strings.Contains(r.Header.Get("Accept"), "application/json") {
			w.Header().Set("Content-Type", "application/json")
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			_ = e.Encode(all) // the client has gone
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		now := time.Now()
		for _, s := range all {
			print(w, s, now)
		}
	})
}

// Publish makes the statistics of the clients a variable of package expvar, which is
// part of the page /debug/vars. Like [expvar.Publish], it panics if the name is taken.
func Publish(name string, clients ...*holdfast.Client) {
	expvar.Publish(name, expvar.Func(func() any { return stats(clients) }))
}

func stats(clients []*holdfast.Client) []observe.Stats {
	all := make([]observe.Stats, len(clients))
	for i, c := range clients {
		all[i] = c.Stats()
	}
	return all
}

// print writes the statistics of a client as text.
func print(out io.Writer, s observe.Stats, now time.Time) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer func() { _ = w.Flush() }()
	fmt.Fprintf(w, "client %s\n\n", s.Client)
	fmt.Fprintf(w, "held %d\twaiting %d\tgrants %d\thand-offs %d\tfailed %d\tlost %d\n", len(s.Leases), s.Waiting, s.Grants, s.Handoffs, s.Failures, s.Losses)
	fmt.Fprintf(w, "renewals %d\tfailed %d\toldest %v\tpending releases %d\n", s.Renewals, s.FailedRenewals, round(s.RenewalAge), s.PendingReleases)
	fmt.Fprintf(w, "subscriptions %d\tsilent %d\tdropped events %d\tdropped records %d\n", s.Subscriptions, s.Silent, s.DroppedEvents, s.DroppedRecords)
	if len(s.Leases) > 0 {
		fmt.Fprintf(w, "\nHELD\tNAME\tFOR\tCONFIRMED\tEXPIRES IN\tOWNER\n")
		for _, l := range s.Leases {
			fmt.Fprintf(w, "%s\t%.80q\t%v\t%v ago\t%v\t%s\n", l.Kind, l.Name, round(now.Sub(l.Since)), round(l.Age), round(l.Left), l.Owner)
		}
	}
	if len(s.Calls) > 0 {
		fmt.Fprintf(w, "\nWAITS FOR\tNAME\tFOR\n")
		for _, c := range s.Calls {
			fmt.Fprintf(w, "%s\t%.80q\t%v\n", c.Kind, c.Name, round(now.Sub(c.Since)))
		}
	}
	fmt.Fprintln(w)
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
