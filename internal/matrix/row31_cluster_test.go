package matrix_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Memory is full: nothing new is granted, and that is said at once; what is held
// is renewed and can be given back.
func TestRow31ClusterOutOfMemory(t *testing.T) {
	inOneCluster(t, func(c *redistest.Cluster, ws []*world) {
		for _, w := range ws {
			leases := w.hold(w.open(long), "a", "b")
			c.Nodes()[0].Do(t, "CONFIG", "SET", "maxmemory", "1")
			if _, err := w.clients[0].Mutex(w.prefix + "c").Lock(t.Context()); !errors.Is(err, holdfast.ErrRefused) {
				w.errorf("memory is full: %v", err)
			}
			deadline := leases[0].Deadline()
			w.eventually(2*soon, "a renewal", func() bool { return leases[0].Deadline().After(deadline.Add(100 * time.Millisecond)) })
			w.kept(leases)
			c.Nodes()[0].Do(t, "CONFIG", "SET", "maxmemory", "0")
		}
	}, patient)
}

// Servers that cannot serve for a while: what is held survives, whoever waits
// goes on waiting.
func TestRow32ClusterPassing(t *testing.T) {
	inOneCluster(t, func(c *redistest.Cluster, ws []*world) {
		master := c.Nodes()[0]
		config := func(name, value string) { master.Do(t, "CONFIG", "SET", name, value) }
		var crowds []*crowd
		leases := make(map[*world][]*holdfast.Lease)
		for _, w := range ws {
			leases[w] = w.hold(w.open(long), "held")
			crowds = append(crowds, w.crowd(2, 2))
		}
		dump := filepath.Join(master.Strings(t, "CONFIG", "GET", "dir")[1], "dump.rdb")
		for what, fault := range map[string]struct{ begin, end func() }{
			"NOREPLICAS": {func() { config("min-replicas-to-write", "3") }, func() { config("min-replicas-to-write", "0") }},
			"MISCONF": {func() {
				if err := os.Mkdir(dump, 0o700); err != nil { // which no file can replace
					t.Fatal(err)
				}
				config("save", "3600 100000")
				ws[0].eventually(10*time.Second, "saving fails", func() bool {
					_, _ = master.Try("BGSAVE")
					_, err := master.Try("SET", ws[0].prefix, "x")
					return err != nil
				})
			}, func() { config("save", ""); _ = os.Remove(dump) }},
		} {
			for _, c := range crowds {
				c.await(10)
			}
			master.Do(t, "DEL", ws[0].prefix)
			fault.begin()
			var wg sync.WaitGroup
			for _, w := range ws {
				wg.Go(func() {
					_, err := w.clients[0].Mutex(w.prefix + "other").TryLock(t.Context())
					if !errors.Is(err, holdfast.ErrUnavailable) {
						w.errorf("%s: %v", what, err)
					}
				})
			}
			wg.Wait()
			q := ws[0].line(ws[0].clients[0].Mutex(ws[0].prefix + "patient"))
			time.Sleep(300 * time.Millisecond)
			fault.end()
			q.end(20 * time.Second)
		}
		master.Do(t, "DEL", ws[0].prefix)
		for i, w := range ws {
			crowds[i].await(10)
			crowds[i].end(true)
			w.kept(leases[w])
		}
	}, patient)
}

// Nobody can connect any more, and connections break: those who are in are told
// at the deadline, or are back before.
func TestRow33ClusterConnections(t *testing.T) {
	inOneCluster(t, func(c *redistest.Cluster, ws []*world) {
		master := c.Nodes()[0]
		kill := func() {
			master.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			master.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		}
		var crowds []*crowd
		leases := make(map[*world][]*holdfast.Lease)
		for _, w := range ws {
			leases[w] = w.hold(w.open(long), "held")
			crowds = append(crowds, w.crowd(2, 2))
		}
		for _, c := range crowds {
			c.await(10)
		}
		master.Do(t, "CONFIG", "SET", "maxclients", "1")
		kill()
		time.Sleep(time.Second)
		master.Do(t, "CONFIG", "SET", "maxclients", "10000")
		for i, w := range ws {
			crowds[i].await(10)
			w.kept(leases[w])
			crowds[i].end(true)
		}
	}, patient)
}

// Rights are withdrawn and the password is changed while somebody holds. He is
// told at the deadline, and nothing says what the password was.
func TestRow33ClusterRights(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithUser("app", "topsecret"), patient)
	for _, mode := range allModes {
		w := &world{T: t, name: "cluster", url: c.URL(), mode: mode, cluster: c, prefix: tag(0, mode.Mode.String())}
		log := new(journal)
		client := w.open(log.to)
		set := func(rules ...string) {
			for _, s := range c.Nodes() {
				s.Do(t, append([]string{"ACL", "SETUSER", "app"}, rules...)...)
			}
		}
		fail := func(what string) {
			l := w.hold(client, "held")[0]
			set(map[string][]string{"rights": {"-evalsha", "-eval"}, "password": {"resetpass", ">other"}}[what]...)
			for _, s := range c.Nodes() {
				if what == "password" {
					s.Do(t, "CLIENT", "KILL", "USER", "app")
				}
			}
			deadline := l.Deadline() // it is not renewed any more; zero if it is over
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			_, err := client.Mutex(w.prefix + "other").Lock(ctx)
			cancel()
			if !errors.Is(err, holdfast.ErrRefused) {
				w.errorf("%s: %v", what, err)
			}
			log.add(err)
			at, why := loss(l, 2*lease)
			if why != holdfast.LossExpired || !deadline.IsZero() && at.After(deadline.Add(soon)) {
				w.errorf("%s: the holder was told %q at %v, its deadline was %v", what, why, at, deadline)
			}
			log.add(l.Release(t.Context()))
			set("resetpass", ">topsecret", "+@all")
			w.eventually(30*time.Second, "everything works again", func() bool { // some may still come back from being turned away
				l, err := client.Mutex(w.prefix + "held").Lock(t.Context())
				return err == nil && l.Release(t.Context()) == nil
			})
		}
		fail("rights")
		fail("password")
		log.mustNotSay(t, "topsecret")
		w.leavesNothing()
	}
}
