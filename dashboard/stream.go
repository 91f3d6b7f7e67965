package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	maxStreams = 100              // browsers that receive updates
	writeTime  = 5 * time.Second  // after this time a slow browser is disconnected; it connects again
	quietTime  = 20 * time.Second // after this time without changes, a comment shows that the stream is alive
	retryTime  = 2 * time.Second  // after this time a browser connects again
)

type streams struct{ n atomic.Int64 }

// A message contains what has changed on a page.
type message struct {
	Now      int64              `json:"now"`
	Read     int64              `json:"read"`  // see content.Read
	Limit    int64              `json:"limit"` // ms; see content.Limit
	Facts    []cell             `json:"facts,omitempty"`
	Tables   map[string]*update `json:"tables,omitempty"`
	Pictures []picture          `json:"pictures,omitempty"`
}

// An update contains what has changed in a table: all columns, or nothing; the ids of
// all rows in their order; and the rows that are new or different.
type update struct {
	Columns []column `json:"columns,omitempty"`
	Order   []string `json:"order"`
	Rows    []row    `json:"rows,omitempty"`
	Empty   string   `json:"empty,omitempty"`
	Caption string   `json:"caption,omitempty"`
}

// serveEvents sends the changes of a page as server-sent events. A browser has at most
// one message under way. It gets the newest state and skips those in between.
func (d *Dashboard) serveEvents(w http.ResponseWriter, r *http.Request) {
	p := pageOf(r.URL.Query().Get("page"))
	if p == nil {
		http.Error(w, "There is no such page.", http.StatusNotFound)
		return
	}
	if d.streams.n.Add(1) > maxStreams {
		d.streams.n.Add(-1)
		http.Error(w, "Too many browsers are connected.", http.StatusServiceUnavailable)
		return
	}
	defer d.streams.n.Add(-1)
	lock := ""
	if p.path == "lock" {
		lock = r.URL.Query().Get("name")
	}
	defer d.scanner.open(p.path, lock)()
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would collect events
	send := func(format string, args ...any) bool {
		_ = out.SetWriteDeadline(time.Now().Add(writeTime)) // not supported: the browser may be slow
		_, err := fmt.Fprintf(w, format, args...)
		return err == nil && out.Flush() == nil
	}
	if !send("retry: %d\n\n", retryTime.Milliseconds()) {
		return
	}
	var sent differ
	for {
		next := d.scanner.next()
		if shot := d.scanner.current.Load(); shot != nil {
			if data := sent.diff(p.content(d, shot, r)); data != nil && !send("data: %s\n\n", data) {
				return
			}
		}
		select {
		case <-next:
		case <-time.After(quietTime):
			if !send(": alive\n\n") {
				return
			}
		case <-r.Context().Done():
			return
		case <-d.ctx.Done():
			return
		}
	}
}

func pageOf(path string) *page {
	for i := range pages {
		if pages[i].path == path {
			return &pages[i]
		}
	}
	return nil
}

// A differ knows what was sent to a browser.
type differ struct{ known map[string]string }

// diff returns the message with what has changed, or nil if nothing has.
func (s *differ) diff(c content) []byte {
	now := make(map[string]string, len(s.known))
	m, some := message{Now: time.Now().UnixMilli(), Read: millis(c.Read), Limit: c.Limit.Milliseconds()}, s.known == nil
	changed := func(key string, v any) bool {
		text, err := json.Marshal(v)
		if err != nil {
			return false // cannot happen: the types have only texts and numbers
		}
		now[key] = string(text)
		differs := s.known[key] != now[key]
		some = some || differs
		return differs
	}
	changed("read", []int64{m.Read, m.Limit})
	for _, f := range c.Facts {
		if changed("fact "+f.ID, f) {
			m.Facts = append(m.Facts, f)
		}
	}
	for _, t := range c.Tables {
		u := &update{Order: make([]string, len(t.Rows)), Empty: t.Empty, Caption: t.Caption}
		if changed("columns "+t.ID, t.Columns) {
			u.Columns = t.Columns
		}
		for i, r := range t.Rows {
			u.Order[i] = r.ID
			if changed("row "+t.ID+" "+r.ID, r) {
				u.Rows = append(u.Rows, r)
			}
		}
		if changed("order "+t.ID, []any{u.Order, t.Empty, t.Caption}) || u.Columns != nil || u.Rows != nil {
			if m.Tables == nil {
				m.Tables = make(map[string]*update)
			}
			m.Tables[t.ID] = u
		}
	}
	for _, p := range c.Pictures {
		if changed("picture "+p.ID, p) {
			m.Pictures = append(m.Pictures, p)
		}
	}
	s.known = now
	if !some {
		return nil
	}
	data, _ := json.Marshal(m)
	return data
}
