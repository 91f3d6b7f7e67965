package dashboard

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/display"
)

// perPage is how many locks a page of the list has.
const perPage = 100

// kinds are the kinds of locks that the list can be filtered by.
var kinds = []inspect.Kind{inspect.Mutex, inspect.Fair, inspect.Fenced, inspect.Election, inspect.RW, inspect.Semaphore}

// A listForm is the form above the list.
type listForm struct {
	Query string
	Kind  string
	Sort  string
	Kinds []inspect.Kind
}

// A listView is what the user wants to see of the list.
type listView struct {
	query string // in lower case
	kind  string
	sort  string
	down  bool // the greatest first
	page  int  // the first is 0
	given url.Values
}

func newListView(r *http.Request) listView {
	v := r.URL.Query()
	l := listView{query: strings.ToLower(v.Get("q")), kind: v.Get("kind"), given: v}
	l.sort, l.down = strings.CutPrefix(v.Get("sort"), "-")
	if _, ok := orders[l.sort]; !ok {
		l.sort, l.down = "name", false
	}
	l.page, _ = strconv.Atoi(v.Get("n"))
	l.page = max(l.page-1, 0)
	return l
}

// link returns the link to a variant of the view.
func (l listView) link(changes ...string) string {
	q := make(url.Values)
	for _, name := range []string{"q", "kind", "sort"} {
		if value := l.given.Get(name); value != "" {
			q.Set(name, value)
		}
	}
	for i := 0; i < len(changes); i += 2 {
		q.Set(changes[i], changes[i+1])
	}
	if len(q) == 0 {
		return "./"
	}
	return "./?" + q.Encode()
}

// orders compare locks by a column.
var orders = map[string]func(a, b *state) int{
	"name":    func(a, b *state) int { return strings.Compare(a.Name, b.Name) },
	"waiting": func(a, b *state) int { return cmp.Compare(a.waiting(), b.waiting()) },
	"ttl":     func(a, b *state) int { return byTime(a.until(), b.until()) },
	"held": func(a, b *state) int {
		at, _ := a.since()
		bt, _ := b.since()
		return byTime(bt, at) // an earlier time is a longer one
	},
}

// byTime compares times. Zero is later than all others.
func byTime(a, b time.Time) int {
	switch {
	case a.IsZero() != b.IsZero():
		if a.IsZero() {
			return 1
		}
		return -1
	default:
		return a.Compare(b)
	}
}

// find returns the locks of the view in their order.
func (l listView) find(p *snapshot) []*state {
	found := make([]*state, 0, len(p.locks))
	for _, s := range p.locks {
		if l.kind != "" && string(s.Kind) != l.kind {
			continue
		}
		if l.query != "" && !strings.Contains(strings.ToLower(s.Name), l.query) && !strings.Contains(s.label, l.query) && !strings.Contains(strings.ToLower(visible(s.Name, longName)), l.query) {
			continue
		}
		found = append(found, s)
	}
	if l.sort == "name" && !l.down {
		return found // the order of the snapshot
	}
	order := orders[l.sort]
	slices.SortStableFunc(found, func(a, b *state) int {
		n := order(a, b)
		if l.down {
			n = -n
		}
		return n
	})
	return found
}

// column returns the head of a column that the list can be sorted by. The first click
// sorts down if that shows more of interest.
func (l listView) column(text, key, class string, down bool) column {
	c := column{Text: text, Class: class, Sort: "none"}
	if l.sort == key {
		down = !l.down
		c.Sort = "ascending"
		if l.down {
			c.Sort = "descending"
		}
	}
	if down {
		key = "-" + key
	}
	c.Href = l.link("sort", key)
	return c
}

