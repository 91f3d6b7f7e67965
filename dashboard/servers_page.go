package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

const (
	checkKept = time.Minute
	factsKept = 10 * time.Second
	askTime   = 10 * time.Second // for the servers to answer
)

// servers asks the servers about themselves. It keeps the answers for a while, so that
// many browsers cause no load.
type servers struct {
	client *holdfast.Client

	mu      sync.Mutex
	facts   []driver.Facts
	factsAt time.Time

	checkMu sync.Mutex // one check at a time
	found   []holdfast.Finding
	err     error
	checked time.Time
}

// ask returns what the servers say about themselves.
func (s *servers) ask(ctx context.Context) []driver.Facts {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.factsAt) > factsKept {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		s.facts = s.client.Driver().Facts(ctx)
		s.factsAt = time.Now()
		slices.SortFunc(s.facts, func(a, b driver.Facts) int { return strings.Compare(a.Node, b.Node) })
	}
	return s.facts
}

// check examines the servers, unless it has done so within the last minute.
func (s *servers) check(ctx context.Context) {
	s.checkMu.Lock()
	defer s.checkMu.Unlock()
	s.mu.Lock()
	recent := time.Since(s.checked) < checkKept
	s.mu.Unlock()
	if recent {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	found, err := s.client.Check(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found, s.err, s.checked = found, err, time.Now()
}

// checkServers is the button of the page.
func (d *Dashboard) checkServers(w http.ResponseWriter, r *http.Request) {
	d.servers.check(r.Context())
	w.Header().Set("Location", "servers") // relative, because the prefix is not known
	w.WriteHeader(http.StatusSeeOther)
}

func (d *Dashboard) serversPage(_ *snapshot, r *http.Request) content {
	t := table{
		ID: "servers", Caption: "Masters", Empty: "No server is known.",
		Columns: []column{{Text: "Server"}, {Text: "Version"}, {Text: "Role"}, {Text: "Replicas", Class: "num"}, {Text: "Memory", Class: "num"}, {Text: "Limit", Class: "num"}, {Text: "Policy"}, {Text: "Clients", Class: "num"}, {Text: "Clock", Class: "num"}, {Text: "Up for", Class: "num"}},
	}
	for _, f := range d.servers.ask(r.Context()) {
		t.Rows = append(t.Rows, serverRow(f))
	}
	s := &d.servers
	s.mu.Lock()
	defer s.mu.Unlock()
	checked := cell{ID: "checked"}
	found := table{ID: "findings", Caption: "Findings", Columns: []column{{Text: "Severity"}, {Text: "Server"}, {Text: "Topic"}, {Text: "Finding"}, {Text: "To change it"}}, Empty: "Not checked yet."}
	if !s.checked.IsZero() {
		checked = cell{ID: "checked", Text: "Checked at " + s.checked.Format(time.TimeOnly), Class: "quiet dim"}
		found.Empty = "No findings: the servers are fit for locks."
	}
	if s.err != nil {
		checked = cell{ID: "checked", Class: "bad", Text: "The check failed: " + errorText(s.err)}
		found.Empty = "Unknown."
	}
	for i, f := range s.found {
		class := map[holdfast.Severity]string{holdfast.SeverityDanger: "bad", holdfast.SeverityWarning: "warn"}[f.Severity]
		found.Rows = append(found.Rows, row{ID: strconv.Itoa(i), Cells: []cell{
			{Text: f.Severity.String(), Class: cmp.Or(class, "dim")}, {Text: visible(f.Node, 80)}, {Text: visible(f.Topic, 80)}, {Text: visible(f.Text, 600), Class: "wide"}, {Text: visible(f.Change, 600), Class: "wide code"},
		}})
	}
	return content{Facts: []cell{checked}, Tables: []table{t, found}, Read: s.factsAt, Limit: 2 * (factsKept + askTime)}
}

func serverRow(f driver.Facts) row {
	name := cell{Text: visible(f.Node, 80)}
	if f.Err != nil {
		return row{ID: rowID(f.Node), Cells: []cell{name, {Text: "does not answer: " + errorText(f.Err), Class: "bad wide"}, {}, {}, {}, {}, {}, {}, {}, {}}}
	}
	info := func(key string) cell { return cell{Text: visible(f.Info[key], 40), Class: "num"} }
	limit := info("maxmemory_human")
	if limit.Text == "0B" {
		limit = cell{Text: "none", Class: "num dim"}
	}
	policy := cell{Text: visible(f.Info["maxmemory_policy"], 40)}
	role := cell{Text: visible(f.Role, 20)}
	if f.Role == "slave" {
		role = cell{Text: "replica", Class: "bad"}
	}
	clock := cell{Text: f.Clock.Round(time.Millisecond).String(), Class: "num"}
	return row{ID: rowID(f.Node), Cells: []cell{
		name,
		{Text: visible(f.Release(), 40), Note: visible(f.Mode(), 20)},
		role, countCell(f.Replicas), info("used_memory_human"), limit, policy,
		info("connected_clients"), clock,
		{Text: duration(f.Uptime), Class: "num"},
	}}
}
