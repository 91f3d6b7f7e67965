package server

import (
	"runtime/debug"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/holdfasttest/memory"
)

// startEmbedded runs a server inside this process.
func startEmbedded(addr string) (*Server, error) {
	l, err := listen(addr)
	if err != nil {
		return nil, err
	}
	s, done := memory.New(), make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // until the listener is closed
	}()
	stop := sync.OnceFunc(func() {
		_ = l.Close()
		<-done
	})
	return &Server{
		What: "embedded server " + version(), URL: "redis://" + l.Addr().String(), Embedded: true,
		Stop: stop, Ended: done, LastWords: func() string { return "" }, SetLogger: s.SetLogger,
	}, nil
}

// version returns the version of the module of the server in this build.
func version() string {
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, m := range b.Deps {
			if strings.HasSuffix(m.Path, "/holdfasttest") {
				return strings.TrimPrefix(m.Version, "v")
			}
		}
	}
	return "(devel)"
}

// IsEmbedded reports whether info, the reply to INFO, is that of an embedded server
// or of a miniredis, which has no version.
func IsEmbedded(info map[string]string) bool {
	return info[memory.Field] != "" || info["redis_version"] == ""
}
