package holdfast

import "log/slog"

// DefaultLogger returns the logger of a client that was given none.
func DefaultLogger() *slog.Logger { return Options{}.withDefaults().Logger }
