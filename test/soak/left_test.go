package soak_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// clean is how long the servers may keep what processes that were killed have left.
const clean = 20 * time.Second

// judgeLeft takes each lock and all permits once more, and judges that the servers keep nothing
// then but what docs/protocol.md lists as lasting.
func judgeLeft(tb testing.TB, g *rig, c *holdfast.Client, killed bool) (left []string) {
	ctx := context.Background()
	take := func(name string, l holdfast.Locker) {
		if got, err := l.Lock(ctx, holdfast.Wait(clean)); err != nil {
			left = append(left, fmt.Sprintf("%s cannot be taken at the end: %v", name, err))
		} else if err := got.Release(ctx); err != nil {
			left = append(left, fmt.Sprintf("%s cannot be released at the end: %v", name, err))
		}
	}
	for _, name := range lockNames(g.round) {
		switch {
		case strings.Contains(name, "fair"):
			take(name, c.FairMutex(name))
		case strings.Contains(name, "rw"):
			take(name, c.RWMutex(name))
		case strings.Contains(name, "fenced") || strings.Contains(name, "election"):
			take(name, c.FencedMutex(name))
		default:
			take(name, c.Mutex(name))
		}
	}
	for _, n := range permits {
		name := semaphoreName(g.round, n)
		take(name, c.LeasedSemaphore(name).Locker(n))
	}
	_ = c.Close()
	var now []string
	redistest.Poll(clean, func() bool {
		now = kept(tb, g, killed)
		return len(now) == 0
	})
	return append(left, now...)
}

// kept returns what is left at the servers and should not be.
func kept(tb testing.TB, g *rig, killed bool) (left []string) {
	for _, s := range g.masters() {
		for _, key := range s.Strings(tb, "KEYS", "*") {
			if !lasts(key, g.round, killed && s.Int(tb, "PTTL", key) > 0) {
				left = append(left, "key "+key)
			}
		}
		for _, channel := range slices.Concat(s.Channels(tb), s.ShardChannels(tb)) {
			if !strings.HasPrefix(channel, "__sentinel__") {
				left = append(left, "channel "+channel)
			}
		}
	}
	for _, n := range permits {
		name := semaphoreName(g.round, n)
		s := g.master(name)
		if free, taken := s.Int(tb, "GET", name), s.Int(tb, "ZCARD", "{"+name+"}:timeout"); free != int64(n) || taken != 0 {
			left = append(left, fmt.Sprintf("%s has %d of %d permits, and %d are taken", name, free, n, taken))
		}
	}
	return left
}

// lasts reports whether a key may stay. The queue of waiters that were killed expires.
func lasts(key, round string, expires bool) bool {
	for _, prefix := range []string{"redisson_lock_token:", "holdfast:client:", "holdfast:once:", round + "semaphore", "{" + round + "semaphore"} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	for _, prefix := range []string{"redisson_lock_queue:", "redisson_lock_timeout:", "holdfast:queue:", "holdfast:waiting:"} {
		if expires && strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// memory returns how many bytes the masters use.
func memory(tb testing.TB, servers []*redistest.Server) (total int64) {
	for _, s := range servers {
		info, _ := s.Do(tb, "INFO", "memory").(string)
		for line := range strings.Lines(info) {
			var n int64
			if _, err := fmt.Sscanf(line, "used_memory:%d", &n); err == nil {
				total += n
			}
		}
	}
	return total
}
