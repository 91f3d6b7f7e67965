package rueidis

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// maxSubscribe limits the channels in one SUBSCRIBE, so that one command does
// not delay the others for long.
const maxSubscribe = 500

// refusedDelay is the pause before a refused channel is tried again.
const refusedDelay = 5 * time.Second

// A task subscribes or unsubscribes some channels, with one command for all of
// them or, if alone is set, with one command for each.
type task struct {
	family   families
	want     bool
	alone    bool
	channels []*channelState
}

// word returns the name of the command and of its confirmation.
func (t task) word() string {
	word := "subscribe"
	if !t.want {
		word = "un" + word
	}
	if t.family == sharded {
		word = "s" + word
	}
	return word
}

// tasks empties the queue and returns the tasks that bring the subscriptions in
// line with what is wanted. Channels that may be refused come last.
func (s *subscriber) tasks() []task {
	s.mu.Lock()
	defer s.mu.Unlock()
	type group struct {
		family families
		want   bool
		alone  bool
		slot   int // sharded channels of different slots need a command each
	}
	groups := make(map[group][]*channelState)
	for _, cs := range s.queue {
		cs.queued = false
		var need families
		if cs.wanted {
			need = s.familiesOf(cs.channel)
		}
		for _, f := range []families{plain, sharded} {
			want := need&f != 0
			if want && cs.requested&f != 0 && !cs.reconfirm || !want && cs.requested&f == 0 {
				continue
			}
			g := group{family: f, want: want, alone: want && cs.alone&f != 0}
			if f == sharded && !g.alone {
				g.slot = driver.Slot(cs.channel)
			}
			groups[g] = append(groups[g], cs)
			if want {
				cs.requested |= f
			} else {
				cs.ending |= f
			}
		}
		cs.reconfirm = false
		s.forget(cs)
	}
	s.queue = nil
	var tasks, last []task
	for g, subs := range groups {
		for some := range slices.Chunk(subs, maxSubscribe) {
			if t := (task{g.family, g.want, g.alone, some}); g.alone {
				last = append(last, t)
			} else {
				tasks = append(tasks, t)
			}
		}
	}
	return append(tasks, last...)
}

// perform executes a task. It reports whether some of its channels must be tried
// again soon. It returns an error if the connection can no longer be used.
func (s *subscriber) perform(c *subConn, t task) (later bool, err error) {
	word, channels := t.word(), make([]string, len(t.channels))
	for i, cs := range t.channels {
		channels[i] = cs.channel
	}
	cmds := [][]string{append([]string{strings.ToUpper(word)}, channels...)}
	if t.alone {
		cmds = cmds[:0]
		for _, c := range channels {
			cmds = append(cmds, []string{strings.ToUpper(word), c})
		}
	}
	errs, err := c.do(s.ctx, word, channels, cmds...)
	if err != nil {
		return false, err
	}
	var refused []string
	var reason error
	s.mu.Lock()
	for i, cs := range t.channels {
		err := errs[min(i, len(errs)-1)]
		switch code := driver.CodeOf(err); {
		case err == nil:
			s.succeeded(t, cs)
			continue
		case code == "NOAUTH":
			s.mu.Unlock()
			return false, err // the next connection logs in again
		case driver.ClassOf(err) == driver.Definite:
			// The server is busy, or the slot is moving to another node. In the
			// second case the listener moves the channels once the driver knows.
			// Until then they are tried here.
			later = true
			s.enqueue(cs)
		case t.want && !t.alone && len(t.channels) > 1:
			// The server does not report which of the channels it refuses.
			cs.alone |= t.family
			s.enqueue(cs)
		default:
			if t.want == cs.wanted {
				if cs.refused == 0 {
					refused, reason = append(refused, cs.channel), err
				}
				cs.refused |= t.family
			}
			s.delay(cs)
		}
		if t.want {
			cs.requested &^= t.family
		} else {
			cs.ending &^= t.family
		}
	}
	s.mu.Unlock()
	if later {
		s.l.d.scanNow()
	}
	if len(refused) > 0 {
		s.l.h.Lost(refused, driver.Refused(reason))
	}
	return later, nil
}

// succeeded records that a task succeeded for a channel. The caller holds s.mu.
func (s *subscriber) succeeded(t task, cs *channelState) {
	cs.alone &^= t.family
	cs.refused &^= t.family
	if t.want {
		return
	}
	cs.requested &^= t.family
	s.forget(cs)
}

// delay delays the next attempt for a channel. The caller holds s.mu.
func (s *subscriber) delay(cs *channelState) {
	if cs.delayed {
		return
	}
	if len(s.delayed) == 0 {
		s.delayedSince = time.Now()
	}
	cs.delayed = true
	s.delayed = append(s.delayed, cs)
}

// retryDelayed schedules the delayed channels after refusedDelay.
func (s *subscriber) retryDelayed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.delayed) == 0 || time.Since(s.delayedSince) < refusedDelay {
		return
	}
	for _, cs := range s.delayed {
		cs.delayed = false
		s.schedule(cs)
	}
	s.delayed = nil
}
