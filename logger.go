package holdfast

import (
	"context"
	"log/slog"

	"github.com/holdfast-go/holdfast/driver"
)

// warnings is the default handler. It passes warnings and errors to the handler
// that slog.Default() has at that time. So a program that does not set
// [Options.Logger] still gets them.
type warnings struct {
	with func(slog.Handler) slog.Handler // adds attributes and groups; nil: none
}

// target returns the handler that gets the records.
func (w warnings) target() slog.Handler {
	h := slog.Default().Handler()
	if w.with != nil {
		h = w.with(h)
	}
	return h
}

// Enabled implements [slog.Handler].
func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && slog.Default().Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (w warnings) Handle(ctx context.Context, r slog.Record) error {
	return w.target().Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{func(slog.Handler) slog.Handler { return w.target().WithAttrs(attrs) }}
}

// WithGroup implements [slog.Handler].
func (w warnings) WithGroup(name string) slog.Handler {
	return warnings{func(slog.Handler) slog.Handler { return w.target().WithGroup(name) }}
}

// The warnings about insecure TLS connections.
const (
	unverifiedText = "the TLS certificates of the servers are not verified: an attacker on the network can impersonate a server, read the password and grant locks"
	anyHostText    = "the host names in the TLS certificates of the servers are not verified: an attacker with a certificate from a trusted authority can impersonate a server, read the password and grant locks"
)

// unverified reports whether a driver does not verify certificates.
func unverified(d driver.Driver) bool {
	u, ok := d.(interface{ Unverified() bool })
	return ok && u.Unverified()
}
