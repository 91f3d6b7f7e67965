package dashboard

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/display"
)

// A usage is a client with what it holds and waits for.
type usage struct {
	inspect.Client
	holds, waits []string
}

// mostNames is how many locks of a client are listed.
const mostNames = 3

// usages returns all clients: those that have said who they are, and the owners of holds
// and of places in queues.
func usages(p *snapshot) []*usage {
	byID := make(map[string]*usage)
	get := func(c *inspect.Client) *usage {
		u := byID[c.ID]
		if u == nil {
			u = &usage{Client: *c}
			byID[c.ID] = u
		}
		return u
	}
	for i := range p.clients {
		get(&p.clients[i])
	}
	for _, l := range p.locks {
		for _, h := range l.Holders {
			if h.Client != nil {
				u := get(h.Client)
				u.holds = append(u.holds, l.Name)
			}
		}
		for _, w := range l.Queue {
			if w.Client != nil {
				u := get(w.Client)
				u.waits = append(u.waits, l.Name)
			}
		}
	}
	list := make([]*usage, 0, len(byID))
	for _, u := range byID {
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b *usage) int {
		return cmp.Or(cmp.Compare(len(b.holds), len(a.holds)), cmp.Compare(len(b.waits), len(a.waits)), strings.Compare(a.String(), b.String()), strings.Compare(a.ID, b.ID))
	})
	return list
}

func (d *Dashboard) clientsPage(p *snapshot, r *http.Request) content {
	id := r.URL.Query().Get("id")
	t := table{
		ID: "clients", Caption: "Clients", Empty: "No clients are known.",
		Columns: []column{
			{Text: "Client"},
			{Text: "Host"},
			{Text: "Process", Class: "num"},
			{Text: "Program"},
			{Text: "Label"},
			{Text: "Library"},
			{Text: "Open for", Class: "num"},
			{Text: "Holds"},
			{Text: "Waits for"},
		},
	}
	all := usages(p)
	_, stuck := stuckIn(p)
	const most = 1000
	for _, u := range all {
		if id != "" && u.ID != id {
			continue
		}
		if len(t.Rows) == most {
			break
		}
		r := clientRow(u, id != "")
		r.Cells[0] = mark(r.Cells[0], stuck[u.ID])
		t.Rows = append(t.Rows, r)
	}
	c := content{Tables: []table{t}}
	note := listed(noun(len(all), "client"), len(all), most)
	c.Facts = []cell{{ID: "total", Text: display.Thousands(len(all)), Note: note}, {ID: "message"}}
	if id != "" {
		c.Title = "Client"
		c.Facts = append(c.Facts, cell{ID: "all", Text: "All clients", Href: "clients", Class: "button"})
		if len(t.Rows) == 1 {
			c.Tables = append(c.Tables, nameTable("holds", "Holds", all, id, func(u *usage) []string { return u.holds }), nameTable("waits", "Waits for", all, id, func(u *usage) []string { return u.waits }))
		}
	}
	if p.clientsErr != nil {
		c.Facts[1] = cell{ID: "message", Class: "warn", Text: "The clients that hold nothing could not be read: " + errorText(p.clientsErr)}
	}
	return c
}

// nameTable lists all locks of a client.
func nameTable(id, caption string, all []*usage, client string, of func(*usage) []string) table {
	t := table{ID: id, Caption: caption, Columns: []column{{Text: "Lock"}}, Empty: "None."}
	i := slices.IndexFunc(all, func(u *usage) bool { return u.ID == client })
	names := of(all[i])
	const most = 500
	for _, name := range names[:min(len(names), most)] {
		c := nameCell(name)
		t.Rows = append(t.Rows, row{ID: rowID(name), Cells: []cell{c}})
	}
	if len(names) > most {
		t.Rows = append(t.Rows, row{ID: "more", Cells: []cell{{Text: display.Thousands(len(names)-most) + " more", Class: "dim"}}})
	}
	return t
}

func clientRow(u *usage, alone bool) row {
	name := cell{Text: visible(strings.SplitN(u.ID, "-", 2)[0], 40), Full: visible(u.ID, 80), Class: "name"}
	if !alone {
		name.Href = "clients?id=" + url.QueryEscape(u.ID)
	}
	host := visible(u.Host, 60)
	if u.Pod != "" {
		host = visible(u.Pod, 60)
	}
	process := cell{Text: strconv.Itoa(u.PID), Class: "num"}
	if u.PID == 0 {
		process.Text = ""
	}
	library := visible(u.Library, 40)
	if u.Java {
		library = "Redisson"
	}
	return row{ID: rowID(u.ID), Cells: []cell{
		name,
		{Text: host},
		process,
		{Text: visible(strings.TrimSpace(u.Program+" "+u.Version), 60)},
		{Text: visible(u.Label, 60)},
		{Text: library},
		sinceCell(u.Since, false), namesCell(u.holds), namesCell(u.waits),
	}}
}

// namesCell lists some names.
func namesCell(names []string) cell {
	if len(names) == 0 {
		return cell{Text: "–", Class: "dim"}
	}
	if len(names) == 1 {
		c := nameCell(names[0])
		c.Text = visible(names[0], 40)
		return c
	}
	return cell{Text: display.Thousands(len(names)), Note: someNames(names, 30)}
}
