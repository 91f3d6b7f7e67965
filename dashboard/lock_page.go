package dashboard

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/display"
)

// A lockForm is what the template of a lock needs.
type lockForm struct {
	Name  string
	Break string // the link to the form that breaks the lock; "": not allowed
	Known bool
}

func (d *Dashboard) lockPage(p *snapshot, r *http.Request) content {
	name := r.URL.Query().Get("name")
	form := lockForm{Name: visible(name, longName)}
	c := content{Title: visible(name, shortName)}
	s := d.lockState(p, r, name)
	if s == nil {
		c.Form, c.Status = form, http.StatusNotFound
		c.Facts = []cell{{ID: "state", Text: "This key is not a lock.", Class: "dim"}, {ID: "more"}}
		return c
	}
	form.Known = true
	if d.options.AllowBreak {
		form.Break = "break?name=" + url.QueryEscape(name)
	}
	c.Form = form
	c.Facts = append(lockFacts(s), cell{ID: "more"})
	if s.More > 0 {
		c.Facts[len(c.Facts)-1].Text = plural(s.More, "holder or waiter") + " not listed"
	}
	spans, pauses := d.scanner.history.of(name)
	c.Tables = []table{holderTable(s), queueTable(s), spanTable(spans)}
	for _, t := range timelines {
		c.Pictures = append(c.Pictures, t.picture(spans, pauses, time.Now()))
	}
	return c
}

// lockState returns the state of a lock in the snapshot. A lock that is not there may be
// free, so its state is read. It returns nil if the key is not a lock.
func (d *Dashboard) lockState(p *snapshot, r *http.Request, name string) *state {
	if s := p.byName[name]; s != nil {
		return s
	}
	if name == "" {
		return nil
	}
	lock, err := d.scanner.inspect.Lock(r.Context(), name)
	switch {
	case errors.Is(err, inspect.ErrNotLock):
		return nil
	case err != nil: // the page says why the servers cannot be read
		return newState(inspect.Lock{Name: name, Kind: inspect.Mutex}, time.Now())
	}
	return newState(lock, time.Now())
}

func lockFacts(s *state) []cell {
	facts := []cell{{ID: "kind", Text: kindText(s), Note: "kind"}}
	switch n := len(s.Holders) + s.moreHolders(); {
	case n == 0 && s.Kind == inspect.Semaphore:
		facts = append(facts, cell{ID: "state", Text: "No permits are taken", Class: "dim"})
	case n == 0:
		facts = append(facts, cell{ID: "state", Text: "Free", Class: "good"})
	case s.Kind == inspect.Semaphore:
		facts = append(facts, cell{ID: "state", Text: plural(n, "permit") + " taken"})
	case n == 1:
		facts = append(facts, cell{ID: "state", Text: "Held"})
	default:
		facts = append(facts, cell{ID: "state", Text: "Held by " + display.Thousands(n)})
	}
	waiting := cell{ID: "waiting", Text: display.Thousands(s.waiting()), Note: "waiting"}
	if s.Clients > s.Queued && s.Queued > 0 {
		waiting.Note = "waiting, " + display.Thousands(s.Queued) + " in the queue"
	}
	token := cell{ID: "token"}
	if s.Token != 0 {
		token.Text, token.Note = strconv.FormatInt(s.Token, 10), "token"
	}
	leader := cell{ID: "leader"}
	if s.Leader != "" {
		leader.Text, leader.Note = visible(s.Leader, longName), "leader"
	}
	return append(facts, waiting, token, leader)
}

