package goredis

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// The kinds of tasks, named like the server's confirmations.
const (
	subscribe    = "subscribe"
	unsubscribe  = "unsubscribe"
	ssubscribe   = "ssubscribe"
	sunsubscribe = "sunsubscribe"
	ping         = "ping"
)

// A task is a command on a subscribed connection. The server answers it with one
// confirmation per channel, or with one error.
type task struct {
	kind     string
	channels []string
}

func (t task) do(sub *redis.PubSub) error {
	switch t.kind {
	case subscribe:
		return sub.Subscribe(doneCtx, t.channels...)
	case unsubscribe:
		return sub.Unsubscribe(doneCtx, t.channels...)
	case ssubscribe:
		return sub.SSubscribe(doneCtx, t.channels...)
	case sunsubscribe:
		return sub.SUnsubscribe(doneCtx, t.channels...)
	default:
		return sub.Ping(doneCtx)
	}
}

// errUnexpected is the reason to close a connection on which a reply does not
// belong to the oldest task.
var errUnexpected = errors.New("the server sent an unexpected reply on a subscription")

// A queue holds the unanswered tasks in the order in which they were sent. The
// order is needed because an error reply does not name its command.
type queue struct {
	lastReply atomic.Int64 // time of the last reply, in Unix nanoseconds
	pinged    atomic.Int64 // time of the unanswered ping in Unix nanoseconds, or zero

	mu    sync.Mutex
	tasks []task
}

// push adds a task. Call it before the task is written, since the reply may
// arrive at once.
func (q *queue) push(t task) {
	if t.kind == ping {
		q.pinged.Store(time.Now().UnixNano())
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tasks = append(q.tasks, t)
}

// answered removes a task, or one of its channels, after its confirmation.
func (q *queue) answered(kind, channel string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.tasks) == 0 || q.tasks[0].kind != kind {
		return errUnexpected
	}
	t := &q.tasks[0]
	switch {
	case kind == ping:
		q.pinged.Store(0)
	case t.channels[0] != channel:
		return errUnexpected
	case len(t.channels) > 1:
		t.channels = t.channels[1:]
		return nil
	}
	q.tasks = q.tasks[1:]
	return nil
}

// next removes and returns the oldest task.
func (q *queue) next() (t task, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.tasks) == 0 {
		return task{}, false
	}
	if t = q.tasks[0]; t.kind == ping {
		q.pinged.Store(0)
	}
	q.tasks = q.tasks[1:]
	return t, true
}

// silence returns how long the server has sent nothing since it was pinged. It
// is zero if the ping was answered.
func (q *queue) silence() time.Duration {
	pinged := q.pinged.Load()
	if pinged == 0 {
		return 0
	}
	return time.Since(time.Unix(0, max(pinged, q.lastReply.Load())))
}
