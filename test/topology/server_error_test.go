package topology_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A serverError is a state in which a server answers everything with an error.
type serverError struct {
	code   string
	single bool // only without Sentinels, which would correct it
	probe  []string
	begin  func(w *world, s *redistest.Server)
	end    func(w *world, s *redistest.Server)
}

// snapshot is where a server would save its data, if it could.
func snapshot(w *world, s *redistest.Server) string {
	return filepath.Join(s.Strings(w, "CONFIG", "GET", "dir")[1], "dump.rdb")
}

var (
	set = []string{"SET", "probe", "x", "PX", "1"}
	get = []string{"GET", "probe"}
)

var serverErrors = []serverError{
	{
		code: "MISCONF", probe: set,
		begin: func(w *world, s *redistest.Server) {
			if err := os.MkdirAll(filepath.Join(snapshot(w, s), "x"), 0o700); err != nil {
				w.Fatal(err)
			}
			s.Do(w, "CONFIG", "SET", "save", "3600 1")
			_, _ = s.Try("BGSAVE")
		},
		end: func(w *world, s *redistest.Server) {
			s.Do(w, "CONFIG", "SET", "save", "")
			_ = os.RemoveAll(snapshot(w, s))
		},
	},
	{
		code: "NOREPLICAS", probe: set,
		begin: func(w *world, s *redistest.Server) { s.Do(w, "CONFIG", "SET", "min-replicas-to-write", "9") },
		end:   func(w *world, s *redistest.Server) { s.Do(w, "CONFIG", "SET", "min-replicas-to-write", "0") },
	},
	{
		code: "READONLY", single: true, probe: set,
		begin: func(w *world, s *redistest.Server) { s.Do(w, "REPLICAOF", "127.0.0.1", "1") },
		end:   func(w *world, s *redistest.Server) { s.Do(w, "REPLICAOF", "NO", "ONE") },
	},
	{
		code: "MASTERDOWN", single: true, probe: get,
		begin: func(w *world, s *redistest.Server) {
			s.Do(w, "CONFIG", "SET", "replica-serve-stale-data", "no")
			s.Do(w, "REPLICAOF", "127.0.0.1", "1")
		},
		end: func(w *world, s *redistest.Server) { s.Do(w, "REPLICAOF", "NO", "ONE") },
	},
	{
		code: "LOADING", single: true, probe: get,
		begin: func(w *world, s *redistest.Server) {
			s.Do(w, "CONFIG", "SET", "key-load-delay", "5000")
			s.Do(w, "CONFIG", "SET", "loading-process-events-interval-bytes", "1024")
			s.Do(w, "DEBUG", "POPULATE", "4000", "filler")
			conn, err := net.Dial("tcp", s.Addr()) // its own, since it takes twenty seconds, or until it is told to hurry
			if err != nil {
				w.Fatal(err)
			}
			w.Cleanup(func() { conn.Close() })
			_, _ = conn.Write([]byte("DEBUG RELOAD\r\n"))
		},
		end: func(w *world, s *redistest.Server) {
			s.Do(w, "CONFIG", "SET", "key-load-delay", "0")
			w.eventually(20*time.Second, "the server has loaded its data", func() bool {
				_, err := s.Try("PING")
				return err == nil
			})
			s.Do(w, "EVAL", "for _, k in ipairs(redis.call('KEYS', 'filler*')) do redis.call('DEL', k) end", "0")
		},
	},
}

