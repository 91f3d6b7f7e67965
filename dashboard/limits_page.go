package dashboard

import (
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/display"
)

func (d *Dashboard) limitsPage(p *snapshot, _ *http.Request) content {
	c := content{Tables: []table{semaphoreTable(p), limiterTable(p)}}
	semaphores := 0
	for _, s := range p.locks {
		if s.Kind == inspect.Semaphore {
			semaphores++
		}
	}
	c.Facts = []cell{
		{ID: "total", Text: display.Thousands(semaphores), Note: listed(noun(semaphores, "semaphore")+" in use", semaphores, mostLimits)},
		{ID: "rates", Text: display.Thousands(len(p.limiters)), Note: listed(noun(len(p.limiters), "rate limiter"), len(p.limiters), mostLimits)},
		{ID: "message"},
	}
	if p.limitersErr != nil {
		c.Facts[2] = cell{ID: "message", Class: "warn", Text: "The rate limiters could not be read: " + errorText(p.limitersErr)}
	}
	return c
}

// mostLimits is how many semaphores and how many limiters are listed.
const mostLimits = 500

func semaphoreTable(p *snapshot) table {
	t := table{
		ID: "semaphores", Caption: "Semaphores", Empty: "No permits are taken, and none are awaited.",
		Columns: []column{{Text: "Name"}, {Text: "Use"}, {Text: "Taken", Class: "num"}, {Text: "Permits", Class: "num"}, {Text: "Waiting", Class: "num"}, {Text: "Longest wait", Class: "num"}, {Text: "First expires in", Class: "num"}},
	}
	stuck, _ := stuckIn(p)
	for _, s := range p.locks {
		if s.Kind != inspect.Semaphore || len(t.Rows) == mostLimits {
			continue
		}
		taken := len(s.Holders) + s.moreHolders()
		use, all := cell{Text: "–", Class: "dim"}, cell{Text: "–", Class: "num dim"}
		if free, ok := p.free[s.Name]; ok {
			use, all = cell{Part: taken, Of: max(taken+free, 1), Text: percent(taken, taken+free)}, countCell(taken+free)
		}
		t.Rows = append(t.Rows, row{ID: rowID(s.Name), Cells: []cell{
			mark(nameCell(s.Name), stuck[s.Name]), use, countCell(taken), all, countCell(s.waiting()), sinceCell(s.longest(), false), untilCell(s.until(), taken > 0, s.anySoon()),
		}})
	}
	return t
}

func limiterTable(p *snapshot) table {
	t := table{
		ID: "limiters", Caption: "Rate limiters", Empty: "There are no rate limiters.",
		Columns: []column{{Text: "Name"}, {Text: "Use"}, {Text: "Used", Class: "num"}, {Text: "Permits", Class: "num"}, {Text: "Per", Class: "num"}, {Text: "Shared by"}},
	}
	for _, l := range p.limiters[:min(len(p.limiters), mostLimits)] {
		name := nameCell(l.Name)
		name.Href = "" // it is not a lock
		use, used, scope := cell{Text: "–", Class: "dim"}, cell{Text: "–", Class: "num dim"}, "all clients"
		if l.Used >= 0 {
			use, used = cell{Part: min(l.Used, l.Permits), Of: max(l.Permits, 1), Text: percent(l.Used, l.Permits)}, countCell(l.Used)
			if l.Used > l.Permits {
				used.Note = display.Thousands(l.Used-l.Permits) + " reserved"
			}
		}
		if l.PerClient {
			scope = "none: each client has its own"
		}
		t.Rows = append(t.Rows, row{ID: rowID(l.Name), Cells: []cell{name, use, used, countCell(l.Permits), {Text: interval(l.Per), Class: "num"}, {Text: scope}}})
	}
	return t
}

// interval returns the interval of a rate.
func interval(d time.Duration) string {
	if d%time.Second == 0 {
		return duration(d)
	}
	return display.Thousands(int(d.Milliseconds())) + " ms"
}

func percent(part, of int) string {
	if of <= 0 {
		return "0 %"
	}
	return display.Thousands(int(min(100*float64(part)/float64(of), 100))) + " %"
}
