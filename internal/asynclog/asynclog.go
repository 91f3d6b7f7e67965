// Package asynclog isolates the goroutines of the library from the logger of
// the user.
//
// A slog handler is user code and may block, for example if it writes to a full
// pipe. [New] returns a logger that never blocks: it queues records, and a
// separate goroutine passes them to the user's handler in order, see package
// async. If the queue is full, records are dropped, and the number of dropped
// records is logged later.
package asynclog

import (
	"context"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/internal/async"
)

// size is the maximum number of queued records.
const size = 1024

// An entry is a record for the handler of the user.
type entry struct {
	record slog.Record
	derive func(slog.Handler) slog.Handler // adds the attributes and groups
}

// A handler is the slog handler of the library.
type handler struct {
	*async.Queue[entry]
	derive func(slog.Handler) slog.Handler
}

// New returns a logger that passes records to log and never blocks. It calls blocked if
// the handler of log does not return for async.BlockedTime. If log is already such a
// logger, or discards everything, New returns log.
func New(log *slog.Logger, blocked func()) *slog.Logger {
	user := log.Handler()
	if _, ok := user.(*handler); ok || user == slog.DiscardHandler {
		return log
	}
	queue := async.New(size, 0, async.User[entry]{
		Handle: func(e entry) { handle(e.derive(user), e.record) },
		Dropped: func(n int) {
			r := slog.NewRecord(time.Now(), slog.LevelWarn, "log records were dropped: the logger is too slow", 0)
			r.AddAttrs(slog.Int("dropped", n))
			handle(user, r)
		},
		Panicked: func(any) {}, // there is no other place to report it
		Blocked:  blocked,
	})
	return slog.New(&handler{queue, func(h slog.Handler) slog.Handler { return h }})
}

// Flush waits until the user's handler has handled all records of a logger that
// New has returned, or until the limit has passed.
func Flush(log *slog.Logger, limit time.Duration) {
	if h, ok := log.Handler().(*handler); ok {
		h.Flush(limit)
	}
}

// Stats returns how many records of a logger that New has returned were dropped,
// and for how long the user's handler has handled the present one.
func Stats(log *slog.Logger) (dropped uint64, blocked time.Duration) {
	if h, ok := log.Handler().(*handler); ok {
		return h.Dropped(), h.Blocked()
	}
	return 0, 0
}

// Enabled returns true for all levels: only the user's handler knows which
// levels it needs.
func (*handler) Enabled(context.Context, slog.Level) bool { return true }

// Handle queues a record.
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	h.Put(entry{r.Clone(), h.derive})
	return nil
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.Queue, func(user slog.Handler) slog.Handler { return h.derive(user).WithAttrs(attrs) }}
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.Queue, func(user slog.Handler) slog.Handler { return h.derive(user).WithGroup(name) }}
}

func handle(user slog.Handler, r slog.Record) {
	ctx := context.Background()
	if user.Enabled(ctx, r.Level) {
		_ = user.Handle(ctx, r) // slog ignores the error, too
	}
}
