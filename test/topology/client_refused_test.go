package topology_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The password of the user that clients come as.
const secret = "open-sesame-4711"

// The server refuses a client that holds a lock: the holder is told in time, the
// client works again when the server does, and the password appears nowhere.
func TestClientRefused(t *testing.T) {
	t.Parallel()
	faults := []struct {
		name     string
		do, undo []string
		kick     bool // connections are closed, too
		want     error
	}{
		{"maxclients", []string{"CONFIG", "SET", "maxclients", "1"}, []string{"CONFIG", "SET", "maxclients", "1000"}, true, holdfast.ErrUnavailable},
		{"revoked", []string{"ACL", "SETUSER", "app", "-@all"}, []string{"ACL", "SETUSER", "app", "+@all"}, false, holdfast.ErrRefused},
		{"rotated", []string{"ACL", "SETUSER", "app", "resetpass", ">another"}, []string{"ACL", "SETUSER", "app", "resetpass", ">" + secret}, true, holdfast.ErrRefused},
	}
	test := func(f fleet) {
		f.patient()
		s := f.master()
		for _, fault := range faults {
			f.run(fault.name, func(f fleet) {
				log := new(logbook)
				hasty := func(o *holdfast.Options) { o.RetryTimeout = 10 * time.Second }
				var clients []*holdfast.Client
				var holders holders
				for i, w := range f {
					// The server may not answer for longer than the default timeouts.
					clients = append(clients, w.openAt(with(w.url, "timeout=10s&dial_timeout=10s"), hasty, log.of))
					holders = append(holders, w.keep(clients[i], "held"))
				}
				s.Do(f[0], fault.do...)
				if fault.kick {
					s.Do(f[0], "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
				}
				for i, w := range f {
					_, err := clients[i].Mutex(w.key("new")).TryLock(context.Background())
					if !errors.Is(err, fault.want) {
						w.errorf("TryLock: %v, want %v", err, fault.want)
					}
					log.add(err)
				}
				for _, h := range holders {
					h.lost(lease+slack, holdfast.LossExpired, holdfast.LossUnreplicated)
					h.inTime()
				}
				s.Do(f[0], fault.undo...)
				for i, w := range f {
					// An attempt to connect that was made before may still fail.
					w.eventually(2*slack, "the client works again", func() bool {
						l, err := clients[i].Mutex(w.key("new")).TryLock(context.Background())
						return err == nil && l.Release(context.Background()) == nil
					})
					r := w.rival(clients[i], "held")
					r.await(time.Now().Add(time.Second))
					r.after(holders[i])
					r.release()
				}
				log.mustNotSay(f[0], secret)
			})
		}
		empty(f[0], s)
	}
	user := redistest.WithUser("app", secret)
	inSingle(t, test, user)
	inSentinels(t, sentinelModes, test, user)
}

// A server that has no room for another client says so before it is asked
// anything. That must not bring the program down.
func TestTooManyClients(t *testing.T) {
	t.Parallel()
	inSingle(t, func(f fleet) {
		w, s := f[0], f.master()
		ctx, stop := context.WithCancel(context.Background())
		var granted atomic.Int64
		var wg sync.WaitGroup
		defer wg.Wait()
		defer stop()
		for range 8 {
			c := w.open(func(o *holdfast.Options) { o.RetryTimeout = 100 * time.Millisecond })
			for range 4 {
				wg.Go(func() {
					for ctx.Err() == nil {
						call, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
						if l, err := c.Mutex("name").Lock(call); err == nil {
							granted.Add(1)
							_ = l.Release(call)
						}
						cancel()
					}
				})
			}
		}
		for range 5 {
			s.Do(w, "CONFIG", "SET", "maxclients", "1")
			s.Do(w, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			w.rejects(s, 100)
			s.Do(w, "CONFIG", "SET", "maxclients", "1000")
			before := granted.Load()
			w.eventually(2*slack, "locks are granted again", func() bool { return granted.Load() > before })
		}
	})
}

// rejects waits until a server has rejected some more connections.
func (w *world) rejects(s *redistest.Server, more int) {
	w.Helper()
	rejected := func() (n int) {
		_, rest, _ := strings.Cut(fmt.Sprint(s.Do(w, "INFO", "stats")), "rejected_connections:")
		_, _ = fmt.Sscan(rest, &n)
		return n
	}
	before := rejected()
	w.eventually(2*slack, "the server rejects connections", func() bool { return rejected() >= before+more })
}

// No client can connect any more, and connections break: each holder is told at
// the deadline, or its client is back before.
func TestClusterTooManyClients(t *testing.T) {
	inCluster(t, func(c *redistest.Cluster, f fleet) {
		master := c.Nodes()[0]
		holders := f.keep(lasting, "held")
		crowds := f.crowds(2)
		crowds.await(10)
		master.Do(t, "CONFIG", "SET", "maxclients", "1")
		master.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		master.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		f[0].rejects(master, 20)
		master.Do(t, "CONFIG", "SET", "maxclients", "10000")
		crowds.await(10)
		holders.kept()
		crowds.end()
	}, patient)
}

// Rights are withdrawn and the password is changed while a lock is held. The
// holder is told at the deadline, and nothing reveals the password.
func TestClusterRightsRevoked(t *testing.T) {
	inCluster(t, func(c *redistest.Cluster, f fleet) {
		log := new(logbook)
		set := func(rules ...string) {
			for _, s := range c.Nodes() {
				s.Do(t, append([]string{"ACL", "SETUSER", "app"}, rules...)...)
			}
		}
		for _, w := range f {
			w.open(log.of)
		}
		for _, fault := range []struct {
			name string
			do   func()
		}{
			{"rights", func() { set("-evalsha", "-eval") }},
			{"password", func() {
				set("resetpass", ">other")
				for _, s := range c.Nodes() {
					s.Do(t, "CLIENT", "KILL", "USER", "app")
				}
			}},
		} {
			leases := make(map[*world]*holdfast.Lease)
			for _, w := range f {
				leases[w] = w.hold(w.clients[0], "held")
			}
			fault.do()
			var wg sync.WaitGroup
			for _, w := range f {
				l := leases[w]
				deadline := l.Deadline() // it is not renewed any more; zero if it is over
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					_, err := w.clients[0].Mutex(w.key("other")).Lock(ctx)
					if !errors.Is(err, holdfast.ErrRefused) {
						w.errorf("%s: %v", fault.name, err)
					}
					log.add(err)
					at, why := loss(l, 2*lease)
					if why != holdfast.LossExpired || !deadline.IsZero() && at.After(deadline.Add(slack)) {
						w.errorf("%s: the holder was told %q at %v, its deadline was %v", fault.name, why, at, deadline)
					}
					log.add(l.Release(t.Context()))
				})
			}
			wg.Wait()
			set("resetpass", ">"+secret, "+@all")
			for _, w := range f {
				// An attempt to connect that was made before may still fail.
				w.eventually(30*time.Second, "everything works again", func() bool {
					l, err := w.clients[0].Mutex(w.key("held")).Lock(t.Context())
					return err == nil && l.Release(t.Context()) == nil
				})
			}
		}
		log.mustNotSay(t, secret)
	}, redistest.WithUser("app", secret), patient)
}
