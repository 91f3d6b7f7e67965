// Package check examines whether locks on the servers are reliable: settings
// with which locks can be lost, and permissions that the scripts need and the
// user lacks.
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

// A Severity says how serious a finding is.
type Severity uint8

// The severities.
const (
	Info    Severity = iota // for information
	Warning                 // a failure has worse effects than necessary
	Danger                  // locks can be lost, or do not work
)

// A Finding is a problem or a remark, and what to change.
type Finding struct {
	Node     string
	Severity Severity
	Topic    string
	Text     string
	Change   string
}

// A Mode says when a write counts as done.
type Mode string

// The modes.
const (
	Async  Mode = "async"  // the master has the write
	Acked  Mode = "acked"  // a replica has the write, if there is a replica
	Strict Mode = "strict" // the required number of replicas has the write
)

// Wants contains the requirements of a client.
type Wants struct {
	Mode     Mode
	Required int           // number of replicas that must have a write, in mode Strict
	Skew     time.Duration // maximum difference between the clocks of the servers; 0 if not configured
	Lease    time.Duration // the longest lease time
	Insecure string        // the problem with TLS; empty if there is none
}

// required returns how many replicas must have a write.
func (w Wants) required() int {
	switch w.Mode {
	case Strict:
		return w.Required
	case Acked:
		return 1
	}
	return 0
}

// Run checks all servers, and the permissions of the user for objects with the
// given names. It returns the findings, the most serious first. It fails if the
// driver is closed or ctx is done.
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
		return nil, driver.Unsent(err) // some findings may be a result of the timeout
	}
	for i := range fs {
		fs[i].Text = clip(fs[i].Text)
	}
	slices.SortStableFunc(fs, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Topic, b.Topic))
	})
	return fs, nil
}

// surely repeats the check of the clocks, and returns the findings only if they
// persist: a delayed answer looks like a wrong clock.
func surely(ctx context.Context, d driver.Driver, w Wants, fs []Finding) []Finding {
	for range 3 {
		if fs == nil {
			return nil
		}
		fs = clocks(w, d.Facts(ctx))
	}
	return fs
}

// longest is the maximum length of the text of a finding in bytes, because it
// may contain a message of a server.
const longest = 4000

func clip(text string) string {
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "..."
	}
	return text
}
