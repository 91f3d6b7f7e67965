package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const (
	first  = "first-password"
	second = "second-password"
)

// A vault has the current password of the users.
type vault struct {
	mu       sync.Mutex
	password rueidis.Secret
	err      error
	asked    map[bool]int // by whether the server is a sentinel
}

func newVault() *vault { return &vault{password: first, asked: make(map[bool]int)} }

func (v *vault) credentials(_ context.Context, peer rueidis.Peer) (string, rueidis.Secret, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked[peer.Sentinel]++
	if peer.Sentinel {
		return "watcher", v.password, v.err
	}
	return "app", v.password, v.err
}

func (v *vault) set(password rueidis.Secret, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.password, v.err = password, err
}

// awaitAsked waits until a client asks n more times for the credentials of a server.
func (v *vault) awaitAsked(t *testing.T, n int) {
	t.Helper()
	asked := func() int {
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.asked[false]
	}
	before := asked()
	locktest.Eventually(t, patience, "the client asks for credentials", func() bool { return asked() >= before+n })
}

// rotate replaces the password of a user and ends the connections of that user.
func rotate(t *testing.T, user string, servers ...*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		s.Do(t, "ACL", "SETUSER", user, ">"+second, "<"+first)
	}
	for _, s := range servers {
		s.Do(t, "CLIENT", "KILL", "USER", user)
	}
}

// through returns a Config for the same servers with credentials from a vault.
func through(t *testing.T, url string, v *vault) rueidis.Config {
	c := config(t, url)
	c.Username, c.Password, c.SentinelUsername, c.SentinelPassword = "", "", "", ""
	c.Credentials = v.credentials
	return c
}

// A deployment is servers with the user app, and sentinels with the user watcher.
type deployment struct {
	url       string
	servers   []*redistest.Server
	sentinels []*redistest.Server
}

var deployments = map[string]func(t *testing.T) deployment{
	"single": func(t *testing.T) deployment {
		s := redistest.StartWith(t, redistest.WithUser("app", first))
		return deployment{s.URL(), []*redistest.Server{s}, nil}
	},
	"resp2": func(t *testing.T) deployment {
		s := redistest.StartWith(t, redistest.WithUser("app", first))
		return deployment{s.URL() + "?protocol=2", []*redistest.Server{s}, nil}
	},
	"replicated": func(t *testing.T) deployment {
		r := redistest.StartReplicated(t, 1, redistest.WithUser("app", first))
		return deployment{r.URL(), r.Nodes(), nil}
	},
	"sentinel": func(t *testing.T) deployment {
		s := redistest.StartSentinels(t, redistest.WithReplicas(1), redistest.WithUser("app", first), redistest.WithSentinelPassword("watcher", first))
		return deployment{s.URL(), s.Nodes(), s.Sentinels()}
	},
	"cluster": func(t *testing.T) deployment {
		c := redistest.StartCluster(t, redistest.WithReplicas(0), redistest.WithUser("app", first))
		return deployment{c.URL(), c.Nodes(), nil}
	},
}

// A held lease survives a change of the password, and a message wakes a waiter.
func TestRotation(t *testing.T) {
	for name, start := range deployments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, v := start(t), newVault()
			holder, waiter := open(t, through(t, d.url, v)), open(t, through(t, d.url, v))
			held := locktest.Lock(t, t.Context(), holder.Mutex("m"))
			w := wait(t.Context(), waiter.Mutex("m"))
			locktest.Eventually(t, patience, "a subscription", func() bool { return subscribed(t, d.servers) })
			v.mu.Lock()
			clear(v.asked)
			v.mu.Unlock()

			v.set(second, nil)
			rotate(t, "app", d.servers...)
			rotate(t, "watcher", d.sentinels...)
			renewed(t, held)
			locktest.Eventually(t, patience, "a new subscription", func() bool { return subscribed(t, d.servers) })
			locktest.Release(t, held)
			locktest.Release(t, w.granted(t))
			v.mu.Lock()
			defer v.mu.Unlock()
			if v.asked[false] == 0 || (v.asked[true] > 0) != (d.sentinels != nil) {
				t.Errorf("asked for credentials of %d servers and %d sentinels", v.asked[false], v.asked[true])
			}
		})
	}
}

// subscribed reports whether app is subscribed to a channel on one of the servers.
func subscribed(t *testing.T, servers []*redistest.Server) bool {
	for _, s := range servers {
		for line := range strings.Lines(s.Do(t, "CLIENT", "LIST", "TYPE", "PUBSUB").(string)) {
			if strings.Contains(line, "user=app") {
				return true
			}
		}
	}
	return false
}

