package goredis

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// The kinds of tasks, by the names that the server has for them.
const (
	subscribe    = "subscribe"
	unsubscribe  = "unsubscribe"
	ssubscribe   = "ssubscribe"
	sunsubscribe = "sunsubscribe"
	ping         = "ping"
)

// A task is a command on a subscribed connection. It has an answer for each of
// its channels, or one if it fails.
type task struct {
	kind     string
	channels []string
}

func (t task) do(sub *redis.PubSub) error {
	switch t.kind {
	case subscribe:
		return sub.Subscribe(dead, t.channels...)
	case unsubscribe:
		return sub.Unsubscribe(dead, t.channels...)
	case ssubscribe:
		return sub.SSubscribe(dead, t.channels...)
	case sunsubscribe:
		return sub.SUnsubscribe(dead, t.channels...)
	default:
		return sub.Ping(dead)
	}
}

// errOutOfStep is why a connection is given up that answers what nobody asked.
var errOutOfStep = errors.New("the subscription has answered something else than it was asked")

// A queue has the tasks that are not answered yet, in their order: an error
// does not say which it is about.
type queue struct {
	heard  atomic.Int64 // when anything was, in Unix nanoseconds
	pinged atomic.Int64 // when the server was, zero if it has answered

	mu    sync.Mutex
	tasks []task
}

// push adds a task. That comes before it is written, since the answer may be
// quick.
func (q *queue) push(t task) {
	if t.kind == ping {
		q.pinged.Store(time.Now().UnixNano())
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tasks = append(q.tasks, t)
}

// answered takes off what has been answered.
func (q *queue) answered(kind, channel string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.tasks) == 0 || q.tasks[0].kind != kind {
		return errOutOfStep
	}
	t := &q.tasks[0]
	switch {
	case kind == ping:
		q.pinged.Store(0)
	case t.channels[0] != channel:
		return errOutOfStep
	case len(t.channels) > 1:
		t.channels = t.channels[1:]
		return nil
	}
	q.tasks = q.tasks[1:]
	return nil
}

// next takes off the next task.
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

// waiting returns for how long the server has said nothing although it was
// pinged.
func (q *queue) waiting() time.Duration {
	pinged := q.pinged.Load()
	if pinged == 0 {
		return 0
	}
	return time.Since(time.Unix(0, max(pinged, q.heard.Load())))
}