func holderTable(s *state) table {
	t := table{
		ID: "holders", Caption: "Holders", Empty: "The lock is free.",
		Columns: []column{{Text: "Client"}, {Text: "Owner"}, {Text: "Mode"}, {Text: "Holds", Class: "num"}, {Text: "Held for", Class: "num"}, {Text: "Expires in", Class: "num"}},
	}
	if s.Kind == inspect.Semaphore {
		t.Empty = "No permits are taken."
	}
	for i, h := range s.Holders {
		t.Rows = append(t.Rows, row{ID: url.QueryEscape(h.Owner) + string(h.Mode), Cells: []cell{
			aboutCell(h.Client),
			{Text: visible(h.Owner, 80), Class: "owner"},
			{Text: string(h.Mode)},
			countCell(h.Holds),
			sinceCell(s.holds[i].since, s.holds[i].earlier), untilCell(s.holds[i].until, true),
		}})
	}
	return t
}

// aboutCell is all that is known about a client.
func aboutCell(c *inspect.Client) cell {
	if c == nil {
		return cell{Text: "unknown", Class: "dim"}
	}
	r := clientCell(c, "")
	r.Note = aboutClient(c)
	return r
}

// aboutClient returns what the short form of a client leaves out.
func aboutClient(c *inspect.Client) string {
	if !c.Known() {
		return ""
	}
	var text string
	for _, word := range []string{c.Program, c.Version, c.Library} {
		if word == "" {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += visible(word, 60)
	}
	if c.Pod != "" {
		text += ", on " + visible(c.Host, 60)
	}
	return text
}

func queueTable(s *state) table {
	t := table{
		ID: "queue", Caption: "Queue", Empty: "The queue is empty.",
		Columns: []column{{Text: "Place", Class: "num"}, {Text: "Client"}, {Text: "Owner"}, {Text: "Wants"}, {Text: "Waiting for", Class: "num"}},
	}
	switch {
	case s.Queued < 0:
		t.Empty = "The queue cannot be read: the user lacks permission."
	case s.Clients > 0:
		t.Empty = "The queue is empty. " + plural(s.Clients, "client") + " outside of it " + are(s.Clients) + " told of the release."
	}
	for i, w := range s.Queue {
		t.Rows = append(t.Rows, row{ID: url.QueryEscape(w.Owner) + "-" + string(w.Kind), Cells: []cell{
			{Text: strconv.Itoa(w.Place), Class: "num"},
			aboutCell(w.Client),
			{Text: visible(w.Owner, 80), Class: "owner"},
			{Text: wants(w)},
			sinceCell(s.waits[i], false),
		}})
	}
	return t
}

func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func wants(w inspect.Waiter) string {
	switch w.Kind {
	case "":
		return "not a valid entry"
	case inspect.RW:
		return "to write"
	case inspect.Semaphore:
		return plural(w.Permits, "permit")
	}
	return string(w.Kind)
}

// spanTable lists the last holders: the timeline as text.
func spanTable(spans []span) table {
	t := table{
		ID: "spans", Caption: "Last holders", Empty: "Nothing was seen yet.",
		Columns: []column{{Text: "Client"}, {Text: "Owner"}, {Text: "From", Class: "num"}, {Text: "To", Class: "num"}, {Text: "Held for", Class: "num"}},
	}
	const most = 20
	for _, s := range slices.Backward(spans) {
		if len(t.Rows) == most {
			break
		}
		from := cell{Text: s.from.Format(time.TimeOnly), Class: "num"}
		if s.earlier {
			from.Class += " earlier"
			from.Note = "or before"
		}
		to, held := cell{Text: s.to.Format(time.TimeOnly), Class: "num"}, cell{Text: briefly(s.to.Sub(s.from)), Class: "num"}
		if s.open {
			to, held = cell{Text: "now", Class: "num"}, sinceCell(s.from, s.earlier)
		}
		t.Rows = append(t.Rows, row{
			ID:    url.QueryEscape(s.owner) + string(s.mode) + strconv.FormatInt(s.from.UnixNano(), 36),
			Cells: []cell{clientCell(s.client, s.owner), {Text: visible(s.owner, 80), Class: "owner"}, from, to, held},
		})
	}
	return t
}

// briefly returns a duration that the scanner has measured, which is not exact.
func briefly(d time.Duration) string {
	if d < 2*time.Second {
		return "about 1 s"
	}
	return duration(d)
}