// A server that cannot serve says so: TryLock fails with ErrUnavailable, which
// names the reason; Lock waits until it is over, and what is held is kept as
// long as its lease lasts.
func TestServerErrors(t *testing.T) {
	t.Parallel()
	test := func(f fleet) {
		f.patient()
		s := f.master()
		for _, a := range serverErrors {
			if a.single && f.sentinels() != nil {
				continue
			}
			f.run(a.code, func(f fleet) {
				if a.code == "LOADING" && !redistest.HasSharded() {
					f[0].Skip("servers before 7.0 do not answer often enough while they load data slowly")
				}
				var clients []*holdfast.Client
				var holders []*holder
				var rivals []*rival
				for i, w := range f {
					clients = append(clients, w.open(leaseTime(30*time.Second)))
					holders = append(holders, w.keep(clients[i], "held"))
				}
				w := f[0]
				a.begin(w, s)
				w.eventually(30*time.Second, "the server says "+a.code, func() bool {
					_, err := s.Try(a.probe...)
					return err != nil && strings.HasPrefix(err.Error(), a.code)
				})
				for i, w := range f {
					_, err := clients[i].Mutex(w.key("new")).TryLock(context.Background())
					if !errors.Is(err, holdfast.ErrUnavailable) || err != nil && !strings.Contains(err.Error(), a.code) {
						w.errorf("TryLock: %v", err)
					}
					rivals = append(rivals, w.rival(clients[i], "later"))
				}
				a.end(w, s)
				healed := time.Now()
				for i, r := range rivals {
					r.await(healed.Add(time.Second))
					r.release()
					holders[i].kept()
				}
			})
		}
		empty(f[0], s)
	}
	inSingle(t, test, redistest.Args("--enable-debug-command", "local"))
	inSentinels(t, sentinelModes, test)
}

// Memory is full: nothing new is granted, and calls fail at once; what is held is
// renewed and can be released.
func TestClusterOutOfMemory(t *testing.T) {
	inCluster(t, func(c *redistest.Cluster, f fleet) {
		holders := f.keep(lasting, "a", "b")
		c.Nodes()[0].Do(t, "CONFIG", "SET", "maxmemory", "1")
		for _, w := range f {
			if _, err := w.clients[0].Mutex(w.key("c")).Lock(t.Context()); !errors.Is(err, holdfast.ErrRefused) {
				w.errorf("memory is full: %v", err)
			}
		}
		holders.renewed()
		holders.kept()
		c.Nodes()[0].Do(t, "CONFIG", "SET", "maxmemory", "0")
	}, patient)
}

// Servers cannot serve for a while: what is held survives, and waiters go on
// waiting.
func TestClusterServerErrors(t *testing.T) {
	inCluster(t, func(c *redistest.Cluster, f fleet) {
		master := c.Nodes()[0]
		config := func(name, value string) { master.Do(t, "CONFIG", "SET", name, value) }
		holders := f.keep(lasting, "held")
		crowds := f.crowds(2)
		dump := filepath.Join(master.Strings(t, "CONFIG", "GET", "dir")[1], "dump.rdb")
		for what, fault := range map[string]struct{ begin, end func() }{
			"NOREPLICAS": {func() { config("min-replicas-to-write", "3") }, func() { config("min-replicas-to-write", "0") }},
			"MISCONF": {func() {
				if err := os.Mkdir(dump, 0o700); err != nil { // which no file can replace
					t.Fatal(err)
				}
				config("save", "3600 100000")
				f[0].eventually(10*time.Second, "saving fails", func() bool {
					_, _ = master.Try("BGSAVE")
					_, err := master.Try("SET", f[0].prefix, "x")
					return err != nil
				})
			}, func() { config("save", ""); _ = os.Remove(dump) }},
		} {
			crowds.await(10)
			master.Do(t, "DEL", f[0].prefix)
			fault.begin()
			var wg sync.WaitGroup
			for _, w := range f {
				wg.Go(func() {
					_, err := w.clients[0].Mutex(w.key("other")).TryLock(t.Context())
					if !errors.Is(err, holdfast.ErrUnavailable) {
						w.errorf("%s: %v", what, err)
					}
				})
			}
			wg.Wait()
			var q *queue
			<-redistest.Outage(300*time.Millisecond, func() {
				q = f[0].line(f[0].clients[0].Mutex(f[0].key("patient")))
			}, fault.end)
			q.end(20 * time.Second)
		}
		master.Do(t, "DEL", f[0].prefix)
		crowds.await(10)
		crowds.end()
		holders.kept()
	}, patient)
}
