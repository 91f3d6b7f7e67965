package server

import (
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	protocol "github.com/alicebob/miniredis/v2/server"
)

// tick is the resolution of the clock of the embedded server. A key may expire
// this much too early. Leases allow for that.
const tick = 2 * time.Millisecond

// startEmbedded runs miniredis. It sets the clock of miniredis explicitly, so that
// time does not advance during a script: otherwise a key could expire between two
// commands of the script.
func startEmbedded(addr string) (*Server, error) {
	l, err := listen(addr)
	if err != nil {
		return nil, err
	}
	m := miniredis.NewMiniRedis()
	m.SetTime(time.Now())
	m.ClockTTL(true)
	first, err := m.Dial() // starts miniredis without a listener of its own
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	_ = first.Close()
	what := "miniredis " + moduleVersion("github.com/alicebob/miniredis/v2")
	m.Server().SetPreHook(infoHook(what))

	var goroutines sync.WaitGroup
	done := make(chan struct{})
	goroutines.Go(func() { accept(l, m.Server()) })
	goroutines.Go(func() { moveClock(m, done) })
	stop := sync.OnceFunc(func() {
		_ = l.Close()
		close(done)
		goroutines.Wait()
		m.Close()
	})
	return &Server{
		What: what, URL: "redis://" + l.Addr().String(), Embedded: true,
		Stop: stop, Ended: done, LastWords: func() string { return "" },
	}, nil
}

// accept serves connections until the listener is closed.
func accept(l net.Listener, s *protocol.Server) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		s.ServeConn(newBufferedConn(conn))
	}
}

func moveClock(m *miniredis.Miniredis, done <-chan struct{}) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			m.SetTime(time.Now())
		case <-done:
			return
		}
	}
}

// infoHook answers INFO with the fields that clients need and miniredis lacks. It
// also sets embeddedField: see [IsEmbedded].
func infoHook(what string) protocol.Hook {
	began := time.Now()
	id := fmt.Sprintf("%016x%016x%08x", began.UnixNano(), os.Getpid(), 0)
	return func(c *protocol.Peer, command string, _ ...string) bool {
		if command != "INFO" {
			return false
		}
		c.WriteBulk(strings.Join([]string{
			"# Server", "redis_version:7.0.0", embeddedField + ":" + what, "run_id:" + id,
			fmt.Sprint("process_id:", os.Getpid()), fmt.Sprint("uptime_in_seconds:", int(time.Since(began).Seconds())),
			"# Replication", "role:master", "connected_slaves:0", "master_replid:" + id,
			"# Cluster", "cluster_enabled:0", "",
		}, "\r\n"))
		return true
	}
}

// embeddedField is the field of INFO that only the embedded server has.
const embeddedField = "holdfast_embedded"

// IsEmbedded reports whether info, the reply to INFO, is that of an embedded server
// or of another miniredis, which has no version.
func IsEmbedded(info map[string]string) bool {
	return info[embeddedField] != "" || info["redis_version"] == ""
}

// moduleVersion returns the version of a module in this build.
func moduleVersion(path string) string {
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, m := range b.Deps {
			if m.Path == path {
				return strings.TrimPrefix(m.Version, "v")
			}
		}
	}
	return "(unknown version)"
}