// A lease survives that the function returns the old password for a while, and
// that it fails for a while. A password that the server rejects is not final.
func TestLateRotation(t *testing.T) {
	t.Parallel()
	s, v := redistest.StartWith(t, redistest.WithUser("app", first)), newVault()
	c := open(t, through(t, s.URL(), v))
	held := locktest.Lock(t, t.Context(), c.Mutex("m"))
	rotate(t, "app", s)
	w := wait(t.Context(), c.Mutex("other")) // retries for ten seconds
	v.awaitAsked(t, 2)
	v.set("", errors.New("the vault is sealed"))
	v.awaitAsked(t, 2)
	v.set(second, nil)
	locktest.Release(t, w.granted(t))
	renewed(t, held)
	locktest.Release(t, held)
}

// A function that fails delays no more than its connection, and no error has its
// text.
func TestFailingCredentials(t *testing.T) {
	t.Parallel()
	const limit = 300 * time.Millisecond
	s := redistest.StartWith(t, redistest.WithUser("app", first))
	stuck := make(chan struct{})
	t.Cleanup(func() { close(stuck) })
	cause := errors.New("token " + first + " has expired")
	for name, tt := range map[string]struct {
		f    func(context.Context, rueidis.Peer) (string, rueidis.Secret, error)
		want string
	}{
		"error": {func(context.Context, rueidis.Peer) (string, rueidis.Secret, error) { return "", "", cause }, "failed with an error of type *errors.errorString"},
		"panic": {func(context.Context, rueidis.Peer) (string, rueidis.Secret, error) { panic(first) }, "panicked with a value of type string"},
		"block": {func(context.Context, rueidis.Peer) (string, rueidis.Secret, error) { <-stuck; return "", "", nil }, "did not return within 300ms"},
		"context": {func(ctx context.Context, _ rueidis.Peer) (string, rueidis.Secret, error) {
			<-ctx.Done()
			return "", "", ctx.Err()
		}, "Config.Credentials "},
		"wrong": {func(context.Context, rueidis.Peer) (string, rueidis.Secret, error) { return "app", second, nil }, "rejects what Config.Credentials returned: WRONGPASS"},
	} {
		for _, mode := range []rueidis.Mode{rueidis.Single, rueidis.Replicated} {
			t.Run(fmt.Sprint(name, "/", mode), func(t *testing.T) {
				t.Parallel()
				c := rueidis.Config{Addr: s.Addr(), DialTimeout: limit, Credentials: tt.f}
				if mode == rueidis.Replicated {
					c.Mode, c.Addr, c.Addrs = mode, "", []string{s.Addr()}
				}
				begin := time.Now()
				_, err := rueidis.Open(t.Context(), c)
				if err == nil || driver.ClassOf(err) != driver.Definite {
					t.Fatalf("%v, want an error that permits another attempt", err)
				}
				if text := err.Error(); !strings.Contains(text, tt.want) || strings.Contains(text, first) || strings.Contains(text, second) {
					t.Errorf("%v, want %q and no password", err, tt.want)
				}
				if name == "error" && !errors.Is(err, cause) {
					t.Errorf("%v does not wrap its cause", err)
				}
				if took := time.Since(begin); took > patience/4 {
					t.Errorf("Open took %v", took)
				}
			})
		}
	}
}

// A blocked call of the function does not delay calls on other connections.
func TestBlockedCredentials(t *testing.T) {
	t.Parallel()
	s := redistest.StartWith(t, redistest.WithUser("app", first))
	var calls atomic.Int32
	c := config(t, s.URL())
	c.Username, c.Password = "", ""
	c.Credentials = func(ctx context.Context, _ rueidis.Peer) (string, rueidis.Secret, error) {
		if calls.Add(1) > 1 { // the first is that of the connection for commands
			<-ctx.Done()
		}
		return "app", first, ctx.Err()
	}
	other, client := open(t, config(t, s.URL())), open(t, c)
	locktest.Lock(t, t.Context(), other.Mutex("m"))
	held := locktest.Lock(t, t.Context(), client.Mutex("held"))
	ctx, cancel := context.WithCancel(t.Context())
	w := wait(ctx, client.Mutex("m"))
	locktest.Eventually(t, patience, "a connection for subscriptions", func() bool { return calls.Load() > 1 })
	begin := time.Now()
	locktest.Release(t, locktest.Lock(t, t.Context(), client.Mutex("other")))
	if took := time.Since(begin); took > time.Second {
		t.Errorf("a lock took %v", took)
	}
	renewed(t, held)
	cancel()
	<-w.done
	locktest.Release(t, held)
}
