// Package check looks at servers with the eyes of somebody who relies on the
// locks there: what is set such that they can be lost, and what the user is not
// allowed that scripts need.
package check

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A Severity says how bad a finding is.
type Severity uint8

// The severities.
const (
	Info    Severity = iota // good to know
	Warning                 // a fault costs more than it has to
	Danger                  // locks can be lost, or do not work
)

// A Finding is something that is so, and what to change.
type Finding struct {
	Node     string
	Severity Severity
	Topic    string
	Text     string
	Change   string
}

// A Mode says when a write counts.
type Mode string

// The modes.
const (
	Async  Mode = "async"  // when the master has it
	Acked  Mode = "acked"  // when a replica has it, if there is any
	Strict Mode = "strict" // when so many replicas have it
)

// Wants are what a client relies on.
type Wants struct {
	Mode     Mode
	Required int           // replicas that must have a write, in the mode Strict
	Skew     time.Duration // by which clocks of servers may differ; 0: nobody has said
	Lease    time.Duration // the longest
	Insecure string        // what is wrong with the use of TLS; empty: nothing
}

// required is how many replicas must have a write.
func (w Wants) required() int {
	switch w.Mode {
	case Strict:
		return w.Required
	case Acked:
		return 1
	}
	return 0
}

// Run checks all servers, and what the user may do with objects of those names.
// The findings are sorted, the worst first. It fails if the driver is closed, or
// ctx done.
func Run(ctx context.Context, d driver.Driver, w Wants, names []string) ([]Finding, error) {
	facts := d.Facts(ctx)
	if err := ctx.Err(); err != nil {
		return nil, driver.Unsent(err)
	}
	if len(facts) == 0 {
		return nil, driver.Unsent(errors.New("no server is known"))
	}
	if f := facts[0]; f.Node == "" && f.Err != nil { // no server was asked
		return nil, f.Err
	}
	var fs []Finding
	for _, f := range facts {
		if errors.Is(f.Err, driver.ErrClosed) {
			return nil, f.Err
		}
		fs = append(fs, settings(w, f)...)
	}
	fs = append(fs, surely(ctx, d, w, clocks(w, facts))...)
	fs = append(fs, rights(ctx, d, w, facts, names)...)
	if err := ctx.Err(); err != nil {
		return nil, driver.Unsent(err) // some of it is only that there was no time
	}
	for i := range fs {
		fs[i].Text = clip(fs[i].Text)
	}
	slices.SortStableFunc(fs, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Topic, b.Topic))
	})
	return fs, nil
}

// surely returns the findings about clocks if they stay: an answer that came
// late is taken for a clock that is wrong.
func surely(ctx context.Context, d driver.Driver, w Wants, fs []Finding) []Finding {
	for range 3 {
		if fs == nil {
			return nil
		}
		fs = clocks(w, d.Facts(ctx))
	}
	return fs
}

// longest is how many bytes the text of a finding has: there may be something in
// it that a server has said.
const longest = 4000

func clip(text string) string {
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "..."
	}
	return text
}