func (d *Dashboard) locksPage(p *snapshot, r *http.Request) content {
	l := newListView(r)
	found := l.find(p)
	first := min(l.page, max(len(found)-1, 0)/perPage) * perPage
	shown := found[first:min(first+perPage, len(found))]
	t := table{
		ID: "locks", Caption: "Locks",
		Columns: []column{
			l.column("Name", "name", "", false),
			{Text: "Kind"},
			{Text: "Held by"},
			l.column("Held for", "held", "num", true),
			l.column("Expires in", "ttl", "num", false), l.column("Waiting", "waiting", "num", true),
			{Text: "Longest wait", Class: "num"},
		},
		Rows: make([]row, len(shown)),
	}
	switch {
	case p.partial:
		t.Empty = "Reading the keys …"
	case l.query != "" || l.kind != "":
		t.Empty = "No lock matches."
	default:
		t.Empty = "No locks are held."
	}
	stuck, _ := stuckIn(p)
	for i, s := range shown {
		t.Rows[i] = lockRow(s, stuck[s.Name])
	}
	c := content{Tables: []table{t}, Form: listForm{typed(l.given.Get("q")), l.kind, typed(l.given.Get("sort")), kinds}}
	held, waiting := 0, 0
	for _, s := range p.locks {
		if len(s.Holders) > 0 {
			held++
		}
		waiting += s.waiting()
	}
	c.Facts = []cell{
		{ID: "total", Text: display.Thousands(len(p.locks)), Note: noun(len(p.locks), "lock")},
		{ID: "held", Text: display.Thousands(held), Note: "held"},
		{ID: "waiting", Text: display.Thousands(waiting), Note: "waiting"},
		rangeFact(first, len(shown), len(found)),
		pagerFact("previous", "Previous", first > 0, l.link("n", strconv.Itoa(first/perPage))),
		pagerFact("next", "Next", first+len(shown) < len(found), l.link("n", strconv.Itoa(first/perPage+2))),
	}
	return c
}

func noun(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// listed adds to a note how many of n are listed, if there are more than most.
func listed(note string, n, most int) string {
	if n <= most {
		return note
	}
	return note + ", " + display.Thousands(most) + " listed"
}

func rangeFact(first, n, all int) cell {
	c := cell{ID: "range"}
	if n > 0 {
		c.Text = display.Thousands(first+1) + "–" + display.Thousands(first+n) + " of " + display.Thousands(all)
	}
	return c
}

func pagerFact(id, text string, is bool, href string) cell {
	if !is {
		return cell{ID: id}
	}
	return cell{ID: id, Text: text, Href: href, Class: "button"}
}

// lockRow is the row of a lock in the list.
func lockRow(s *state, stuck bool) row {
	since, earlier := s.since()
	holder := cell{Text: "free", Class: "dim"}
	switch {
	case s.Kind == inspect.Semaphore: // the ids of permits do not say whose they are
		holder.Text = plural(len(s.Holders)+s.moreHolders(), "permit")
	case len(s.Holders) > 0:
		holder = clientCell(s.Holders[0].Client, s.Holders[0].Owner)
		if n := len(s.Holders) + s.moreHolders(); n > 1 {
			holder.Note = "+" + display.Thousands(n-1)
		}
		if s.Leader != "" {
			holder.Note = strings.TrimSpace(holder.Note + " leader " + visible(s.Leader, 40))
		}
	}
	wait := countCell(s.waiting())
	if s.waiting() > 0 {
		wait.Class += " strong"
	}
	return row{ID: rowID(s.Name), Cells: []cell{
		mark(nameCell(s.Name), stuck),
		{Text: kindText(s), Class: "kind"},
		holder, sinceCell(since, earlier),
		untilCell(s.until(), len(s.Holders) > 0, s.anySoon()), wait, sinceCell(s.longest(), false),
	}}
}

// moreHolders returns how many holders are not listed.
func (s *state) moreHolders() int { return max(s.More-max(s.Queued-len(s.Queue), 0), 0) }

// kindText is the kind of a lock, with the mode of a read/write lock.
func kindText(s *state) string {
	if s.Kind == inspect.RW && len(s.Holders) > 0 {
		if slices.ContainsFunc(s.Holders, func(h inspect.Holder) bool { return h.Mode == inspect.Write }) {
			return "write lock"
		}
		return "read lock"
	}
	return string(s.Kind)
}
