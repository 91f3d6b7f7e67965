package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/sale"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
	"github.com/holdfast-go/holdfast/internal/display"
)

// printSettings prints the settings of the sale.
func (d *demo) printSettings(m *sale.Market, what demoServer) {
	s := d.screen()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s, one per person. %s, %s.\n",
		s.Paint(term.Bold, "A flash sale:"), plural(m.Stock, "coupon"), plural(m.Buyers, "buyer"), plural(m.Clicks(), "click"))
	demoParagraph(&b, s, fmt.Sprintf("%d shops, each a process. Orders are in %s. Locks and order ids are on %s.", m.Shops, m.DB.Kind, what.name), "", term.Plain)
	if what.limits != "" {
		demoParagraph(&b, s, "("+what.limits+".)", "", term.Dim)
	}
	demoParagraph(&b, s, fmt.Sprintf("--seed %d repeats these clicks and payments. Their timing may differ.", m.Seed), "", term.Plain)
	if !sale.CanPause {
		fmt.Fprintln(&b, "This system cannot stop processes: paused and fenced are skipped.")
	}
	_, _ = io.WriteString(s, b.String()+"\n")
}

// show prints the table with an explanation under each row. The titles have two
// lines so that the table fits into 80 columns.
func (d *demo) show(results []sale.Result) {
	s := d.screen()
	t := term.Table{Titles: []string{"", " ", " over-", " double", " lost", " orders", " click", " to order", ""}}
	t.Add("", "sold", "sold", "orders", "updates", "per s", "p50", "p99")
	for i := range t.Rows[0] {
		t.Rows[0][i].Style = term.Bold
	}
	for _, r := range results {
		verdict, style := "broken", term.Red
		switch {
		case r.Spotless() && r.Way.Ours:
			verdict, style = "spotless", term.Green
		case r.Spotless():
			verdict, style = "lucky", term.Yellow
		case r.Way.Pause:
			verdict = "unfenced"
		}
		t.Rows = append(t.Rows, []term.Cell{
			{Text: r.Way.Row, Style: term.Bold},
			{Text: display.Thousands(r.Sold)},
			demoFaults(r.Oversold()),
			demoFaults(r.Double()),
			demoFaults(r.Lost()),
			{Text: display.Thousands(int(r.PerSecond() + 0.5))},
			{Text: demoTime(r.Quantile(0.5))},
			{Text: demoTime(r.Quantile(0.99))},
			{Text: verdict, Style: style},
		})
	}
	lines := strings.Split(t.Text(s), "\n")
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", lines[0], lines[1])
	for i, r := range results {
		fmt.Fprintln(&b, lines[i+2])
		demoParagraph(&b, s, r.Why(), "  ", term.Dim)
	}
	if len(results) == len(sale.Ways()) && demoVerdict(results) == nil {
		fmt.Fprintln(&b)
		demoParagraph(&b, s, "Use a lock that is renewed while its holder runs. Where a late write would do harm, let the database check the fencing token. README.md shows both in Go.", "", term.Plain)
	}
	_, _ = io.WriteString(s, b.String())
}

func demoFaults(n int) term.Cell {
	if n == 0 {
		return term.Cell{Text: "0"}
	}
	return term.Cell{Text: display.Thousands(n), Style: term.Red}
}

func demoTime(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

// demoParagraph writes text wrapped at 80 columns or at the terminal width.
func demoParagraph(b *strings.Builder, s *term.Screen, text, indent string, style term.Style) {
	width, _ := s.Size()
	width = min(width, 80) - len(indent)
	line := ""
	for _, w := range strings.Fields(text) {
		if line != "" && len(line)+1+len(w) > width {
			fmt.Fprintln(b, indent+s.Paint(style, line))
			line = ""
		}
		line = strings.TrimSpace(line + " " + w)
	}
	fmt.Fprintln(b, indent+s.Paint(style, line))
}

// demoDocument is the JSON output. The help of the command describes it.
type demoDocument struct {
	Seed     uint64    `json:"seed"`
	Shops    int       `json:"shops"`
	Buyers   int       `json:"buyers"`
	Clicks   int       `json:"clicks"`
	Stock    int       `json:"stock"`
	Server   string    `json:"server"`
	Embedded bool      `json:"embedded"`
	Database string    `json:"database"`
	Ways     []demoWay `json:"ways"`
	OK       bool      `json:"ok"`
}

type demoWay struct {
	Way             string  `json:"way"`
	Title           string  `json:"title"`
	Sold            int     `json:"sold"`
	Oversold        int     `json:"oversold"`
	Unsold          int     `json:"unsold"`
	DoubleOrders    int     `json:"doubleOrders"`
	LostUpdates     int     `json:"lostUpdates"`
	Refused         int     `json:"refused"`
	OrdersPerSecond float64 `json:"ordersPerSecond"`
	P50Ms           float64 `json:"p50Ms"`
	P99Ms           float64 `json:"p99Ms"`
	DurationMs      float64 `json:"durationMs"`
	PausedShop      int     `json:"pausedShop,omitempty"`
	PauseMs         float64 `json:"pauseMs,omitempty"`
	SoldMeanwhile   int     `json:"soldMeanwhile,omitempty"`
	Spotless        bool    `json:"spotless"`
	MustBeSpotless  bool    `json:"mustBeSpotless"`
	Why             string  `json:"why"`
}

func (d *demo) writeJSON(m *sale.Market, what demoServer, results []sale.Result) error {
	verdict := demoVerdict(results)
	doc := demoDocument{m.Seed, m.Shops, m.Buyers, m.Clicks(), m.Stock, what.name, what.limits != "", m.DB.Kind, nil, verdict == nil}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	for _, r := range results {
		doc.Ways = append(doc.Ways, demoWay{
			r.Way.Name, r.Way.Title, r.Sold, r.Oversold(), r.Unsold(), r.Double(), r.Lost(), r.Refused,
			r.PerSecond(), ms(r.Quantile(0.5)), ms(r.Quantile(0.99)), ms(r.Took),
			r.Paused, ms(r.Pause), r.Meanwhile, r.Spotless(), r.Way.Ours, r.Why(),
		})
	}
	if err := d.printJSON(doc); err != nil {
		return err
	}
	return verdict
}
