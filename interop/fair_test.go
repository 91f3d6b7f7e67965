package interop_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Threads and goroutines get the lock in the order of the queue.
func TestFairOrder(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		const waiters, rounds = 10, 4
		for round := range rounds {
			holder := l.either(t, round)
			holder.Lock(t, 0)
			for i := range waiters {
				l.join(t, l.either(t, i+round/2))
			}
			l.wantQueue(t)
			l.serve(t, holder.Unlock(t), slack)
		}
		wantNothingLeft(t, l.server, l.name)
	})
}

// Both sides use one queue in the same format. Its times do not make a waiter look dead to
// the other side.
func TestFairQueue(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		holder := l.goroutine()
		holder.Lock(t, time.Minute)
		var owners []string
		for i := range 4 {
			p := l.either(t, i)
			owner := ""
			if java, ok := p.(*javaParty); ok {
				owner = java.Owner(t)
			}
			at := l.join(t, p)
			if owner == "" && !strings.HasPrefix(at.owner, clientID(holder.Owner(t))+":") {
				t.Errorf("the owner of a waiting goroutine is %s", at.owner)
			}
			if owner != "" && at.owner != owner {
				t.Errorf("the owner of a waiting thread is %s, want %s", at.owner, owner)
			}
			owners = append(owners, at.owner)
		}
		l.wantQueue(t)

		limits := l.server.Strings(t, "ZRANGE", limitsKey(l.name), "0", "-1")
		if !sameSet(limits, owners) {
			t.Errorf("limits of %q, want those of %q", limits, owners)
		}
		signs := l.server.Strings(t, "ZRANGE", signsKey(l.name), "0", "-1")
		if want := []string{owners[1], owners[3]}; !sameSet(signs, want) {
			t.Errorf("heartbeats of %q, want those of %q", signs, want)
		}

		// Redisson: the limit of the previous waiter, or the remaining lease, plus 300 s.
		// Holdfast: the limit of the previous thread. All were written within the last
		// seconds.
		const turn = 300 * time.Second
		for i, want := range []time.Duration{time.Minute + turn, time.Minute + turn, time.Minute + 2*turn, time.Minute + 2*turn} {
			if got := l.left(t, limitsKey(l.name), owners[i]); got > want || got < want-8*time.Second {
				t.Errorf("remaining limit of waiter %d is %v, want %v", i, got, want)
			}
		}
		l.serve(t, holder.Unlock(t), slack)
		wantNothingLeft(t, l.server, l.name)
	})
}

// clientID returns the first half of an owner id.
func clientID(owner string) string { return owner[:strings.LastIndexByte(owner, ':')] }

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// The holder of a fair lock can enter it again before the waiters.
func TestFairReentry(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		for i := range 2 {
			holder := l.either(t, i)
			holder.Lock(t, 0)
			l.join(t, l.either(t, i+1))
			l.join(t, l.either(t, i))
			holder.Lock(t, 0)
			if n := l.server.Int(t, "HGET", l.name, holder.Owner(t)); n != 2 {
				t.Errorf("held %d times, want 2", n)
			}
			holder.Unlock(t)
			l.wantQueue(t)
			if l.either(t, i+1).TryLock(t, 0, 0) {
				t.Error("another party acquired a held lock")
			}
			l.serve(t, holder.Unlock(t), slack)
		}
		wantNothingLeft(t, l.server, l.name)
	})
}

// A lock that one side breaks goes to the next waiter in the queue.
func TestFairForce(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		forces := []func() bool{
			func() bool { return fair.java(t, l.java, l.name).do(t, "", "forceUnlock").Bool() },
			func() bool {
				freed, err := l.golang.FairMutex(l.name).ForceUnlock(t.Context())
				return freed && err == nil
			},
		}
		for i, force := range forces {
			for n := range 2 {
				holder := l.either(t, n)
				holder.Lock(t, 0)
				for m := range 4 {
					l.join(t, l.either(t, m+i))
				}
				begin := redistest.Now()
				if !force() {
					t.Error("nothing was freed")
				}
				l.serve(t, begin, slack)
				// Redisson's unlock of a free fair lock is not an error.
				if g, ok := holder.(*goParty); ok && g.leases[0].Release(t.Context()) == nil {
					t.Error("the holder got no error for its broken lock")
				}
			}
		}
		wantNothingLeft(t, l.server, l.name)
	})
}
