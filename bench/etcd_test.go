package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func init() {
	versions["etcd"] = func() (version, error) {
		etcd, err := newEtcdClient(os.Getenv("TEST_ETCD"))
		if err != nil {
			return nil, err
		}
		session, err := concurrency.NewSession(etcd, concurrency.WithTTL(etcdTTL))
		return func(_ context.Context, fn func(context.Context) error) error {
			m := concurrency.NewMutex(session, "order:42")
			if err := m.Lock(session.Ctx()); err != nil {
				return err
			}
			defer m.Unlock(context.Background())
			return fn(session.Ctx())
		}, err
	}
	versions["etcd and holdfast"] = func() (version, error) {
		etcd, err := newEtcdClient(os.Getenv("TEST_ETCD"))
		if err != nil {
			return nil, err
		}
		client, err := openInFleet()
		return func(ctx context.Context, fn func(context.Context) error) error {
			return doWithBoth(ctx, etcd, client, "order:42", fn)
		}, err
	}
}

// etcdTTL is how many seconds a lock of etcd lasts after its process has died.
const etcdTTL = 5

func newEtcdClient(url string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{url}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
}

// startEtcd starts a server and returns its URL. The test is skipped if etcd is not installed.
func startEtcd(t *testing.T) string {
	t.Helper()
	bin, err := exec.LookPath("etcd")
	if err != nil {
		t.Skip("etcd is not installed: the migration from etcd was not tested (./scripts/deps --databases)")
	}
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	client, peer := freeURL(t), freeURL(t)
	cmd := exec.Command(bin, "--name", "test", "--data-dir", filepath.Join(dir, "data"),
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "test="+peer)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("etcd:\n%s", text[max(0, len(text)-2000):])
		}
	})
	c := openEtcd(t, client)
	locktest.Eventually(t, time.Minute, "an answer of etcd", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Get(ctx, "up")
		return err == nil
	})
	return client
}

func freeURL(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprint("http://", l.Addr())
}

func openEtcd(t *testing.T, url string) *clientv3.Client {
	t.Helper()
	c := locktest.Must[*clientv3.Client](t)(newEtcdClient(url))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func newSession(t *testing.T, c *clientv3.Client) *concurrency.Session {
	t.Helper()
	session := locktest.Must[*concurrency.Session](t)(concurrency.NewSession(c, concurrency.WithTTL(etcdTTL)))
	t.Cleanup(session.Orphan)
	return session
}

// A fleet migrates from etcd as docs/from-etcd.md says. No two processes have the lock at the
// same time, and each gets it.
func TestMigrationFromEtcd(t *testing.T) {
	t.Parallel()
	url, s := startEtcd(t), redistest.Start(t)
	migrate(t, []string{"TEST_URL=" + s.URL(), "TEST_ETCD=" + url}, "etcd", "etcd and holdfast", "holdfast")
}

// The context of doWithBoth is done when either lock is lost, and both are released.
func TestBothLost(t *testing.T) {
	t.Parallel()
	url, s := startEtcd(t), redistest.Start(t)
	etcd := openEtcd(t, url)
	client := locktest.Open(t, s.URL(), holdfast.Options{WatchdogTimeout: 3 * time.Second})
	mutex := concurrency.NewMutex(newSession(t, etcd), "order:42")
	for name, test := range map[string]struct {
		lose func(t *testing.T)
		want error
	}{
		"etcd": {func(t *testing.T) {
			all := locktest.Must[*clientv3.LeaseLeasesResponse](t)(etcd.Leases(t.Context()))
			for _, l := range all.Leases {
				resp := locktest.Must[*clientv3.LeaseTimeToLiveResponse](t)(etcd.TimeToLive(t.Context(), l.ID, clientv3.WithAttachedKeys()))
				if len(resp.Keys) > 0 {
					_ = locktest.Must[*clientv3.LeaseRevokeResponse](t)(etcd.Revoke(t.Context(), l.ID))
				}
			}
		}, concurrency.ErrSessionExpired},
		"holdfast": {func(t *testing.T) { s.Do(t, "DEL", "order:42") }, holdfast.ErrLost},
		"neither":  {func(*testing.T) {}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			err := doWithBoth(t.Context(), etcd, client, "order:42", func(ctx context.Context) error {
				if err := mutex.TryLock(ctx); !errors.Is(err, concurrency.ErrLocked) {
					t.Errorf("etcd: %v", err)
				}
				locktest.WantRefused(t, client.Mutex("order:42"))
				if test.lose(t); test.want == nil {
					return nil
				}
				if _, ok := locktest.Receive(ctx.Done(), time.Minute); !ok {
					t.Error("the context is not done")
				}
				return context.Cause(ctx)
			})
			if !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			locktest.WantFree(t, client.Mutex("order:42"))
			if err := mutex.TryLock(t.Context()); err != nil {
				t.Errorf("etcd: %v", err)
			} else if err := mutex.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// Calls with one session of etcd do not exclude each other, as docs/from-etcd.md says.
func TestOneSession(t *testing.T) {
	t.Parallel()
	session := newSession(t, openEtcd(t, startEtcd(t)))
	for range 2 {
		if err := concurrency.NewMutex(session, "order:42").TryLock(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
