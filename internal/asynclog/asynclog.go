// Package asynclog keeps a logger of the user's away from the goroutines of the
// library.
//
// A slog handler is code of the user's: it may block for as long as it likes, as
// one does that writes to a full pipe. [New] returns a logger that never blocks:
// it queues records, and a goroutine of its own hands them to the user's handler
// in their order. The goroutine runs only while there is something to hand over.
// A queue that is full drops records, and says later how many.
package asynclog

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// size is how many records wait for the user's handler at most.
const size = 1024

// A queue holds the records that the user's handler has not had yet.
type queue struct {
	user slog.Handler

	mu      sync.Mutex
	entries []entry
	dropped int           // since the last record that was queued
	idle    chan struct{} // closed when the goroutine has ended; nil: there is none
}

type entry struct {
	record  slog.Record
	derive  func(slog.Handler) slog.Handler // what With and WithGroup ask for
	dropped int                             // how many were dropped before it
}

// A handler is what the library logs to.
type handler struct {
	*queue
	derive func(slog.Handler) slog.Handler
}

// New returns a logger that passes records to log, and never blocks. A logger
// that does so already, and one that discards everything, are returned as they
// are.
func New(log *slog.Logger) *slog.Logger {
	h := log.Handler()
	if _, ok := h.(*handler); ok || h == slog.DiscardHandler {
		return log
	}
	return slog.New(&handler{&queue{user: h}, func(h slog.Handler) slog.Handler { return h }})
}

// Flush waits until the user's handler has had all records of a logger that New
// has returned, or until the limit is over.
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

// Enabled queues records of all levels: only the user's handler knows which it
// wants.
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

// run hands over what is queued.
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

// note says how many records were dropped.
func (q *queue) note(dropped int) {
	r := slog.NewRecord(time.Now(), slog.LevelWarn, "log records were dropped: the logger is too slow", 0)
	r.AddAttrs(slog.Int("dropped", dropped))
	handle(q.user, r)
}

func handle(user slog.Handler, r slog.Record) {
	ctx := context.Background()
	if user.Enabled(ctx, r.Level) {
		_ = user.Handle(ctx, r) // slog itself ignores it
	}
}
