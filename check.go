package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/check"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A Severity says how bad a [Finding] is. A greater one is worse.
type Severity uint8

// The severities.
const (
	Info    = Severity(check.Info)    // good to know
	Warning = Severity(check.Warning) // a fault costs more than it has to
	Danger  = Severity(check.Danger)  // locks can be lost, or do not work
)

// String returns the severity in lower case.
func (s Severity) String() string {
	switch s {
	case Info:
		return "info"
	case Warning:
		return "warning"
	case Danger:
		return "danger"
	}
	return fmt.Sprintf("severity %d", uint8(s))
}

// A Finding is something about a server that [Client.Check] has found.
type Finding struct {
	Node     string // which server
	Severity Severity
	Topic    string // such as "memory": of one kind are all findings of a topic
	Text     string // what is so
	Change   string // what to change: a command, or a setting
}

// String returns the finding in one line.
func (f Finding) String() string {
	return fmt.Sprintf("%v: %s: %s: %s. To change it: %s", f.Severity, f.Node, f.Topic, f.Text, f.Change)
}

// Check looks whether the servers are set up such that locks there can be relied
// on, and whether the user may do all that Holdfast needs. It returns what it has
// found, the worst first; with nothing but [Info] all is well. What there is to
// find, and its cures, are in docs/operations.md.
//
// A program does well to call it when it starts, and every hour. Give it the
// names of some objects if the user may not use all keys: then it tries the keys
// and channels of these. It changes nothing.
//
// A server that does not answer is a finding. Check itself fails with
// [ErrInvalid] if a name makes no sense, with [ErrClosed], and with the error of
// ctx.
func (c *Client) Check(ctx context.Context, names ...string) ([]Finding, error) {
	if err := cmp.Or(c.usable(), checkContext(ctx)); err != nil {
		return nil, &Error{Op: "check", Err: err}
	}
	for _, n := range names {
		if err := script.CheckName(n); err != nil {
			return nil, &Error{Op: "check", Err: invalid("%.80q: %w", n, err)}
		}
	}
	wants := c.options.wants()
	switch {
	case unverified(c.driver):
		wants.Insecure = unverifiedText
	case c.anyHost:
		wants.Insecure = anyHostText
	}
	found, err := check.Run(ctx, c.driver, wants, names)
	switch {
	case err == nil:
	case errors.Is(err, driver.ErrClosed):
		return nil, &Error{Op: "check", Err: ErrClosed}
	default:
		return nil, &Error{Op: "check", Err: fmt.Errorf("%w: %w", ErrUnavailable, err)}
	}
	fs := make([]Finding, len(found))
	for i, f := range found {
		fs[i] = Finding{f.Node, Severity(f.Severity), f.Topic, f.Text, f.Change}
	}
	return fs, nil
}

// wants are what these options rely on.
func (o Options) wants() check.Wants {
	return check.Wants{Mode: check.Mode(o.Replication.Mode.String()), Required: o.Replication.Replicas, Skew: o.ClockSkew, Lease: o.WatchdogTimeout}
}
