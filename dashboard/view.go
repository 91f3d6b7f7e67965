package dashboard

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/display"
)

// The types of this file are what pages consist of. A template renders them for the
// first paint, and dashboard.js renders the same values when they change. Texts are
// made visible before they get here, and both ways treat them as text only.

// A content is the changing part of a page.
type content struct {
	Title    string    `json:"-"` // of the page
	Facts    []cell    `json:"-"` // short texts, by their ids
	Tables   []table   `json:"-"`
	Pictures []picture `json:"-"`
	Form     any       `json:"-"` // what the template of the page needs besides; it does not change
	Status   int       `json:"-"` // of the response; zero: 200

	Read  time.Time     `json:"-"` // when the data was read; zero: not yet
	Limit time.Duration `json:"-"` // after this time, the data is out of date
}

// stale reports whether the content is out of date.
func (c content) stale(now time.Time) bool { return !c.Read.IsZero() && now.Sub(c.Read) > c.Limit }

// fill writes the texts of times, as of a moment, for browsers without scripts.
func (c content) fill(at time.Time) {
	for _, t := range c.Tables {
		for _, r := range t.Rows {
			for i := range r.Cells {
				switch c := &r.Cells[i]; {
				case c.Until != 0:
					c.Text = duration(time.UnixMilli(c.Until).Sub(at))
				case c.Since != 0:
					c.Text = duration(at.Sub(time.UnixMilli(c.Since)))
				}
			}
		}
	}
}

// A cell is a text with its decoration.
type cell struct {
	ID    string `json:"id,omitempty"`    // of a fact
	Text  string `json:"text,omitempty"`  // the text
	Href  string `json:"href,omitempty"`  // makes the text a link
	Class string `json:"class,omitempty"` // for the style sheet
	Note  string `json:"note,omitempty"`  // a second, smaller text
	Until int64  `json:"until,omitempty"` // counts down to this time, in ms
	Since int64  `json:"since,omitempty"` // counts up from this time, in ms
	Full  string `json:"full,omitempty"`  // the full text, if Text was cut
	Part  int    `json:"part,omitempty"`  // with Of: a bar that shows Part of Of
	Of    int    `json:"of,omitempty"`
}

// Low returns from where on a bar is amber.
func (c cell) Low() float64 { return 0.8 * float64(c.Of) }

// High returns from where on a bar is red: only a full one is.
func (c cell) High() float64 { return max(c.Low(), float64(c.Of)-0.5) }

// A table has a row per object. The id of a row is the same as long as it shows the
// same object.
type table struct {
	ID      string   `json:"id"`
	Caption string   `json:"caption"`
	Columns []column `json:"columns"`
	Rows    []row    `json:"rows"`
	Empty   string   `json:"empty"` // what to say instead of rows
}

type column struct {
	Text  string `json:"text"`
	Class string `json:"class,omitempty"`
	Href  string `json:"href,omitempty"` // sorts by this column
	Sort  string `json:"sort,omitempty"` // aria-sort
}

type row struct {
	ID    string `json:"id"`
	Class string `json:"class,omitempty"`
	Cells []cell `json:"cells"`
}

// A picture is a drawing. Its title and description are for screen readers. The style sheet
// shows a picture with the class wide or narrow only in such a window, because its texts
// shrink with it.
type picture struct {
	ID     string  `json:"id"`
	Class  string  `json:"-"` // does not change
	Title  string  `json:"title"`
	About  string  `json:"about,omitempty"`
	Width  int     `json:"width"`
	Height int     `json:"height"`
	Shapes []shape `json:"shapes"`
}

// A shape is an element of a picture. Which fields are set depends on its tag.
type shape struct {
	Tag    string `json:"tag"` // rect, line, text, path or circle
	X      int    `json:"x,omitempty"`
	Y      int    `json:"y,omitempty"`
	W      int    `json:"w,omitempty"` // of a rect; x2 of a line; r of a circle
	H      int    `json:"h,omitempty"` // of a rect; y2 of a line
	Class  string `json:"class,omitempty"`
	Path   string `json:"path,omitempty"`
	Text   string `json:"text,omitempty"`
	Anchor string `json:"anchor,omitempty"` // of a text: start, middle or end
	Hint   string `json:"hint,omitempty"`   // is shown when the pointer is on the shape
}

// duration returns a duration as dashboard.js writes it.
func duration(d time.Duration) string {
	switch s := int64(max(d, 0) / time.Second); {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d m %02d s", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%d h %02d m", s/3600, s/60%60)
	default:
		return fmt.Sprintf("%d d %02d h", s/86400, s/3600%24)
	}
}

// millis returns a time for a cell.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

const (
	shortName = 100  // characters of a name in a list
	hintName  = 512  // of the hint on a name that was cut
	longName  = 4096 // characters of a name on its own page
)

// nameCell is the name of a lock, with a link to its page.
func nameCell(name string) cell {
	c := cell{Text: visible(name, shortName), Href: lockLink(name), Class: "name"}
	if full := visible(name, hintName); full != c.Text {
		c.Full = full
	}
	if c.Text == "" {
		c.Text = `""`
	}
	return c
}

// rowID returns the id of a row for an object with a name or key. Ids are short, and are the same
// on all dashboards.
func rowID(object string) string {
	if id := url.QueryEscape(object); len(id) <= 64 {
		return id
	}
	sum := sha256.Sum256([]byte(object))
	return "#" + base64.RawURLEncoding.EncodeToString(sum[:12]) // no short id has a #
}

// lockLink is the link to the page of a lock. Names may be any bytes.
func lockLink(name string) string { return "lock?name=" + url.QueryEscape(name) }

// clientCell is the client of an owner.
func clientCell(c *inspect.Client, owner string) cell {
	if c == nil {
		return cell{Text: visible(owner, 40), Class: "dim"}
	}
	r := cell{Text: visible(c.String(), 80)}
	if c.Known() {
		r.Href = "clients?id=" + url.QueryEscape(c.ID)
	} else {
		r.Class = "dim"
	}
	return r
}

// untilCell is the time until a hold expires.
func untilCell(t time.Time, held, soon bool) cell {
	switch {
	case !held:
		return cell{Text: "–", Class: "num dim"}
	case t.IsZero():
		return cell{Text: "never", Class: "num warn"}
	}
	if soon {
		return cell{Until: millis(t), Class: "num soon"}
	}
	return cell{Until: millis(t), Class: "num"}
}

// sinceCell is the time since a moment.
func sinceCell(t time.Time, earlier bool) cell {
	if t.IsZero() {
		return cell{Text: "–", Class: "num dim"}
	}
	c := cell{Since: millis(t), Class: "num"}
	if earlier {
		c.Class += " atleast"
	}
	return c
}

// countCell is a number.
func countCell(n int) cell {
	c := cell{Text: display.Thousands(n), Class: "num"}
	if n == 0 {
		c.Class += " dim"
	}
	return c
}

// plural returns a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return display.Thousands(n) + " " + noun + "s"
}
