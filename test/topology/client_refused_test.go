package topology_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The password of the user that clients come as.
const secret = "open-sesame-4711"

// A diary is what a client has logged.
type diary struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (d *diary) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.Write(p)
}

func (d *diary) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.String()
}

// The server turns a client away in the middle of a hold: the holder is told in
// time, the client is well again when the server is, and the password appears
// nowhere.
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
				log := new(diary)
				var clients []*holdfast.Client
				var holders []*holder
				for i, w := range f {
					clients = append(clients, w.openAt(enduring(w.url), func(o *holdfast.Options) {
						o.RetryTimeout = 10 * time.Second
						o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
					}))
					holders = append(holders, w.keep(clients[i], w.key("held")))
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
					if err != nil && strings.Contains(err.Error(), secret) {
						w.errorf("the password is in an error: %v", err)
					}
				}
				for _, h := range holders {
					h.lost(lease+slack, holdfast.LossExpired, holdfast.LossUnreplicated)
					h.inTime()
				}
				s.Do(f[0], fault.undo...)
				for i, w := range f {
					// Somebody may still hear of an attempt to connect that was
					// made before.
					w.eventually(2*slack, "the client is well again", func() bool {
						l, err := clients[i].Mutex(w.key("new")).TryLock(context.Background())
						return err == nil && l.Release(context.Background()) == nil
					})
					r := w.rival(clients[i], w.key("held"))
					r.await(time.Now().Add(time.Second))
					r.after(holders[i])
					r.release()
				}
				if strings.Contains(log.String(), secret) {
					f[0].errorf("the password is in the log:\n%s", log)
				}
			})
		}
		empty(f[0], s)
	}
	user := redistest.WithUser("app", secret)
	alone(t, test, user)
	inFleet(t, modes, test, user)
}

// A server that has no room for another client says so before it is asked
// anything. That must not bring the program down.
func TestTooManyClients(t *testing.T) {
	t.Parallel()
	alone(t, func(f fleet) {
		w, s := f[0], f.master()
		ctx, stop := context.WithCancel(context.Background())
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
			time.Sleep(500 * time.Millisecond)
			s.Do(w, "CONFIG", "SET", "maxclients", "1000")
			time.Sleep(200 * time.Millisecond)
		}
	})
}

// Nobody can connect any more, and connections break: those who are in are told
// at the deadline, or are back before.
func TestClusterTooManyClients(t *testing.T) {
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
func TestClusterRightsRevoked(t *testing.T) {
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

// A journal is all that clients have said.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) add(err error) { fmt.Fprintln(j, err) }

func (j *journal) to(o *holdfast.Options) {
	o.Logger = slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (j *journal) mustNotSay(t *testing.T, secret string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if strings.Contains(j.text.String(), secret) {
		t.Errorf("a log or an error gives the password away:\n%s", j.text.String())
	}
}
