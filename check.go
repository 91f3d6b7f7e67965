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

// A Severity says how serious a [Finding] is. A greater value is more serious.
type Severity uint8

// The severities.
const (
	// SeverityInfo is for information.
	SeverityInfo Severity = iota
	// SeverityWarning means that locks work, but a failure would do more damage
	// than with the suggested change.
	SeverityWarning
	// SeverityDanger means that locks can be lost, or do not work.
	SeverityDanger
)

// This does not compile if the values differ from those of package check.
var (
	_ = [1]struct{}{}[SeverityInfo-Severity(check.Info)]
	_ = [1]struct{}{}[SeverityWarning-Severity(check.Warning)]
	_ = [1]struct{}{}[SeverityDanger-Severity(check.Danger)]
)

// String returns the severity in lower case.
func (s Severity) String() string {
	switch s {
	case SeverityInfo:
		return "info"
	case SeverityWarning:
		return "warning"
	case SeverityDanger:
		return "danger"
	}
	return fmt.Sprintf("severity %d", uint8(s))
}

// A Finding is a problem or a remark about a server, found by [Client.Check].
type Finding struct {
	Node     string // the server
	Severity Severity
	Topic    string // the group of the finding, such as "memory"
	Text     string // what was found
	Change   string // what to change: a command or a setting
}

// String returns the finding as one line.
func (f Finding) String() string {
	return fmt.Sprintf("%v: %s: %s: %s. To change it: %s", f.Severity, f.Node, f.Topic, f.Text, f.Change)
}

// Check examines whether locks on the servers are reliable with the current
// configuration, and whether the user has all permissions that Holdfast needs. It
// returns the findings, the most serious first. If all are [SeverityInfo], the servers
// are fine. The file docs/operations.md lists all findings.
//
// Call Check when a program starts, and for example every hour. If the user has
// permission only for some keys, pass the names of some objects: Check then tests their
// keys and channels. Check changes nothing.
//
// A server that does not answer is a finding. Check fails with [ErrInvalid] if a name
// is invalid, with [ErrClosed] if the client is closed, and with the error of ctx if
// ctx is done.
func (c *Client) Check(ctx context.Context, names ...string) ([]Finding, error) {
	if err := cmp.Or(c.usable(), checkContext(ctx)); err != nil {
		return nil, &Error{Op: "check", Err: err}
	}
	keys := make([]string, len(names))
	for i, n := range names {
		keys[i] = c.prefixed(n)
		if err := script.CheckName(keys[i]); err != nil {
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
	found, err := check.Run(ctx, c.driver, wants, keys)
	switch {
	case err == nil:
	case errors.Is(err, driver.ErrClosed):
		return nil, &Error{Op: "check", Err: ErrClosed}
	default:
		return nil, because(ctx, &Error{Op: "check", Err: fmt.Errorf("%w: %w", ErrUnavailable, err)})
	}
	fs := make([]Finding, len(found))
	for i, f := range found {
		fs[i] = Finding{f.Node, Severity(f.Severity), f.Topic, f.Text, f.Change}
	}
	return fs, nil
}

// wants returns what the check needs to know about the options.
func (o Options) wants() check.Wants {
	return check.Wants{Mode: check.Mode(o.Replication.Mode.String()), Required: o.Replication.Replicas, Skew: o.ClockSkew, Lease: o.WatchdogTimeout}
}
