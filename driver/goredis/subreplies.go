package goredis

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

// receive returns the next message from the server. go-redis panics at some
// malformed messages. receive turns the panic into an error, and the subscriber
// closes the connection.
func receive(sub *redis.PubSub) (m any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the server sent a message that go-redis cannot read: %v", p)
		}
	}()
	return sub.Receive(doneCtx)
}

// readLoop handles what the server sends, until the connection breaks.
func (s *subscriber) readLoop(sub *redis.PubSub, q *queue) error {
	have := make(map[string]families) // confirmed families
	for {
		m, err := receive(sub)
		var said redis.Error
		if err != nil && !errors.As(err, &said) {
			return err
		}
		q.lastReply.Store(time.Now().UnixNano())
		switch m := m.(type) {
		case *redis.Message:
			s.l.notify(func(h driver.Handler) { h.Message(m.Channel, m.Payload) })
		case *redis.Subscription:
			err = s.confirm(q, m, have)
		case *redis.Pong:
			err = q.answered(ping, "")
		default:
			err = s.handleError(q, err)
		}
		if err != nil {
			return err
		}
	}
}

// confirm handles the confirmation that a channel is subscribed or unsubscribed.
func (s *subscriber) confirm(q *queue, m *redis.Subscription, have map[string]families) error {
	err := q.answered(m.Kind, m.Channel)
	switch m.Kind {
	case subscribe:
		have[m.Channel] |= plain
	case ssubscribe:
		have[m.Channel] |= sharded
	case unsubscribe:
		have[m.Channel] &^= plain
	case sunsubscribe:
		have[m.Channel] &^= sharded
		if err != nil { // not requested: the slot has moved
			s.reassign([]string{m.Channel}, errMoved)
			err = nil
		}
	}
	if err != nil {
		return err
	}
	now := have[m.Channel]
	if now == 0 {
		delete(have, m.Channel)
	}
	s.l.mu.Lock()
	all := now != 0 && now == s.requested[m.Channel]
	if all {
		delete(s.doubtful, m.Channel)
	}
	s.l.mu.Unlock()
	if all && (m.Kind == subscribe || m.Kind == ssubscribe) {
		s.l.subscribed(s, m.Channel)
	}
	return nil
}

// handleError handles an error reply to the oldest task.
func (s *subscriber) handleError(q *queue, err error) error {
	t, ok := q.next()
	if !ok {
		return err
	}
	if t.kind != subscribe && t.kind != ssubscribe {
		return nil
	}
	if err = classify(err); driver.ClassOf(err) == driver.Fatal {
		s.refuse(t.channels, err)
	} else {
		s.reassign(t.channels, err)
	}
	return nil
}

// refuse handles the refusal of a command with some channels. The server does
// not report which of them it refuses, so each is tried alone. A channel that is
// refused alone is reported to the handler once and retried periodically.
func (s *subscriber) refuse(channels []string, err error) {
	s.l.mu.Lock()
	var report, retry []string
	for _, c := range channels {
		r, known := s.doubtful[c]
		switch {
		case !s.wanted[c]:
			continue
		case !known && len(channels) > 1:
			s.changed[c] = true
			signal(s.signal)
		default:
			if !r.alone {
				report = append(report, c)
			}
			if !r.delayed {
				retry = append(retry, c)
			}
			r = refusal{alone: true, delayed: true}
		}
		s.doubtful[c] = r
	}
	s.l.mu.Unlock()
	if len(report) > 0 {
		s.l.lost(s, report, driver.Refused(err))
	}
	if len(retry) > 0 {
		s.retryLater(retry, refusedDelay)
	}
}

// reassign reports channels as lost and returns them to the listener. The
// listener assigns them to the node that serves them, which may be this one.
func (s *subscriber) reassign(channels []string, err error) {
	s.l.lost(s, channels, err)
	s.retryLater(channels, minPause)
}

// retryLater returns channels to the listener after a delay.
func (s *subscriber) retryLater(channels []string, delay time.Duration) {
	time.AfterFunc(delay, func() {
		s.l.mu.Lock()
		defer s.l.mu.Unlock()
		for _, c := range channels {
			if r, ok := s.doubtful[c]; ok {
				r.delayed = false
				s.doubtful[c] = r
			}
			if s.l.channels[c] == s {
				s.l.unassigned[c] = true
			}
		}
		signal(s.l.signal)
	})
}

// A refusal is the state of a channel after the server has refused a command
// with it. Such a channel gets a command of its own, so that it does not affect
// other channels.
type refusal struct {
	alone   bool // it was refused in a command of its own, and the handler was told
	delayed bool // a retry is scheduled
}

// refusedDelay is the pause before a refused channel is tried again.
const refusedDelay = 5 * time.Second
