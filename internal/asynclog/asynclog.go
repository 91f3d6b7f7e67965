// Package asynclog isolates the goroutines of the library from the logger of
// the user.
//
// A slog handler is user code and may block, for example if it writes to a full
// pipe. [New] returns a logger that never blocks: it queues records, and a
// separate goroutine passes them to the user's handler in order. The goroutine
// runs only while the queue has records. If the queue is full, records are
// dropped, and the number of dropped records is logged later.
package asynclog

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// size is the maximum number of queued records.
const size = 1024

// A queue holds the records that the user's handler has not handled yet.
type queue struct {
	user slog.Handler

	mu      sync.Mutex
	entries []entry
	dropped int           // number of records dropped since the last queued record
	idle    chan struct{} // closed when the goroutine ends; nil if it does not run
}

type entry struct {
	record  slog.Record
	derive  func(slog.Handler) slog.Handler // adds the attributes and groups
	dropped int                             // number of records dropped before it
}

// A handler is the slog handler of the library.
type handler struct {
	*queue
	derive func(slog.Handler) slog.Handler
}

// New returns a logger that passes records to log and never blocks. If log is
// already such a logger, or discards everything, New returns log.
func New(log *slog.Logger) *slog.Logger {
	h := log.Handler()
	if _, ok := h.(*handler); ok || h == slog.DiscardHandler {
		return log
	}
	return slog.New(&handler{&queue{user: h}, func(h slog.Handler) slog.Handler { return h }})
}

// Flush waits until the user's handler has handled all records of a logger that
// New has returned, or until the limit has passed.
func Flush(log *slog.Logger, limit time.Duration) {
	h, ok := log.Handler().(*handler)
	if !ok {
		return
	}
	h.mu.Lock()
	idle := h.idle
	h.mu.Unlock()
	if idle == nil {
		return
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}

// Enabled returns true for all levels: only the user's handler knows which
// levels it needs.
func (*handler) Enabled(context.Context, slog.Level) bool { return true }

// Handle queues a record.
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.entries) >= size {
		h.dropped++
		return nil
	}
	h.entries = append(h.entries, entry{r.Clone(), h.derive, h.dropped})
	h.dropped = 0
	if h.idle == nil {
		h.idle = make(chan struct{})
		go h.run(h.idle)
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.queue, func(user slog.Handler) slog.Handler { return h.derive(user).WithAttrs(attrs) }}
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.queue, func(user slog.Handler) slog.Handler { return h.derive(user).WithGroup(name) }}
}

// run passes the queued records to the handler.
func (q *queue) run(idle chan struct{}) {
	defer close(idle)
	for {
		q.mu.Lock()
		if len(q.entries) == 0 {
			dropped := q.dropped
			q.dropped = 0
			if dropped == 0 {
				q.entries, q.idle = nil, nil
				q.mu.Unlock()
				return
			}
			q.mu.Unlock()
			q.note(dropped)
			continue
		}
		e := q.entries[0]
		q.entries = q.entries[1:]
		q.mu.Unlock()
		if e.dropped > 0 {
			q.note(e.dropped)
		}
		handle(e.derive(q.user), e.record)
	}
}

// note logs how many records were dropped.
func (q *queue) note(dropped int) {
	r := slog.NewRecord(time.Now(), slog.LevelWarn, "log records were dropped: the logger is too slow", 0)
	r.AddAttrs(slog.Int("dropped", dropped))
	handle(q.user, r)
}

func handle(user slog.Handler, r slog.Record) {
	ctx := context.Background()
	if user.Enabled(ctx, r.Level) {
		_ = user.Handle(ctx, r) // slog ignores the error, too
	}
}
