package dashboard

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/display"
	"github.com/holdfast-go/holdfast/internal/lockjson"
)

// jsonWait is how long a request for JSON waits for the first round of the scanner.
const jsonWait = 10 * time.Second

// A jsonDocument is a snapshot. Its locks are as in holdfast ls --json, with the times
// that the scanner knows.
type jsonDocument struct {
	At        time.Time           `json:"at"`
	Complete  bool                `json:"complete"`
	Error     string              `json:"error,omitempty"`
	Locks     []lockjson.Lock     `json:"locks"`
	Deadlocks []lockjson.Deadlock `json:"deadlocks,omitempty"`
}

// serveJSON returns the last snapshot. The parameters q, kind and sort select locks as
// on the page.
func (d *Dashboard) serveJSON(w http.ResponseWriter, r *http.Request) {
	d.scanner.view("")
	p := d.scanner.fresh(r.Context(), jsonWait)
	doc := jsonDocument{At: p.read.UTC(), Complete: p.complete && !p.partial && p.err == nil, Locks: []lockjson.Lock{}, Deadlocks: lockjson.Deadlocks(p.deadlocks)}
	if p.err != nil {
		doc.Error = errorText(p.err)
	}
	for _, s := range newListView(r).find(p) {
		doc.Locks = append(doc.Locks, jsonOf(s, p.read))
	}
	w.Header().Set("Content-Type", "application/json")
	if p.read.IsZero() {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	text, _ := json.MarshalIndent(doc, "", " ")                        // texts and numbers
	_, _ = io.WriteString(w, display.Medium{}.JSON(string(text))+"\n") // the client has gone
}

// jsonOf returns the JSON form of a lock as it was at that time.
func jsonOf(s *state, at time.Time) lockjson.Lock {
	lock := s.Lock
	lock.Holders, lock.Queue = slices.Clone(lock.Holders), slices.Clone(lock.Queue)
	for i, h := range s.holds {
		if !h.until.IsZero() {
			lock.Holders[i].TTL = max(h.until.Sub(at), 0)
		}
	}
	for i, since := range s.waits {
		if !since.IsZero() {
			lock.Queue[i].Waited = max(at.Sub(since), 0)
		}
	}
	l := lockjson.Of(lock)
	for i, h := range s.holds {
		ms := max(at.Sub(h.since).Milliseconds(), 0)
		l.Holders[i].SeenForMs = &ms
	}
	return l
}
