package dashboard

import (
	"bytes"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/internal/display"
)

// A page is one of the pages of the dashboard. A new page needs an entry in pages, a
// function that builds its content, and a template.
type page struct {
	path     string // relative to the dashboard; the key of its template
	template string
	title    string
	hidden   bool // not in the navigation
	build    func(*Dashboard, *snapshot, *http.Request) content
	post     func(*Dashboard, http.ResponseWriter, *http.Request)
}

// pages are all pages, in the order of the navigation.
var pages = []page{
	{path: "", template: "locks.html", title: "Locks", build: (*Dashboard).locksPage},
	{path: "lock", template: "lock.html", title: "Lock", hidden: true, build: (*Dashboard).lockPage},
	{path: "clients", template: "plain.html", title: "Clients", build: (*Dashboard).clientsPage},
	{path: "deadlocks", template: "deadlocks.html", title: "Deadlocks", build: (*Dashboard).deadlocksPage},
	{path: "limits", template: "plain.html", title: "Semaphores and limiters", build: (*Dashboard).limitsPage},
	{path: "plots", template: "plots.html", title: "Plots", build: (*Dashboard).plotsPage},
	{path: "servers", template: "servers.html", title: "Servers", build: (*Dashboard).serversPage, post: (*Dashboard).checkServers},
}

// firstWait is how long a page waits for the first round of the scanner.
const firstWait = 700 * time.Millisecond

// A document is what the templates of pages get.
type document struct {
	content
	Server string // see Options.Title
	Pages  []link
	Stream string // the path of the stream; "": none
	Now    int64  // ms
	ReadMs int64  // see content.Read
	Age    string
	Stale  bool
}

type link struct {
	Href, Text string
	Current    bool
}

func (p *page) serve(d *Dashboard, w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		p.post(d, w, r)
		return
	}
	shot := d.scanner.last()
	if !d.foreign(r) { // a link on another site costs no scan; the script of the page asks for one
		d.scanner.view(p.path)
		shot = d.scanner.fresh(r.Context(), firstWait)
	}
	stream := "events?page=" + p.path
	if r.URL.RawQuery != "" {
		stream += "&" + r.URL.Query().Encode() // the raw query may have any bytes
	}
	d.render(w, p.template, p.path, stream, p.content(d, shot, r))
}

// content builds the content of a page, with the facts that all pages have.
func (p *page) content(d *Dashboard, shot *snapshot, r *http.Request) content {
	c := p.build(d, shot, r)
	if c.Title == "" {
		c.Title = p.title
	}
	if c.Read.IsZero() {
		c.Read, c.Limit = shot.read, shot.limit
	}
	if c.Read.IsZero() && len(shot.locks) == 0 {
		c.unknown(shot.err != nil)
	}
	c.Facts = append(c.Facts, scanFact(shot), problemFact(shot), badgeFact(shot))
	return c
}

// unknown removes what an empty page says about servers that were not read yet.
func (c content) unknown(failed bool) {
	for i := range c.Tables {
		c.Tables[i].Empty = "Reading the keys …"
		if failed {
			c.Tables[i].Empty = "Unknown: the servers could not be read."
		}
	}
	for i := range c.Facts {
		if c.Facts[i].Note != "" {
			c.Facts[i].Text = "–"
		}
	}
}

// badgeFact is the number of deadlocks in the navigation.
func badgeFact(p *snapshot) cell {
	if len(p.deadlocks) == 0 {
		return cell{ID: "badge", Class: "badge"}
	}
	return cell{ID: "badge", Class: "badge", Text: display.Thousands(len(p.deadlocks))}
}

// scanFact says how old the list is, and how often it is read.
func scanFact(p *snapshot) cell {
	switch {
	case p.at.IsZero():
		return cell{ID: "scan", Text: "Reading the keys …"}
	case p.partial:
		return cell{ID: "scan", Text: "Reading the keys: " + plural(len(p.locks), "lock") + " so far …"}
	}
	return cell{ID: "scan", Text: "Read every " + roughly(p.every)}
}

// roughly returns a duration with one or two digits.
func roughly(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// problemFact says why the last round has failed, or that the list is incomplete.
func problemFact(p *snapshot) cell {
	switch {
	case p.err != nil:
		return cell{ID: "problem", Class: "bad", Text: "The servers could not be read: " + errorText(p.err)}
	case !p.complete && !p.partial:
		return cell{ID: "problem", Class: "warn", Text: "The list is incomplete: there are more keys or locks than the limits of this dashboard."}
	}
	return cell{ID: "problem"}
}

// render writes a page.
func (d *Dashboard) render(w http.ResponseWriter, name, current, stream string, c content) {
	now := time.Now()
	doc := document{content: c, Server: visible(d.options.Title, 80), Stream: stream, Now: millis(now), ReadMs: millis(c.Read), Stale: c.stale(now), Age: duration(now.Sub(c.Read))}
	if doc.Stale || stream == "" { // its times do not go on
		now = c.Read
	}
	c.fill(now)
	for _, p := range pages {
		if !p.hidden {
			href := p.path
			if href == "" {
				href = "./"
			}
			doc.Pages = append(doc.Pages, link{href, p.title, p.path == current || current == "lock" && p.path == ""})
		}
	}
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, doc); err != nil {
		http.Error(w, "The page could not be rendered.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if c.Status != 0 {
		w.WriteHeader(c.Status)
	}
	_, _ = w.Write(b.Bytes()) // the browser has gone
}

// Fact returns a fact for a template.
func (c content) Fact(id string) cell {
	for _, f := range c.Facts {
		if f.ID == id {
			return f
		}
	}
	return cell{ID: id}
}
