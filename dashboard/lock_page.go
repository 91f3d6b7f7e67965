package dashboard

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
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
	s, err := d.lockState(p, r, name)
	if errors.Is(err, inspect.ErrNotLock) {
		c.Form, c.Status = form, http.StatusNotFound
		c.Facts = []cell{{ID: "state", Text: "This key is not a lock.", Class: "dim"}, {ID: "more"}}
		return c
	}
	spans, pauses := d.scanner.history.of(name)
	form.Known = true
	if d.options.AllowBreak {
		form.Break = "break?name=" + url.QueryEscape(name)
	}
	c.Form = form
	c.Facts = append(lockFacts(s), cell{ID: "more"}, cell{ID: "deadlock"}, cell{ID: "similar"})
	c.Tables = []table{holderTable(s), queueTable(s), spanTable(spans)}
	switch {
	case err != nil: // what holds the lock is not known
		c.doubt("Unknown: the lock could not be read: "+errorText(err), "Unknown: the lock could not be read.")
	case nothing(s) && len(spans) == 0:
		c.doubt("Nothing is stored under this name: the lock is free, or there is no such lock.", "Nothing is stored under this name.")
		if other := similar(p, name); other != "" {
			c.Facts[len(c.Facts)-1] = cell{ID: "similar", Text: visible(other, shortName), Href: lockLink(other), Note: "has a similar name"}
		}
	}
	if s.More > 0 {
		c.Facts[len(c.Facts)-3].Text = plural(s.More, "holder or waiter") + " not listed"
	}
	if stuck, _ := stuckIn(p); stuck[name] {
		c.Facts[len(c.Facts)-2] = cell{ID: "deadlock", Class: "stuck", Text: "Part of a deadlock", Href: "deadlocks"}
	}
	if err == nil && p.failed < 2 { // it is also read between two rounds, see scanner.refresh
		c.Read, c.Limit = s.read, 2*d.options.Every+p.took+lateTime
	}
	for _, t := range timelines {
		c.Pictures = append(c.Pictures, t.picture(spans, pauses, s.read))
	}
	return c
}

// lockState returns the state of a lock in the snapshot. A lock that is not there may be
// free, so its state is read. The state is empty if there is an error.
func (d *Dashboard) lockState(p *snapshot, r *http.Request, name string) (*state, error) {
	if s := p.byName[name]; s != nil {
		return s, nil
	}
	lock, err := inspect.Lock{}, inspect.ErrNotLock
	if name != "" {
		lock, err = d.scanner.inspect.Lock(r.Context(), name)
	}
	if err != nil {
		lock = inspect.Lock{Name: name}
	}
	return newState(lock, time.Now()), err
}

// doubt replaces what the page says about the state of a lock.
func (c content) doubt(state, holders string) {
	c.Facts[0] = cell{ID: "kind"}
	c.Facts[1] = cell{ID: "state", Text: state, Class: "quiet dim"}
	c.Tables[0].Empty = holders
}

// nothing reports whether a lock has no keys, like a free mutex.
func nothing(s *state) bool {
	return s.Kind == inspect.Mutex && len(s.Holders) == 0 && s.waiting() == 0 && s.Token == 0
}

// similar returns the name of a lock that has most in common with a name at its start and
// end, regardless of case, or "" if none has half of it in common.
func similar(p *snapshot, name string) (best string) {
	name = strings.ToLower(name)
	most := 0
	for _, s := range p.locks {
		other := strings.ToLower(s.Name)
		short, n := min(len(name), len(other)), 0
		for n < short && name[n] == other[n] {
			n++
		}
		for end := 0; n < short && name[len(name)-1-end] == other[len(other)-1-end]; end++ {
			n++
		}
		if n > most && 2*n >= max(len(name), len(other)) {
			best, most = s.Name, n
		}
	}
	return best
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
		t.Rows = append(t.Rows, row{ID: rowID(h.Owner + " " + string(h.Mode)), Cells: []cell{
			aboutCell(h.Client),
			{Text: visible(h.Owner, 80), Class: "owner"},
			{Text: string(h.Mode)},
			countCell(h.Holds),
			sinceCell(s.holds[i].since, s.holds[i].earlier), untilCell(s.holds[i].until, true, s.soon(i)),
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
		t.Rows = append(t.Rows, row{ID: rowID(w.Owner + " " + string(w.Kind)), Cells: []cell{
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
			ID:    rowID(s.owner + " " + string(s.mode) + " " + strconv.FormatInt(s.from.UnixNano(), 36)),
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
