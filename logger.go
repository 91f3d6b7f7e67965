package holdfast

import (
	"context"
	"log/slog"

	"github.com/holdfast-go/holdfast/driver"
)

// warnings is the default handler: it passes warnings and errors on to
// slog.Default(), as that is when they happen. A program that never heard of
// [Options.Logger] learns that way of what no return value tells.
//
// The levels are a contract. Warn is for what the user must know and can act on;
// a warning that comes often, or that the user cannot act on, is a defect. Info
// and Debug are for programs that set a logger. The library does not write to
// standard error, which belongs to the program.
type warnings struct {
	with func(slog.Handler) slog.Handler // nil: as it is
}

// target returns the handler to pass records on to.
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

// The warnings about TLS connections that are not safe.
const (
	unverifiedText = "the TLS certificates of the servers are not verified: an attacker on the network can impersonate a server, read the password and grant locks"
	anyHostText    = "the host names in the TLS certificates of the servers are not verified: an attacker with a certificate from a trusted authority can impersonate a server, read the password and grant locks"
)

// unverified reports whether a driver says that it does not check certificates.
func unverified(d driver.Driver) bool {
	u, ok := d.(interface{ Unverified() bool })
	return ok && u.Unverified()
}
